"""The content of one MLflow run: params, metrics and tags. Made from journal records, read as a `ResultRow`. Pure."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any

from sweeps.batches import BatchShare
from sweeps.device_facts import canonical_key
from sweeps.journal.plans import skipped_key
from sweeps.journal.times import Span
from sweeps.manifest import Manifest
from sweeps.metrics import METRICS, is_extra_name
from sweeps.planning.planned import PlannedJob, PlannedSkip, PlannedUnder
from sweeps.protocol.clock import figure_ns
from sweeps.protocol.sentinel import in_race
from sweeps.protocol.spent import spent
from sweeps.protocol.stopping import full_seconds
from sweeps.records import Accuracy, Block, Failed, Job, Measured, Skipped, Timing
from sweeps.results import ResultRow
from sweeps.settled import Settled
from sweeps.spec import places
from sweeps.spec.label import label_of
from sweeps.store.tag_text import cut, parsed, text_of
from sweeps.trust import disqualified
from sweeps.variant import RunAxes, Variant

TAG = "edgesweep."
RECORD, ATTEMPT_KEY, JOB_KEY, STALE = f"{TAG}record", f"{TAG}attempt_key", f"{TAG}job_key", f"{TAG}stale"
EVALUATION_ID = f"{TAG}evaluation_id"
COVERAGE = f"{TAG}coverage"
"""JSON of the manifest's `Coverage`, if it has one."""
BLOCK_MEDIAN = "block_median_ms"
"""A metric with one step per round, for MLflow's own pages."""
PUBLISHED = "edgesweep_published_s"
"""The metric that every run has: when it was written or last changed, in seconds since 1970. `end_time` is that of the
measurement. Within one sweep it grows with each change, also where the clock goes back. A reader of changes asks for
larger values than the largest that it has; where several computers write, for a minute less."""

# Limits that hold for every MLflow from 2.0 on; newer ones accept more.
MAX_TAG_LENGTH = 5000
MAX_PARAM_LENGTH = 500

