"""The Ray actors of a device host: its agent, and one process for each device that measures."""

import threading
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import ray
from ray import exceptions
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from sweeps.device_facts import DeviceFacts
from sweeps.records import Failed
from workers.artifacts import PackedArtifact
from workers.executors.lane import Lane, failed_by
from workers.hosts.interface import Granted, Hello, Queued
from workers.hosts.this_machine import HostConfig, agent_of
from workers.measure.bench import AnswerT, Request

CLOSE_S = 10.0
"""For a device's process to hand the device back."""
_TEND_S = 1.0
_ANY_BYTES = 1
"""Memory that an actor asks for, so that it asks for anything at all. Ray has actors that ask for nothing started
through any node, also through one that was killed and that Ray still waits for: those hang for minutes. Others are
started through the node of whoever starts them."""
_CALLS = 128
"""At once, of one host: a driver watches each host all the time, and waits in one call per device."""


@ray.remote(num_cpus=0, memory=_ANY_BYTES, max_restarts=0, max_concurrency=_CALLS)
class HostActor:
    """Carries the calls of drivers to the agent."""

    def __init__(self, config: HostConfig, boot: int) -> None:
        self._agent = agent_of(config, boot, _RayWorker)
        self._agent.tend()
        threading.Thread(target=self._tend, daemon=True).start()

    def hello(self) -> Hello:
        return self._agent.hello()

    def watch(self, change: int, timeout_s: float) -> Hello | None:
        return self._agent.watch(change, timeout_s)

    def acquire(self, device_id: str, who: str) -> Granted | Queued:
        return self._agent.acquire(device_id, who)

    def beat(self, who: str, epochs: Mapping[str, int]) -> frozenset[str]:
        return self._agent.beat(who, epochs)

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
        """`request` and `shared` as `workers.measure.crossing.parted` returns them."""
        return self._agent.run(*lease, replace(request, **shared), acknowledged)

    def acknowledge(self, results: Sequence[str]) -> None:
        self._agent.acknowledge(results)

    def leave(self, timeout_s: float) -> None:
        self._agent.leave(timeout_s)

    def _tend(self) -> None:
        while True:
            with suppress(Exception):  # whatever one device or the disk does: the next round may do better
                self._agent.tend()
            time.sleep(_TEND_S)


class _RayWorker:
    """A process for one device, on the agent's own node. It ends with the agent."""

    def __init__(self, facts: DeviceFacts, folder: Path) -> None:
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        actor_class: Any = _DeviceActor
        self._actor = actor_class.options(scheduling_strategy=here).remote(facts, folder)

    def ask(self, request: Request[AnswerT]) -> AnswerT | Failed:
        try:
            answer: AnswerT | Failed = ray.get(self._actor.ask.remote(request))
            return answer
        except exceptions.RayTaskError as error:
            return failed_by(request.stage, error.cause)
        except exceptions.RayError as error:
            message = f"the device's worker process ended: {error}"[:500]
            return Failed(stage=request.stage, kind="worker_lost", message=message)

    def close(self) -> None:
        with suppress(exceptions.RayError):
            ray.get(self._actor.close.remote(), timeout=CLOSE_S)
        ray.kill(self._actor)

    def kill(self) -> None:
        ray.kill(self._actor)


@ray.remote(num_cpus=0, memory=_ANY_BYTES, max_restarts=0)
class _DeviceActor:
    """Measures on one device, one request at a time."""

    def __init__(self, facts: DeviceFacts, folder: Path) -> None:
        self._lane = Lane(facts, folder)

    def ask(self, request: Request[AnswerT]) -> AnswerT | Failed:
        return self._lane.ask(request)

    def close(self) -> None:
        self._lane.close()
