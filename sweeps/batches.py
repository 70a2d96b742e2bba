"""The results of a batch: short blocks of several artifacts in one process. They are no `Block`s and enter no `Timing`.

Latencies differ by a few percent from process to process, whatever a process runs. The items of one batch share their
process, so its effect cancels in their ratios; it does not average out within the batch.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sweeps.records import Conditions, Failed, Job

FEWEST = 3
"""A model with fewer builds is not measured in batches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchItem:
    """One artifact's short block in a process that also ran other artifacts."""

    job_key: str
    samples_ns: tuple[int, ...]
    warmup_ns: tuple[int, ...]
    """The times of all warm-up iterations after the first inference."""
    first_inference_ns: int | None
    """`first_inference_ns` and `load_ns` depend on what ran before in the same process, so they are not published."""
    load_ns: int | None
    backend_ran: str
    engine_ran: str
    threads_ran: int
    runner: str
    """The name and version of the runner, and the revision of its batches, e.g. `python-torchscript 2 batch 1`."""
    runtime_version: str
    artifact_sha256: str
    """The hash of the file that the runner loaded, as the runner reported it; it equals the requested one."""
    conditions: Conditions
    """The conditions of the whole process: equal for all items of one batch."""
    labels: tuple[str, ...] = ()
    """The trust labels of this item (see `sweeps.label_kinds.TRUST`)."""


@dataclass(frozen=True, slots=True)
class NotReached:
    """The outcome of an item that the process did not reach: neither success nor failure, so it can be requested
    again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One process that timed several jobs, one at a time."""

    outcomes: tuple[BatchItem | Failed | NotReached, ...]
    """The outcomes of the requested jobs, in the order of the request, in which they ran.

    If the process crashed or hung, the item at which it ended is a `Failed` and all items after it are `NotReached`. An
    item whose runner reported an error is a `Failed` too, but the items after it ran. So a request for the items that
    were not reached leaves out the item that ended the batch, and has fewer items each time.
    """
    device_seconds: float
    """The time of the process on the device's clock (seconds), with its start, without the wait before it and without
    pushing files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredBatch:
    """One process that timed several jobs, as the journal stores it."""

    session: int
    """The run of the driver, as `Block.session`."""
    number: int
    """The number of the batch within a contest in this session, from 0. A batch that ended early and was continued has
    several processes with the same number."""
    device_seconds: float
    """The time of the process, as `Batch.device_seconds`; 0 if the process gave no report at all."""
    items: Mapping[str, BatchItem]
    """The measured items by job key."""
    failed: Mapping[str, Failed] = field(default_factory=dict)
    """The jobs that are measured only alone from now on, by job key, with the reason. Journals of early versions do not
    have them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchShare:
    """One job's share of the time of the processes that timed it together with other jobs, in seconds on the device's
    clock.

    The shares of all jobs of a process add up to its time.
    """

    device_seconds: float = 0.0
    """An equal part of the time of each process: all its jobs share its start."""
    timed_seconds: float = 0.0
    """The time of the job's own timed iterations."""
    waited_seconds: float = 0.0
    """An equal part of each wait for the gate."""
    medians_ms: tuple[tuple[int, float], ...] = ()
    """The job's block medians (ms) by the number of the process, in the order of measuring: only medians that count."""


def group_of(job: Job) -> str:
    """Return the group of a job. Jobs of one group can share a process: they have the same runtime, release of it,
    program, number of threads and CPUs."""
    variant = job.variant
    return f"{variant.runtime} {variant.runner_toolchain} {variant.format} {job.run.threads} {job.run.cpus}"


def one_process(groups: Iterable[str | None]) -> bool:
    """Tell whether builds of these groups can all be measured in one batch; `None`: the build is not measured in
    batches."""
    all_groups = list(groups)
    return len(all_groups) >= FEWEST and len(set(all_groups)) == 1 and None not in all_groups
