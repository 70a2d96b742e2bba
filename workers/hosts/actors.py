"""The Ray actor of a device host: carries the calls of drivers to its agent."""

import threading
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import ray

from sweeps.errors import EdgeSweepError
from sweeps.records import Failed
from workers.artifacts import PackedArtifact
from workers.hosts.device_process import DeviceProcess
from workers.hosts.handshake import About, about
from workers.hosts.interface import Beat, Granted, Hello, Hint, Queued
from workers.hosts.this_machine import HostConfig, agent_of, versions
from workers.measure.device_runner import AnswerT, Request

_TEND_S = 1.0
_ANY_BYTES = 1
"""The memory that an actor requests, so that it requests any resource at all. Ray starts actors that request nothing
through any node, even through one that was killed and that Ray still waits for: those hang for minutes. Other actors
are started through the node of the process that starts them."""
_CALLS = 128
"""The number of calls that run at once on one host: a driver watches each host all the time, and waits in one call per
device."""


@ray.remote(num_cpus=0, memory=_ANY_BYTES, max_restarts=0, max_concurrency=_CALLS)
class HostActor:
    """The actor that carries the calls of drivers to the agent."""

    def __init__(self, config: HostConfig, boot: int) -> None:
        self._about = about(config.name, config.machine(), boot, versions())
        self._refused: EdgeSweepError | None = None
        try:
            self._agent = agent_of(config, boot, DeviceProcess)
            self._agent.tend()
        except EdgeSweepError as error:  # if an actor dies in its start, Ray reports a traceback as text
            self._refused = error
            return
        threading.Thread(target=self._tend, daemon=True).start()

    def check(self) -> None:
        """Raise the error that kept the agent from starting."""
        if self._refused is not None:
            raise self._refused

    def about(self) -> About:
        """Return the identity of this host, in a form that never changes, so that drivers of all versions can read
        it."""
        return self._about

    def hello(self) -> Hello:
        return self._agent.hello()

    def acquire(self, device_id: str, who: str) -> Granted | Queued:
        return self._agent.acquire(device_id, who)

    def beat(self, who: str, epochs: Mapping[str, int], change: int, timeout_s: float) -> Beat:
        return self._agent.beat(who, epochs, change, timeout_s)

    def release(self, device_id: str, epoch: int) -> None:
        self._agent.release(device_id, epoch)

    def free(self, device_id: str) -> str:
        return self._agent.free(device_id)

    def missing(self, build_keys: Collection[str]) -> frozenset[str]:
        return self._agent.missing(build_keys)

    def receive(self, packed: PackedArtifact) -> None:
        self._agent.receive(packed)

    def run(
        self, lease: tuple[str, int], request: Request[AnswerT], acknowledged: Sequence[str], **shared: Any
    ) -> AnswerT | Failed:
        """Return the answer to a request; `request` and `shared` are as `workers.measure.crossing.parted` returns
        them."""
        return self._agent.run(*lease, replace(request, **shared), acknowledged)

    def acknowledge(self, results: Sequence[str]) -> None:
        self._agent.acknowledge(results)

    def hint(self, hint: Hint) -> None:
        self._agent.hint(hint)

    def leave(self, timeout_s: float) -> None:
        self._agent.leave(timeout_s)

    def _tend(self) -> None:
        while True:
            with suppress(Exception):  # one device or the disk may fail: the next round may do better
                self._agent.tend()
            time.sleep(_TEND_S)
