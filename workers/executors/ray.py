"""Runs builds and measurements on a Ray cluster.

Artifacts and images cross between machines as Ray objects, never as paths: no shared file system is assumed.
"""

import logging
import os
import socket
import subprocess
import time
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import ray
from ray import exceptions
from ray._private import services

from sweeps.device_facts import DeviceFacts
from sweeps.errors import ClusterError, DeviceError, EdgeSweepError
from sweeps.records import Failed, Job
from sweeps.variant import Variant
from workers.artifacts import ArtifactStore, PackedArtifact
from workers.executors.agents import end_all, end_with_driver, ray_processes
from workers.executors.build_queue import BuildQueue
from workers.executors.interface import CRASHED_BUILD, BuildRequest, Builds, DeviceLane, Stop
from workers.executors.lane import Lane, failed_by
from workers.executors.loopback import LOOPBACK
from workers.executors.process_builder import Builder
from workers.executors.vital_parts import VitalParts
from workers.forks.contained import GRACE_S
from workers.measure.crossing import parted
from workers.measure.device_files import Evaluation
from workers.measure.device_runner import AnswerT, Request
from workers.models.package import BuildInputs

NODE_FOLDER_VARIABLE = "EDGESWEEP_NODE_DIR"
"""The variable with the folder in which a node of the cluster stores artifacts and device files. Each node has a
separate folder."""

OUT_OF_MEMORY = Failed(stage="build", kind="out_of_memory", message="Ray ended the build: its node ran out of memory")
_ENDS_BUILDER = frozenset({CRASHED_BUILD.kind, OUT_OF_MEMORY.kind, "worker_lost"})
"""The failures after which a new builder is started: the old one is gone, or occupies memory that the next build
needs."""
_POLL_S = 0.5
_CONNECT_S = 5.0
_CLOSE_S = 2.0
_BUILDER_END_S = GRACE_S + 30.0
"""The time that a builder has to end processes that a model's code has started: they must not run during the first
block."""
_PLACED_S = 60.0
"""The time that a device's actor has to start. Without this limit, the start would wait as long as another sweep uses
the device."""


class RayExecutor:
    """The executor on a Ray cluster: builds run in one actor per CPU, and each device has one actor, placed by the
    resource `device:<id>`.

    Joins the cluster at `RAY_ADDRESS`, else starts Ray on this machine with the local device.
    """

    def __init__(self, folder: Path, device_ids: Collection[str] = ()) -> None:
        """Join the cluster at `RAY_ADDRESS`, else start a new Ray here. `device_ids`: the devices attached to this
        machine; used only if Ray is started here, not joined."""
        self._store = ArtifactStore(folder / "artifacts")
        self._lanes: list[_RayLane] = []
        self._parts: VitalParts
        self._guard: subprocess.Popen[bytes] | None = None
        address = os.environ.get("RAY_ADDRESS")
        # Read by ray.init: a start must not wait for the internet to report usage statistics.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        # Only workers that request a GPU would see one anyway. Future versions of Ray will do this by default.
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        # The event loop of the dashboard is set as in `workers.hosts.access`.
        os.environ.setdefault("RAY_USE_UVLOOP", "0")
        quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
        if address:
            _reachable(address)
        # The API server's only module queries the addresses of three clouds to find out where it runs, whatever the
        # settings.
        services.start_api_server = lambda *_, **__: ("", None)
        before = ray_processes()
        try:
            if address:
                ray.init(address=address, **quiet)
            else:
                # On one machine the node's folder is the workspace: nothing is stored twice.
                os.environ[NODE_FOLDER_VARIABLE] = str(folder)
                self._store.remove_abandoned()
                slots = {_resource(device_id): 1.0 for device_id in device_ids}
                ray.init(address="local", resources=slots, include_dashboard=False, _node_ip_address=LOOPBACK, **quiet)
                self._guard = end_with_driver()
            self._parts = VitalParts((NODE_FOLDER_VARIABLE, str(folder)))
        except Exception as error:  # Ray raises whatever its parts raise
            with suppress(Exception):  # Ray may not have started so far
                ray.shutdown()
            end_all(ray_processes() - before)
            self._end_guard()
            raise ClusterError(
                f"Ray cannot start: {error}",
                "check RAY_ADDRESS and free memory and disk, or work without Ray: --executor inline",
            ) from error

    def build(self, requests: Iterable[BuildRequest], stop: Stop) -> Builds:
        """Build with one builder per CPU. Each builder gets families that no other builder works on, so that no two
        builders run the same long stages."""
        queue = BuildQueue.of(requests)
        inputs: dict[int, tuple[BuildInputs, Any]] = {}
        call = self._parts.call
        cpus = call(ray.cluster_resources).get("CPU", 1)
        idle = [_ActorBuilder(self._parts) for _ in range(max(1, int(cpus)))]
        running: dict[Any, tuple[BuildRequest, _ActorBuilder]] = {}
        try:
            while running or (queue and not stop()):
                while idle and not stop():
                    builder = idle[-1]
                    request = queue.take(builder.family, [busy.family for _, busy in running.values()])
                    if request is None:
                        break
                    idle.pop()
                    builder.family = request.family
                    yield request, None
                    try:
                        # All builds of a model share one object with its weights and data.
                        shared = inputs.get(id(request.inputs)) or (request.inputs, call(ray.put, request.inputs))
                        inputs[id(request.inputs)] = shared
                        running[builder.start(request, shared[1])] = request, builder
                    except exceptions.RayError as error:  # the object store is full
                        self._parts.check()
                        idle.append(builder)
                        yield request, Failed(stage="build", kind="worker_lost", message=str(error)[:500])
                done, _ = call(ray.wait, list(running), timeout=_POLL_S) if running else ([], [])
                for reference in done:
                    request, builder = running.pop(reference)
                    outcome = call(_build_result, reference)
                    if isinstance(outcome, Failed):
                        self._parts.check()
                    if isinstance(outcome, Failed) and outcome.kind in _ENDS_BUILDER:
                        builder.end()
                    idle.append(builder)
                    if not queue or stop():
                        # Another builder may be waiting for its CPU.
                        for spare in idle:
                            spare.end(gently=True)
                    yield request, outcome
        finally:
            # Builds must not occupy memory while a device of this machine measures.
            for builder in idle:
                builder.end(gently=True)
            for _, busy in running.values():
                busy.end()

    def lane(self, facts: DeviceFacts) -> DeviceLane:
        resource = _resource(facts.device_id)
        if resource not in self._parts.call(ray.cluster_resources):
            raise ClusterError(
                f"no node of the Ray cluster has the device {facts.device_id}",
                f"start its host with: ray start --address=... --resources='{{\"{resource}\": 1}}'",
            )
        lane = _RayLane(facts, self._store, self._parts)
        self._lanes.append(lane)
        return lane

    def close(self) -> None:
        for lane in self._lanes:
            lane.close()
        try:
            self._parts.close(ray.shutdown)
        finally:
            self._end_guard()

    def _end_guard(self) -> None:
        if self._guard is not None:
            self._guard.kill()
            self._guard.wait()


