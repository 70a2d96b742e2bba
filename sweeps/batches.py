"""The results of a batch: short blocks of several artifacts in one process, which are no `Block`s and in no `Timing`.

Processes differ by a few percent, whatever runs in them. The items of one batch share their process, so its effect
cancels in their ratios; it does not average out within the batch.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sweeps.records import Conditions, Failed, Job

FEWEST = 3
"""A model with fewer builds is not measured in batches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchItem:
    """One artifact's short block in a process that also ran others."""

    job_key: str
    samples_ns: tuple[int, ...]
    warmup_ns: tuple[int, ...]
    """The times of all warm-up iterations after the first inference."""
    first_inference_ns: int | None
    """The figures `first_inference_ns` and `load_ns` depend on what ran before in the same process: they are not to
    publish."""
    load_ns: int | None
    backend_ran: str
    engine_ran: str
    threads_ran: int
    runner: str
    """The name and version of the program, and the revision of its batches, e.g. `python-torchscript 2 batch 1`."""
    runtime_version: str
    artifact_sha256: str
    """The hash of the file that the runner loaded, as it reported it; it is the one that was asked for."""
    conditions: Conditions
    """The conditions of the whole process: equal for all items of one batch."""
    labels: tuple[str, ...] = ()
    """The trust labels of this item (see `sweeps.label_kinds.TRUST`)."""


@dataclass(frozen=True, slots=True)
class NotReached:
    """The process ended before this item, which has neither succeeded nor failed: it can be asked for again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One process that timed several jobs one after the other."""

    outcomes: tuple[BatchItem | Failed | NotReached, ...]
    """The outcomes of the jobs of the request, in its order, which is the order in which they ran.

    Where the process crashed or hung, the item at which it ended is a `Failed` and those after it are `NotReached`. An
    item whose runner reported an error is a `Failed` too, but the items after it ran. So whoever asks again for what
    was not reached leaves out what ended the batch, and gets fewer items each time.
    """
    device_seconds: float
    """The time of the process on the device's clock, with its start, without the wait before it and pushing files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredBatch:
    """One process that timed several jobs."""

    session: int
    """The session is as of a `Block`."""
    number: int
    """The number counts the batches of a contest in this session, from 0. A batch that ended early and was continued
    has several processes of one number."""
    device_seconds: float
    """The time is as of a `Batch`; 0 where the process gave no report at all."""
    items: Mapping[str, BatchItem]
    """The items by job key."""
    failed: Mapping[str, Failed] = field(default_factory=dict)
    """The jobs that are measured alone from then on, by job key, with the reason. Journals of early versions do not
    have them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchShare:
    """The time that one job took of the processes that timed it beside others, in seconds on the device's clock.

    The shares of all jobs of a process add up to it.
    """

    device_seconds: float = 0.0
    """The share is an equal part of each process: its start belongs to all alike."""
    timed_seconds: float = 0.0
    """The time of the job's own timed iterations."""
    waited_seconds: float = 0.0
    """The share is an equal part of each wait for the gate."""
    medians_ms: tuple[tuple[int, float], ...] = ()
    """The job's own medians by the number of the process, in the order of measuring: only medians that count."""


def group_of(job: Job) -> str:
    """Return the group of a job. Jobs of one group can share a process: one runtime and release of it, program, number
    of threads and CPUs."""
    variant = job.variant
    return f"{variant.runtime} {variant.runner_toolchain} {variant.format} {job.run.threads} {job.run.cpus}"


def one_process(groups: Iterable[str | None]) -> bool:
    """Tell whether builds of these groups are all measured in one batch; `None` has no batches."""
    all_groups = list(groups)
    return len(all_groups) >= FEWEST and len(set(all_groups)) == 1 and None not in all_groups