_PARAMS = ("model", *(axis.name for axis in fields(Variant)), *(axis.name for axis in fields(RunAxes)))
_TAGS = {
    entry.name: f"{TAG}{'device_fingerprint' if entry.name == 'fingerprint' else entry.name}"
    for entry in fields(ResultRow)
    if entry.name not in ("metrics", "run_id", *_PARAMS)
}
"""The tag of each field of a row that is not a param."""
_DEFAULTS = {
    _TAGS[entry.name]: text_of(entry.default)
    for entry in fields(ResultRow)
    if entry.name in _TAGS and entry.default is not MISSING and entry.name != "stale"
}
"""Texts of fields that say nothing. Such a tag is not written: a run has 33 tags and not 48, and each costs a row in
MLflow's database whenever a run is written or read."""
_LATER = tuple(_TAGS[name] for name in ("timed_seconds", "push_seconds", "accuracy_seconds", "sessions"))
"""Tags that runs of earlier versions lack: a run that is equal otherwise is not written again."""
_UNSAID_WITHOUT = ("confirmed_medians_ms", "check_medians_ms", "batch_seconds", "link")
"""Fields whose tags make a new run only where there is something to tell."""
_PLACE = ("device", "device_id")
"""Fields that are tags, which readers read, and params too, by which MLflow's own pages filter and group."""
_STATUS = {"measured": "FINISHED", "failed": "FAILED", "skipped": "KILLED"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContent:
    """One run before it is written. `attempt_key` changes if anything changes except `stale` and what runs of
    earlier versions lack: some times, sessions, confirming blocks, and the params that name the device."""

    row: ResultRow
    attempt_key: str
    status: str
    params: Mapping[str, str]
    metrics: Mapping[str, float]
    block_medians_ms: tuple[tuple[int, float], ...]
    tags: Mapping[str, str]
    host: str = ""
    """The host of a lab that has the device; empty if the device is attached to the computer that publishes."""
    measured: Span | None = None
    """From the first process to the last one; `None` where nothing was measured."""


def of_job(
    sweep: str,
    planned: PlannedJob,
    outcome: Measured | Failed,
    blocks: Sequence[Block],
    manifest: Manifest | None,
    settled: Settled | None = None,
    sessions: tuple[int, ...] = (),
    batches: BatchShare | None = None,
) -> RunContent:
    """The run of a finished job. `blocks`: its own, also those that only check batches. `settled`: why its rounds
    ended. `sessions`: the starts of those that they are from. `batches`: its part of processes that timed others, too.
    """
    job = planned.job
    metrics = {} if manifest is None else {"artifact_mb": manifest.file_bytes / 1e6}
    about: dict[str, Any] = {"emulated": job.emulated, "settled": settled, "sessions": sessions, "link": job.link}
    if isinstance(outcome, Measured):
        metrics |= _figures(outcome.timing) | _figures(outcome.accuracy)
        metrics |= {} if outcome.timing is None else outcome.timing.extra_metrics
        about |= _about_measured(outcome.timing, outcome.accuracy, blocks)
        about |= _with_batches(about, batches or BatchShare())
    else:
        about |= {"outcome": "failed", "stage": outcome.stage, "kind": outcome.kind, "reason": outcome.message}
    row = _row(sweep, job.key, job.build_key, job, planned, metrics, about)
    return _content(row, planned, manifest)


def of_skipped(sweep: str, planned: PlannedSkip) -> RunContent:
    skipped = planned.skipped
    about = {"outcome": "skipped", "reason": skipped.reason}
    return _content(_row(sweep, skipped_key(skipped), "", skipped, planned, {}, about), planned, None)


def to_row(
    sweep: str, run_id: str, params: Mapping[str, str], metrics: Mapping[str, float], tags: Mapping[str, str]
) -> ResultRow:
    """The row in a run whose tag `edgesweep.record` is `job`. Fields that an older run lacks get their defaults.

    Raises `ValueError` or `TypeError` if the run is damaged.
    """
    values: dict[str, Any] = {}
    for entry in fields(ResultRow):
        text = params.get(entry.name) if entry.name in _PARAMS else tags.get(_TAGS.get(entry.name, ""))
        if text is not None:
            values[entry.name] = parsed(entry.name, entry.type, text)
    # Other programs may write to the same server: only names that a runner may give are read as its metrics.
    known = {
        name: value
        for name, value in metrics.items()
        if (name in METRICS or is_extra_name(name)) and math.isfinite(value)
    }
    return ResultRow(**(values | {"sweep": sweep, "run_id": run_id, "metrics": known}))


def gate_of(blocks: Iterable[Block]) -> str:
    """`gated` if each of the blocks waited for a ready device, otherwise `none`."""
    return "none" if any(block.conditions.gate == "none" for block in blocks) else "gated"


def fixed_performance_of(blocks: Iterable[Block]) -> str:
    """`on`, `off`, or empty where the device has no such mode. Blocks of several modes give a value of their own."""
    modes = {block.conditions.fixed_performance for block in blocks}
    words = {True: "on", False: "off", None: "none"}
    return "" if modes <= {None} else " and ".join(sorted(words[mode] for mode in modes))


def _about_measured(timing: Timing | None, accuracy: Accuracy | None, blocks: Sequence[Block]) -> dict[str, Any]:
    about: dict[str, Any] = {"outcome": "measured", "trust": ()}
    checks = [block for block in blocks if block.checks]
    if blocks:
        cost = spent(blocks)
        about |= {
            "device_seconds": round(sum(block.device_seconds for block in blocks), 3),
            "timed_seconds": round(cost.timed_s, 3),
            "waited_seconds": round(cost.waiting_s, 3),
            "push_seconds": round(cost.pushing_s, 3),
            "check_medians_ms": tuple(
                (one.visit, figure_ns(one.samples_ns) / 1e6) for one in checks if not disqualified(in_race(one.labels))
            ),
        }
    if timing is not None and (own := [block for block in blocks if not block.checks]):
        last = own[-1]
        about |= {
            "exec_context": last.conditions.exec_context,
            "runtime_version": last.runtime_version,
            "runner": last.runner,
            "engine_ran": last.engine_ran,
            "backend_ran": last.backend_ran,
            "trust": timing.labels,
            "block_medians_ms": timing.block_medians_ms,
            "confirmed_medians_ms": timing.confirmed_medians_ms,
            "gate": gate_of(own),
            "fixed_performance": fixed_performance_of(own),
            "full_seconds": round(full_seconds(own), 3),
            "rounds": timing.rounds,
            "samples": timing.samples,
        }
    if accuracy is not None:
        about |= {
            "executor": accuracy.executor,
            "emulated": accuracy.emulated,
            "images": accuracy.images,
            "accuracy_seconds": round(spent((), [accuracy]).measuring_s, 3),
            "trust": tuple(dict.fromkeys((*about["trust"], *accuracy.labels))),
        }
    return about


def _with_batches(about: Mapping[str, Any], share: BatchShare) -> dict[str, Any]:
    """The times of `about` with those of batches."""
    return {
        "batch_seconds": round(share.device_seconds, 3),
        "timed_seconds": round(about.get("timed_seconds", 0.0) + share.timed_seconds, 3),
        "waited_seconds": round(about.get("waited_seconds", 0.0) + share.waited_seconds, 3),
    }


def _row(
    sweep: str,
    key: str,
    build_key: str,
    entry: Job | Skipped,
    planned: PlannedUnder,
    metrics: Mapping[str, float],
    about: Mapping[str, Any],
) -> ResultRow:
    facts = planned.facts
    values: dict[str, Any] = {
        "exec_context": facts.exec_context,
        "runtime_version": dict(facts.runtime_versions).get(entry.variant.runtime, ""),
        **asdict(entry.variant),
        **asdict(entry.run),
        **about,
    }
    return ResultRow(
        sweep=sweep,
        job_key=key,
        build_key=build_key,
        name=entry.name,
        model=entry.model,
        grid=entry.grid,
        device_id=facts.device_id,
        device=facts.device_class,
        fingerprint=facts.fingerprint,
        variant=label_of(entry.variant),
        preset=planned.protocol.preset,
        protocol=json.dumps(planned.protocol.comparable(), sort_keys=True),
        stale=planned.stale,
        metrics={name: value for name, value in metrics.items() if math.isfinite(value)},
        **values,
    )


def _content(row: ResultRow, planned: PlannedUnder, manifest: Manifest | None) -> RunContent:
    versions = {} if manifest is None else manifest.versions
    # As in build keys: runs without a reduced range are equal to those from before this axis.
    names = [name for name in _PARAMS if name != "reduced_range" or row.reduced_range]
    params = {name: cut(text_of(getattr(row, name)), MAX_PARAM_LENGTH) for name in names}
    tags = {tag: cut(text_of(getattr(row, name)), MAX_TAG_LENGTH) for name, tag in _TAGS.items()}
    tags[_TAGS["block_medians_ms"]] = _as_many_as_fit(row.block_medians_ms)
    tags[RECORD] = "job"
    tags[EVALUATION_ID] = planned.evaluation_id or ""
    tags[f"{TAG}versions"] = cut(json.dumps(versions, sort_keys=True), MAX_TAG_LENGTH)
    if manifest is not None and manifest.coverage is not None:
        tags[COVERAGE] = cut(manifest.coverage.model_dump_json(), MAX_TAG_LENGTH)
    unsaid = {STALE, *_LATER, *(_TAGS[name] for name in _UNSAID_WITHOUT if not getattr(row, name))}
    lasting = {name: value for name, value in tags.items() if name not in unsaid}
    tags[ATTEMPT_KEY] = canonical_key({"params": params, "metrics": row.metrics, "tags": lasting})
    tags = {name: value for name, value in tags.items() if value != _DEFAULTS.get(name)}
    place = {name: cut(text_of(getattr(row, name)), MAX_PARAM_LENGTH) for name in _PLACE}
    return RunContent(
        row=row,
        attempt_key=tags[ATTEMPT_KEY],
        status=_STATUS[row.outcome],
        params=params | place,
        metrics=row.metrics,
        block_medians_ms=row.block_medians_ms,
        tags=tags,
        host=places.host_of(planned.facts.name) or "",
    )


def _figures(record: Timing | Accuracy | None) -> dict[str, float]:
    if record is None:
        return {}
    values = {name: getattr(record, name, None) for name in METRICS}
    return {name: float(value) for name, value in values.items() if value is not None}


def _as_many_as_fit(medians: Sequence[tuple[int, float]]) -> str:
    """JSON of the last rounds that fit into a tag. Whole rounds are dropped, so that jobs are still paired by round."""
    while len(text := text_of(medians)) > MAX_TAG_LENGTH:
        medians = medians[len(medians) // 10 + 1 :]
    return text
