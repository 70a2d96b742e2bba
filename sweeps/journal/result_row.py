"""The result row of one job or skipped combination (`sweeps.results.ResultRow`), computed from the journal's records.
Pure."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from sweeps.batches import BatchShare
from sweeps.journal.plans import skipped_key
from sweeps.label_kinds import disqualified
from sweeps.manifest import Manifest
from sweeps.metrics import METRICS
from sweeps.planning.planned_job import PlannedJob, PlannedSkip, PlannedUnder
from sweeps.protocol.clock import figure_ns
from sweeps.protocol.device_time import full_seconds, spent
from sweeps.protocol.not_ready import figures_text, worst
from sweeps.protocol.sentinel_rules import in_race
from sweeps.records import Accuracy, Block, Failed, Job, Lack, Measured, Skipped, Timing
from sweeps.results import ResultRow
from sweeps.settled import Settled
from sweeps.spec.label import label_of


def row_of_job(
    sweep: str,
    planned: PlannedJob,
    outcome: Measured | Failed,
    blocks: Sequence[Block],
    manifest: Manifest | None,
    settled: Settled | None = None,
    sessions: tuple[int, ...] = (),
    batches: BatchShare | None = None,
) -> ResultRow:
    """Return the row of a finished job. `blocks`: the job's blocks, including those that only check batches. `settled`:
    why the job's rounds ended. `sessions`: the starts of the blocks' sessions. `batches`: the job's share of the
    batches that timed it."""
    job = planned.job
    metrics = {} if manifest is None else manifest.metrics
    about: dict[str, Any] = {"emulated": job.emulated, "settled": settled, "sessions": sessions, "link": job.link}
    if isinstance(outcome, Measured):
        for part in (outcome.timing, outcome.accuracy):
            metrics |= {} if part is None else {**_figures(part), **part.extra_metrics}
        about |= _about_measured(outcome.timing, outcome.accuracy, blocks)
        about |= _with_batches(about, batches or BatchShare())
    else:
        about |= {"outcome": "failed", "stage": outcome.stage, "kind": outcome.kind, "reason": outcome.text}
    return _row(sweep, job.key, job.build_key, job, planned, metrics, about)


def row_of_skipped(sweep: str, planned: PlannedSkip) -> ResultRow:
    skipped = planned.skipped
    about = {"outcome": "skipped", "kind": skipped.kind, "reason": skipped.reason}
    return _row(sweep, skipped_key(skipped), "", skipped, planned, {}, about)


def row_of_waiting(sweep: str, job: Job) -> ResultRow:
    """Return the row of a job that has no result yet: its variant and run axes, but nothing of the device's facts or
    the protocol. Such a row is never stored."""
    return ResultRow(
        sweep=sweep,
        job_key=job.key,
        build_key=job.build_key,
        name=job.name,
        model=job.model,
        grid=job.grid,
        device_id=job.device_id,
        device_word=job.device_word,
        device="",
        fingerprint="",
        variant=label_of(job.variant),
        outcome="waiting",
        preset="",
        exec_context="",
        runtime_version="",
        **asdict(job.variant),
        **asdict(job.run),
    )


def gate_of(blocks: Iterable[Block]) -> str:
    """Return `gated` if the readiness gate was applied before every block, otherwise `none`."""
    return "none" if any(block.conditions.gate == "none" for block in blocks) else "gated"


def fixed_performance_of(blocks: Iterable[Block]) -> str:
    """Return `on` or `off`; empty if the device has no fixed-performance mode; for blocks of several modes, their names
    joined by " and "."""
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
                (block.visit, figure_ns(block.samples_ns) / 1e6)
                for block in checks
                if not disqualified(in_race(block.labels))
            ),
        }
    if timing is not None and (own := [block for block in blocks if not block.checks]):
        last, lacking = own[-1], worst(_lacking(own))
        about |= {
            "exec_context": last.conditions.exec_context,
            "runtime_version": last.runtime_version,
            "runner": last.runner,
            "engine_ran": last.engine_ran,
            "backend_ran": last.backend_ran,
            "trust": timing.labels,
            "reason": "; ".join(lack.text for lack in lacking),
            "lacking": figures_text(lacking),
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


def _lacking(blocks: Iterable[Block]) -> Iterator[Lack]:
    """Yield the conditions that a device still lacked when the wait for them timed out."""
    for block in blocks:
        if block.conditions.gate == "timed_out":
            yield from block.conditions.lacking


def _with_batches(about: Mapping[str, Any], share: BatchShare) -> dict[str, Any]:
    """Return the batches' figures of a row, and `about`'s timed and waited seconds with the batches' seconds added."""
    return {
        "batch_seconds": round(share.device_seconds, 3),
        "batch_medians_ms": share.medians_ms,
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
        device_word=entry.device_word,
        device=facts.device_class,
        fingerprint=facts.fingerprint,
        variant=label_of(entry.variant),
        preset=planned.protocol.preset,
        protocol=json.dumps(planned.protocol.comparable(), sort_keys=True),
        stale=planned.stale,
        metrics={name: value for name, value in metrics.items() if math.isfinite(value)},
        **values,
    )


def _figures(part: Timing | Accuracy) -> Mapping[str, float]:
    if isinstance(part, Timing):
        return part.figures
    values = {name: getattr(part, name, None) for name in METRICS}
    return {name: float(value) for name, value in values.items() if value is not None}
