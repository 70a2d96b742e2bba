"""The nodes of a model that its backend runs on a device; the remaining nodes run on the CPU without any message."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from sweeps.errors import RunnerError
from sweeps.records import Job
from workers.measure import processes
from workers.measure.device_runner import DeviceRunner
from workers.measure.run_request import run_request
from workers.runtimes import registry
from workers.runtimes.interface import PartitioningRuntime
from workers.toolchains.environments import command_within


@dataclass(frozen=True, slots=True)
class Partition:
    """The metrics and labels of a partition. Empty if the partition is not known, or if a backend runs all nodes or
    none."""

    metrics: Mapping[str, float] = field(default_factory=dict)
    labels: tuple[str, ...] = ()
    """The label `backend_fell_back` if the backend runs no node."""


def partition(device_runner: DeviceRunner, job: Job, deadline_s: float) -> Partition:
    """Run one profiled inference of the job's artifact, and count the nodes.

    Raises `DeviceError`, and `RunnerError` if the runner fails: a backend that runs no node must not go unnoticed.
    """
    runtime, backend = registry.get(job.variant.runtime), job.variant.backend
    if job.emulated or not isinstance(runtime, PartitioningRuntime) or not runtime.profiled_as(backend):
        return Partition()
    program = device_runner.program(job)
    if program is not None and program.tool is not None:
        return Partition()
    path = None if program is None else program.path
    manifest, model = device_runner.files.artifact(job.build_key)
    request = run_request(job.variant, job.run, manifest, model)
    argv = runtime.profile_command(request, iterations=1, warmup=0, program=path)
    argv = argv if path else command_within(argv, job.variant.runner_toolchain)
    try:
        _, profile = processes.output_of(device_runner.device, argv, runtime.parse_profile, deadline_s)
    except RunnerError as error:
        if error.kind != "bad_arguments":
            raise
        return Partition()  # an older runner does not profile
    nodes = Counter(run.where for run in profile.runs)
    backend_nodes = nodes[runtime.profiled_as(backend)]
    metrics = {"backend_nodes": float(backend_nodes), "cpu_nodes": float(nodes.total() - backend_nodes)}
    return Partition(metrics, () if backend_nodes or not nodes else ("backend_fell_back",))