class _RayLane:
    """The driver's side of a device actor."""

    def __init__(self, facts: DeviceFacts, store: ArtifactStore, parts: VitalParts) -> None:
        self._facts = facts
        self._store = store
        self._parts = parts
        self._images: dict[str, Any] = {}
        self._actor: Any = None

    def ask(self, request: Request[AnswerT]) -> AnswerT | Failed:
        """Return the answer of the device's actor. Raises `ClusterError` if the Ray of this run has ended."""
        answer = self._parts.call(self._answer, request)
        if isinstance(answer, Failed):
            self._parts.check()
        return answer

    def _answer(self, request: Request[AnswerT]) -> AnswerT | Failed:
        stage = request.stage
        try:
            if self._actor is None:
                actor_class: Any = _DeviceActor
                placed = actor_class.options(resources={_resource(self._facts.device_id): 1})
                self._actor = placed.remote(self._facts)
            for job in request.jobs:
                if not ray.get(self._actor.has.remote(job.build_key), timeout=_PLACED_S):
                    self._send(job)
            rest, shared = parted(request, self._share)
            answer: AnswerT | Failed = ray.get(self._actor.ask.remote(rest, **shared))
            return answer
        except exceptions.GetTimeoutError:
            ray.kill(self._actor)
            self._actor = None
            resource = _resource(self._facts.device_id)
            message = f"no worker could take {resource} within {_PLACED_S:.0f} s: another sweep of this cluster has it"
            return Failed(stage=stage, kind="leased", message=message)
        except exceptions.RayActorError as error:
            # The next call starts a new actor: only the process failed, not the device.
            self._actor = None
            return Failed(stage=stage, kind="worker_lost", message=f"the device's worker process ended: {error}"[:500])
        except exceptions.RayTaskError as error:
            return failed_by(stage, error.cause)
        except (exceptions.RayError, EdgeSweepError, OSError) as error:
            return failed_by(stage, error)

    def rest(self, seconds: float) -> None:
        time.sleep(seconds)

    def close(self) -> None:
        if self._actor is not None:
            # Do not wait for an actor that is measuring a block.
            _end(self._actor, self._parts)
            self._actor = None

    def _share(self, key: str, images: Evaluation) -> Any:
        """Return a Ray reference to the images, so that they are sent once."""
        if key not in self._images:
            self._images[key] = ray.put(images)
        return self._images[key]

    def _send(self, job: Job) -> None:
        manifest = self._store.find(job.build_key)
        if manifest is None:
            raise DeviceError("no_artifact", f"what was built of {job.name} is not in the workspace")
        ray.get(self._actor.receive.remote(self._store.pack(manifest)))


