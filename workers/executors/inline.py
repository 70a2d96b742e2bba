"""The executor for this machine, without Ray; builds run in a separate process."""

from collections.abc import Iterable
from pathlib import Path

from sweeps.device_facts import DeviceFacts
from workers.executors.build_queue import BuildQueue
from workers.executors.interface import BuildRequest, Builds, DeviceLane, Stop
from workers.executors.lane import Lane
from workers.executors.process_builder import Builder


class InlineExecutor:
    """An executor for this machine, without Ray: builds in one separate process, devices in this one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._builder = Builder(folder / "artifacts")
        self._lanes: list[DeviceLane] = []

    def build(self, requests: Iterable[BuildRequest], stop: Stop) -> Builds:
        queue = BuildQueue.of(requests)
        while not stop() and (request := queue.take_for(self)) is not None:
            yield request, None
            yield request, self._builder.build(request.build_key, request.variant, request.inputs)
        # Builds must not occupy memory while this machine measures.
        self._end_builder()

    def lane(self, facts: DeviceFacts) -> DeviceLane:
        lane = Lane(facts, self._folder)
        self._lanes.append(lane)
        return lane

    def close(self) -> None:
        """Kill a running build. A caller that wants its result waits in `build` instead."""
        for lane in self._lanes:
            lane.close()
        self._end_builder()

    def _end_builder(self) -> None:
        # `close` may be called while another thread builds.
        self._builder.close()
