"""The content of one MLflow run: params, metrics and tags, made from journal records. Pure."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace

from sweeps.device_facts import canonical_key
from sweeps.journal.result_row import row_of_skipped
from sweeps.journal.times import Span
from sweeps.manifest import Manifest
from sweeps.planning.planned_job import PlannedJob, PlannedSkip, PlannedUnder
from sweeps.records import Block
from sweeps.results import ResultRow
from sweeps.spec import lab_names
from sweeps.store.tag_text import cut, text_of
from sweeps.variant import LATER_AXES, RunAxes, Variant

TAG = "edgesweep."
RECORD, ATTEMPT_KEY, JOB_KEY, STALE = f"{TAG}record", f"{TAG}attempt_key", f"{TAG}job_key", f"{TAG}stale"
EVALUATION_ID = f"{TAG}evaluation_id"
COVERAGE = f"{TAG}coverage"
"""JSON of the manifest's `Coverage`, if it has one."""
BLOCK_MEDIAN = "block_median_ms"
"""A metric with one step per round, for MLflow's own pages."""
PUBLISHED = "edgesweep_published_s"
"""The metric that every run has: when it was written or last changed, in seconds since 1970. `end_time` is that of the
measurement. Within one sweep it grows with each change, also where the clock goes back."""

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
_LATER = tuple(
    _TAGS[name]
    for name in (
        *("timed_seconds", "push_seconds", "accuracy_seconds", "sessions", "batch_medians_ms"),
        *("lacking", "device_word"),  # the reason and the name have these
    )
)
"""Tags that runs of earlier versions lack: a run that is equal otherwise is not written again."""
_UNSAID_WITHOUT = ("confirmed_medians_ms", "check_medians_ms", "batch_seconds", "link")
"""Fields whose tags make a new run only where there is something to tell."""
_PLACE = ("device", "device_id")
"""Fields that are tags, and params too, by which MLflow's own pages filter and group."""
_STATUS = {"measured": "FINISHED", "failed": "FAILED", "skipped": "KILLED"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContent:
    """One run before it is written. `attempt_key` changes if anything changes except `stale` and what runs of
    earlier versions lack: some times, sessions, blocks that confirm and those in batches, and the params that name the
    device."""

    row: ResultRow
    attempt_key: str
    lasting: Mapping[str, Mapping[str, str]]
    """The params and tags that `attempt_key` is of, beside the metrics."""
    status: str
    params: Mapping[str, str]
    metrics: Mapping[str, float]
    block_medians_ms: tuple[tuple[int, float], ...]
    tags: Mapping[str, str]
    host: str = ""
    """The hosts of a lab where it was measured, or where the device was planned if nothing was; empty if the device is
    attached to the computer that publishes."""
    measured: Span | None = None
    """From the first process to the last one; `None` where nothing was measured."""

    def is_in(self, attempt_key: str, metrics: Mapping[str, float]) -> bool:
        """Tell whether a run with this key and these metrics has this content, but for rounding and for figures that
        came later than the run: a figure that is new writes no run again.

        Processors of different kinds give the same logarithm with other last digits.
        """
        written = {
            name: metrics[name] if math.isclose(value, metrics[name], rel_tol=1e-12) else value
            for name, value in self.row.metrics.items()
            if name in metrics
        }
        return attempt_key == _key(self.lasting, written)


def of_job(row: ResultRow, planned: PlannedJob, blocks: Sequence[Block], manifest: Manifest | None) -> RunContent:
    """The run of a finished job. `row`: as the journal has it."""
    content = of_row(row, planned, manifest)
    # A device may have moved since the plan, and between two blocks.
    hosts = ", ".join(dict.fromkeys(block.host for block in blocks if block.host))
    return replace(content, host=cut(hosts, MAX_PARAM_LENGTH)) if hosts else content


def of_skipped(sweep: str, planned: PlannedSkip) -> RunContent:
    return of_row(row_of_skipped(sweep, planned), planned, None)


def row_texts(params: Mapping[str, str], tags: Mapping[str, str]) -> dict[str, str]:
    """The fields of a row that a run says, by name; one that it does not say has its default."""
    named = {tag: name for name, tag in _TAGS.items()}
    texts = {named[tag]: text for tag, text in tags.items() if tag in named}
    return texts | {name: params[name] for name in _PARAMS if name in params}


def _key(lasting: Mapping[str, Mapping[str, str]], metrics: Mapping[str, float]) -> str:
    return canonical_key({**lasting, "metrics": metrics})


def of_row(row: ResultRow, planned: PlannedUnder, manifest: Manifest | None) -> RunContent:
    """The run of a row as the journal makes it."""
    versions = {} if manifest is None else manifest.versions
    # Runs in which a later axis says nothing are equal to those from before that axis, as in build keys.
    names = [name for name in _PARAMS if name not in LATER_AXES or getattr(row, name) != LATER_AXES[name]]
    params = {name: cut(text_of(getattr(row, name)), MAX_PARAM_LENGTH) for name in names}
    tags = {tag: cut(text_of(getattr(row, name)), MAX_TAG_LENGTH) for name, tag in _TAGS.items()}
    for name in ("block_medians_ms", "batch_medians_ms"):
        tags[_TAGS[name]] = _as_many_as_fit(getattr(row, name))
    tags[RECORD] = "job"
    tags[EVALUATION_ID] = planned.evaluation_id or ""
    tags[f"{TAG}versions"] = cut(json.dumps(versions, sort_keys=True), MAX_TAG_LENGTH)
    if manifest is not None and manifest.coverage is not None:
        tags[COVERAGE] = cut(manifest.coverage.text, MAX_TAG_LENGTH)
    unsaid = {STALE, *_LATER, *(_TAGS[name] for name in _UNSAID_WITHOUT if not getattr(row, name))}
    lasting = {name: value for name, value in tags.items() if name not in unsaid}
    keyed = {"params": params, "tags": lasting}
    tags[ATTEMPT_KEY] = _key(keyed, row.metrics)
    tags = {name: value for name, value in tags.items() if value != _DEFAULTS.get(name)}
    place = {name: cut(text_of(getattr(row, name)), MAX_PARAM_LENGTH) for name in _PLACE}
    return RunContent(
        row=row,
        attempt_key=tags[ATTEMPT_KEY],
        lasting=keyed,
        status=_STATUS[row.outcome],
        params=params | place,
        metrics=row.metrics,
        block_medians_ms=row.block_medians_ms,
        tags=tags,
        host=lab_names.host_of(planned.facts.name) or "",
    )


def _as_many_as_fit(medians: Sequence[tuple[int, float]]) -> str:
    """JSON of the last rounds that fit into a tag. Whole rounds are dropped, so that jobs are still paired by round."""
    while len(text := text_of(medians)) > MAX_TAG_LENGTH:
        medians = medians[len(medians) // 10 + 1 :]
    return text