class _ActorBuilder:
    """The driver's side of a builder process. The process starts with the first build, and again after a crash or for
    another toolchain: modules that it has imported stay imported."""

    def __init__(self, parts: VitalParts) -> None:
        self._parts = parts
        self.family: tuple[object, ...] | None = None
        self._toolchain = ""
        self._actor: Any = None

    def start(self, request: BuildRequest, inputs: Any) -> Any:
        actor_class: Any = _BuildActor
        if self._toolchain != request.variant.toolchain:
            self.end()
        self._toolchain = request.variant.toolchain
        self._actor = self._actor or self._parts.call(actor_class.remote)
        return self._parts.call(self._actor.build.remote, request.build_key, request.variant, inputs)

    def end(self, *, gently: bool = False) -> None:
        """End the actor. `gently`: the actor is idle, and has ended all of its processes when this call returns."""
        if self._actor is not None:
            _end(self._actor, self._parts, within_s=_BUILDER_END_S if gently else None)
            self._actor = None


@ray.remote(num_cpus=1, max_restarts=0)
class _BuildActor:
    """The actor that builds one artifact at a time. A model's code runs in a separate process, which ends with this
    actor."""

    def __init__(self) -> None:
        self._builder = Builder(_node_folder() / "artifacts")

    def build(self, build_key: str, variant: Variant, inputs: BuildInputs) -> PackedArtifact | Failed:
        return self._builder.build(build_key, variant, inputs)

    def close(self) -> None:
        self._builder.close()


@ray.remote(num_cpus=0, max_restarts=0)
class _DeviceActor:
    """The actor of one device, on the node of that device. It measures one job at a time."""

    def __init__(self, expected: DeviceFacts) -> None:
        self._lane = Lane(expected, _node_folder())

    def has(self, build_key: str) -> bool:
        return self._lane.has(build_key)

    def receive(self, packed: PackedArtifact) -> None:
        self._lane.receive(packed)

    def ask(self, request: Request[AnswerT], **shared: Any) -> AnswerT | Failed:
        """Return the answer to a request. `request` and `shared` are as `parted` returns them."""
        return self._lane.ask(replace(request, **shared))

    def close(self) -> None:
        self._lane.close()


def _end(actor: Any, parts: VitalParts, *, within_s: float | None = _CLOSE_S) -> None:
    """End an actor. It may first close within this time (s); `None`: it is killed at once. If Ray has ended, so have
    its actors."""

    def end() -> None:
        if within_s is not None:
            with suppress(exceptions.RayError):
                ray.get(actor.close.remote(), timeout=within_s)
        ray.kill(actor)

    if not parts.have_ended:
        with suppress(ClusterError):
            parts.call(end)


def _build_result(reference: Any) -> PackedArtifact | Failed:
    try:
        result: PackedArtifact | Failed = ray.get(reference)
        return result
    except exceptions.OutOfMemoryError:
        return OUT_OF_MEMORY
    except exceptions.ActorUnavailableError as error:
        return Failed(stage="build", kind="worker_lost", message=str(error)[:500])
    except exceptions.RayActorError as error:
        if "node has died" in str(error):
            return Failed(stage="build", kind="worker_lost", message="the node that built it is gone")
        return OUT_OF_MEMORY if "low on memory" in str(error) else CRASHED_BUILD
    except exceptions.RayError as error:
        return Failed(stage="build", kind="worker_lost", message=str(error)[:500])


def _reachable(address: str) -> None:
    """Check the cluster's address first, because Ray would silently retry for many minutes. Raises `ClusterError`."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if not host or not port.isdigit():
        return  # for `auto` and similar values Ray fails at once
    try:
        socket.create_connection((host, int(port)), timeout=_CONNECT_S).close()
    except OSError as error:
        raise ClusterError(
            f"no Ray cluster answers at {address} (RAY_ADDRESS): {error}",
            "start it, unset RAY_ADDRESS to use this machine, or work without Ray: --executor inline",
        ) from error


def _node_folder() -> Path:
    return Path(os.environ.get(NODE_FOLDER_VARIABLE) or Path.home() / ".cache" / "edgesweep")


def _resource(device_id: str | None) -> str:
    return f"device:{device_id}"
