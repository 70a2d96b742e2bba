"""The journal's evidence about one job, or about one device, for readers who need only that."""

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
    """One block of a sentinel: how fast the device itself was."""

    stored: datetime
    position: int
    session: int
    """The run of the driver, as `sweeps.records.Block.session`."""
    check: int
    """Blocks of one check follow each other at once."""
    ms: float
    temp_c: float | None
    battery_percent: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentinel:
    """The looks of one sentinel in the order of measuring, and the spans in which the device changed its speed."""

    looks: tuple[Look, ...]
    spans: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEvidence:
    """One job of a sweep. `row` is `None` while it waits for its end."""

    planned: PlannedJob
    row: ResultRow | None
    blocks: tuple[DatedBlock, ...]
    changed: frozenset[int]
    """The positions of those of the job's blocks in which the device changed its speed."""
    failures: tuple[Failed, ...]
    """The failures of the job and of its build, since the last retry."""
    settled: Settled | None
    manifest: Manifest | None
    accuracy: Accuracy | None
    sentinel: Sentinel


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownDevice:
    """A device of the current plans, with its facts in the latest of them."""

    facts: DeviceFacts
    sweeps: tuple[str, ...]
    """The sweeps whose plans have the device, the latest first."""

    @property
    def place_ids(self) -> tuple[str, str]:
        """The ids that the device's results may be stored under: its own, and that of its pool."""
        return self.facts.device_id, pool_id(self.facts.fingerprint)


def read_job(journal: Journal, sweep: str, job_key: str) -> JobEvidence | None:
    """The evidence about one job; `None` if the sweep never had the job. Raises `StoreError`."""
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
    """The devices of the current plans of all sweeps, those of the latest sweep first."""
    facts: dict[str, DeviceFacts] = {}
    sweeps: dict[str, list[str]] = {}
    for sweep, record in journal.plans.current_devices():
        device_facts = from_json(DeviceFacts, record)
        facts.setdefault(device_facts.device_id, device_facts)
        sweeps.setdefault(device_facts.device_id, []).append(sweep)
    return [KnownDevice(facts=device, sweeps=tuple(sweeps[key])) for key, device in facts.items()]


def read_sentinels(journal: Journal, device: KnownDevice) -> tuple[Sentinel, ...]:
    """The sentinels that jobs with a result on this device had, each with all its looks."""
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
