"""The journal's evidence about one job or one device, read without the rest of the sweep."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sweeps.device_facts import DeviceFacts, pool_id
from sweeps.errors import StoreError
from sweeps.journal.attempts import DatedBlock
from sweeps.journal.journal import Journal
from sweeps.journal.outcomes import build_failure_keys
from sweeps.json_records import from_json
from sweeps.manifest import Manifest
from sweeps.planning.planned_job import PlannedJob
from sweeps.protocol.clock import figure_ns
from sweeps.protocol.sentinel_rules import Span, changed_spans, check_of
from sweeps.records import Accuracy, Failed
from sweeps.results import ResultRow
from sweeps.settled import Settled


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One block of a sentinel, which shows how fast the device itself was."""

    stored: datetime
    position: int
    session: int
    """Number of the driver's run, as `sweeps.records.Block.session`."""
    check: int
    """Number of the sentinel look. Its blocks follow each other without a pause."""
    ms: float
    temp_c: float | None
    battery_percent: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentinel:
    """Blocks of one sentinel in the order of measuring, and the spans in which the device's own speed had changed."""

    looks: tuple[Look, ...]
    spans: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEvidence:
    """All evidence about one job of a sweep. `row`: its result row, `None` while it has none."""

    planned: PlannedJob
    row: ResultRow | None
    blocks: tuple[DatedBlock, ...]
    changed: frozenset[int]
    """Positions of the job's blocks that lie in a span in which the device's own speed had changed."""
    failures: tuple[Failed, ...]
    """The failures of the job and of its build, since the last retry."""
    settled: Settled | None
    manifest: Manifest | None
    accuracy: Accuracy | None
    sentinel: Sentinel


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownDevice:
    """Device of the sweeps' current plans, with its facts from the latest plan."""

    facts: DeviceFacts
    sweeps: tuple[str, ...]
    """Names of the sweeps whose current plans have the device, the latest first."""

    @property
    def place_ids(self) -> tuple[str, str]:
        """The ids under which the device's results may be stored: the device's id, and its pool's."""
        return self.facts.device_id, pool_id(self.facts.fingerprint)


def read_job(journal: Journal, sweep: str, job_key: str) -> JobEvidence | None:
    """Return the evidence about one job; `None` if the sweep never had the job. Raises `StoreError`."""
    try:
        planned = journal.jobs.planned(sweep, job_key)
    except StoreError:
        return None
    job, evaluation_id = planned.job, planned.evaluation_id
    stored = journal.results.stored(sweep, job_key)
    blocks = tuple(journal.attempts.dated_blocks(job_key))
    sentinel = _sentinel(journal.attempts.dated_blocks(job.sentinel)) if job.sentinel else Sentinel(looks=())
    accuracy = None
    if evaluation_id is not None:
        accuracy = journal.attempts.accuracy(job.build_key, evaluation_id, job.variant.qengine, planned.executor)
    return JobEvidence(
        planned=planned,
        row=None if stored is None else stored[0],
        blocks=blocks,
        changed=frozenset(
            dated.placed.position for dated in blocks if any(span.holds(dated.placed) for span in sentinel.spans)
        ),
        failures=tuple(
            failed
            for key in (*build_failure_keys(job, evaluation_id), job.key)
            for failed in journal.attempts.failures(key)
        ),
        settled=journal.attempts.settled(job_key, planned.protocol),
        manifest=journal.artifacts.latest(job.build_key),
        accuracy=accuracy,
        sentinel=sentinel,
    )


def known_devices(journal: Journal) -> list[KnownDevice]:
    """Return the devices of all sweeps' current plans; those of the latest sweep come first."""
    facts: dict[str, DeviceFacts] = {}
    sweeps: dict[str, list[str]] = {}
    for sweep, record in journal.plans.current_devices():
        device_facts = from_json(DeviceFacts, record)
        facts.setdefault(device_facts.device_id, device_facts)
        sweeps.setdefault(device_facts.device_id, []).append(sweep)
    return [KnownDevice(facts=device, sweeps=tuple(sweeps[key])) for key, device in facts.items()]


def read_sentinels(journal: Journal, device: KnownDevice) -> tuple[Sentinel, ...]:
    """Return the sentinels of all jobs that have a result on this device, each with all its blocks; sentinels without a
    block are left out."""
    keys = dict.fromkeys(
        key
        for sweep in device.sweeps
        for key in journal.sentinels.keys(sweep, device.facts.device_id, device.place_ids)
    )
    sentinels = [_sentinel(journal.attempts.dated_blocks(key)) for key in keys]
    return tuple(sentinel for sentinel in sentinels if sentinel.looks)


def _sentinel(blocks: Sequence[DatedBlock]) -> Sentinel:
    return Sentinel(
        looks=tuple(_look(dated) for dated in blocks), spans=tuple(changed_spans([dated.placed for dated in blocks]))
    )


def _look(dated: DatedBlock) -> Look:
    block, conditions = dated.block, dated.block.conditions
    return Look(
        stored=dated.stored,
        position=dated.placed.position,
        session=block.session,
        check=check_of(block.round),
        ms=figure_ns(block.samples_ns) / 1e6,
        temp_c=conditions.temp_start_c,
        battery_percent=conditions.battery_percent,
    )
