"""Which variant to ship on which device, and how sure that is. Pure: results as a DataFrame in, a `Ranking` out.

Only like conditions meet. Within them every measured variant gets a verdict; of those that pass, the best one and all
that can not be told apart from it are tied, and the simplest of the tie wins.

When are two told apart? In latency (p50) when the paired ratio over their common rounds is resolved at 95 % and is at
least 2 %. A time without repeated rounds has no interval of its own, so it borrows what fresh processes of one and
the same artifact were seen to differ by: less than `UNREPEATED_SPREAD` is a tie. Metrics with an interval of another
kind (accuracy drop) are told apart when their intervals do not meet; all others, which do not vary from run to run,
when they differ by more than 2 %. First come those that are not told apart from the best estimate, nor are worse than
another of these. Every comparison stands at 95 % for itself.

What a host only checked, by a reference implementation of the backend, has an accuracy and no time. It is ranked where
the objective needs no time, and marked so; else it stands apart, with its verdict on the constraints.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import pandas as pd

from sweeps.result_rows import ResultRow, of_device, read_rows
from sweeps.spec import ObjectiveSpec
from sweeps.stats import ratio_by_rounds
from sweeps.verdict import (
    VERDICTS,
    ConstraintResult,
    Judgement,
    Verdict,
    direction,
    in_words,
    interval,
    judge,
    needs_time,
    objective_text,
)

NEGLIGIBLE = 0.02
"""Differences under 2 % are no reason to prefer one variant."""

UNREPEATED_SPREAD = 1.5
"""One MobileNetV2 artifact took 17 to 25 ms in fresh processes of one machine: a factor of 1.47."""

_LATENCY = "latency_p50_ms"
_UNREPEATED_TIMES = {_LATENCY, "latency_p90_ms", "latency_p99_ms", "first_inference_ms", "load_ms"}
_COUNTED = {"unresolved": "unresolved", "fail": "missing a constraint", "disqualified": "disqualified"}


class Ratio(NamedTuple):
    """A ratio and its 95 % interval; no interval with fewer than two common rounds."""

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A measured variant. Only one that is ranked, and whose verdict is `pass`, can win."""

    name: str
    variant: str
    job_key: str
    build_key: str
    figures: dict[str, float | None]
    """Every name in `METRICS`."""
    executor: str
    """What computed the accuracy: a device's fingerprint or `reference:<backend>@<version>`."""
    emulated: bool
    """Its answers are a reference implementation's, not the device's."""
    trust: tuple[str, ...]
    constraints: tuple[ConstraintResult, ...]
    verdict: Verdict
    why: str
    """Empty where it passes."""
    tied: bool = False
    """Shares the first place with others; of the winner too."""
    ratio_to_winner: Ratio | None = None
    """Latency (p50) as a multiple of the winner's, paired by round; whatever the objective is."""

    @property
    def timed(self) -> bool:
        return self.figures[_LATENCY] is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class NotRanked:
    """A variant without a measurement, and why."""

    name: str
    variant: str
    outcome: str
    """`failed` or `skipped`."""
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRanking:
    """Results of one model on one device under like conditions."""

    device: str
    device_id: str
    fingerprint: str
    model: str
    preset: str
    runtime_version: str
    exec_context: str
    metric: str
    """What the objective looks at."""
    winner: Candidate | None
    no_winner_reason: str
    """Empty where there is a winner."""
    tied: tuple[Candidate, ...]
    """Those that share the first place with the winner, without it."""
    ranking: tuple[Candidate, ...]
    """The winner, those tied with it, others that pass, unresolved, failed constraints, disqualified."""
    checked: tuple[Candidate, ...]
    """Those without a time, where the objective needs one: in the order of their verdicts, the most accurate first."""
    not_ranked: tuple[NotRanked, ...]
    imported: tuple[()] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """A sweep's results: one entry per device, model and set of conditions."""

    sweep: str
    objective: str
    """For people: `smallest latency_p50_ms with accuracy_drop_points at most 1 points`."""
    devices: tuple[DeviceRanking, ...]


def rank(frame: pd.DataFrame, objective: ObjectiveSpec, sweep: str, device: str | None = None) -> Ranking:
    """Rank the jobs of `sweep`, one row of `frame` each; rows that are `stale` do not count.

    `device` is a device's id or (part of) its text for people. Raises `EdgeSweepError` where nothing goes by it.
    """
    rows = read_rows(frame, sweep)
    if device is not None:
        rows = of_device(rows, device)
    entries: list[DeviceRanking] = []
    for place in sorted({row.place for row in rows}):
        here = [row for row in rows if row.place == place]
        measured = [row for row in here if row.outcome == "measured"]
        others = [_not_ranked(row) for row in here if row.outcome != "measured"]
        others.sort(key=lambda other: (other.outcome, other.name))
        groups = _comparable(measured) or [[]]
        entries += [_entry(group[0] if group else here[0], group, tuple(others), objective) for group in groups]
    return Ranking(sweep=sweep, objective=objective_text(objective), devices=tuple(entries))


def to_json(ranking: Ranking) -> dict[str, Any]:
    """The document of `edgesweep rank --json`: figures by their names (units in them), unknown is null, never NaN."""
    return {
        "sweep": ranking.sweep,
        "objective": ranking.objective,
        "devices": [
            {
                "device": entry.device,
                "device_id": entry.device_id,
                "fingerprint": entry.fingerprint,
                "model": entry.model,
                "preset": entry.preset,
                "runtime_version": entry.runtime_version,
                "exec_context": entry.exec_context,
                "winner": _candidate_json(entry.winner) if entry.winner else None,
                "no_winner_reason": entry.no_winner_reason,
                "explanation": explain(entry),
                "tied": [_candidate_json(candidate) for candidate in entry.tied],
                "ranking": [_candidate_json(candidate) for candidate in entry.ranking],
                "checked": [_candidate_json(candidate) for candidate in entry.checked],
                "not_ranked": [asdict(row) for row in entry.not_ranked],
                "imported": list(entry.imported),
            }
            for entry in ranking.devices
        ],
    }


def explain(entry: DeviceRanking) -> str:
    """The winner's figure in one line for people: `7.81 ms (7.50–8.10), tied with 2 others`."""
    if entry.winner is None:
        return f"no winner: {entry.no_winner_reason}"
    text = in_words(entry.winner.figures, entry.metric)
    if entry.metric in _UNREPEATED_TIMES and "one_block" in entry.winner.trust:
        text += " (one block, no interval)"
    if not entry.winner.timed:
        text += " (only checked, not timed)"
    if entry.tied:
        text += f", tied with {len(entry.tied)} other{'s' * (len(entry.tied) > 1)}"
    return text


def _comparable(measured: Sequence[ResultRow]) -> list[list[ResultRow]]:
    """Groups of like conditions. A row without a time has no conditions of its own: it stands in every
    group of its device's fingerprint, or where there is none, apart."""
    timed = [row for row in measured if row.timed]
    untimed = [row for row in measured if not row.timed]
    groups = [[row for row in timed if row.conditions == found] for found in sorted({row.conditions for row in timed})]
    for group in groups:
        group += [row for row in untimed if row.fingerprint == group[0].fingerprint]
    apart = {row.fingerprint for row in untimed} - {row.fingerprint for row in timed}
    return groups + [[row for row in untimed if row.fingerprint == fingerprint] for fingerprint in sorted(apart)]


def _not_ranked(row: ResultRow) -> NotRanked:
    found = ", ".join(filter(None, (row.stage, row.kind)))
    reason = ": ".join(filter(None, (found, row.reason))) or "no reason recorded"
    return NotRanked(name=row.name, variant=row.variant, outcome=row.outcome, reason=reason)


def _entry(
    conditions: ResultRow, group: Sequence[ResultRow], others: tuple[NotRanked, ...], objective: ObjectiveSpec
) -> DeviceRanking:
    metric, smaller = direction(objective)
    judgements = {row.job_key: judge(row, objective) for row in group}

    def severity(row: ResultRow) -> int:
        return VERDICTS.index(judgements[row.job_key].verdict)

    def badness(row: ResultRow) -> tuple[int, float]:
        value = row.figure(metric)
        return severity(row), math.inf if value is None else value if smaller else -value

    apart = [row for row in group if not row.timed] if needs_time(objective) else []
    rows = sorted((row for row in group if row not in apart), key=badness)
    passing = [row for row in rows if judgements[row.job_key].verdict == "pass"]
    near = [row for row in passing if not _worse(row, passing[0], metric, smaller)]
    # The best estimate may be the noisiest: who is worse than another of those beside it beyond doubt is not first.
    leaders = [row for row in near if not any(_worse(row, other, metric, smaller) for other in near)] or near
    first = sorted(leaders, key=_simplicity)
    leading = {row.job_key for row in first}
    ordered = first + [row for row in rows if row.job_key not in leading]
    candidates = tuple(
        _candidate(
            row,
            judgements[row.job_key],
            tied=place < len(first) > 1,
            ratio_to_winner=_ratio(row, first[0]) if first else None,
        )
        for place, row in enumerate(ordered)
    )
    apart.sort(key=lambda row: (severity(row), *_simplicity(row)))
    checked = tuple(_candidate(row, judgements[row.job_key]) for row in apart)
    return DeviceRanking(
        device=conditions.device,
        device_id=conditions.device_id,
        fingerprint=conditions.fingerprint,
        model=conditions.model,
        preset=conditions.preset,
        runtime_version=conditions.runtime_version,
        exec_context=conditions.exec_context,
        metric=metric,
        winner=candidates[0] if first else None,
        no_winner_reason="" if first else _no_winner_reason(candidates, checked, others),
        tied=candidates[1 : len(first)],
        ranking=candidates,
        checked=checked,
        not_ranked=others,
    )


def _candidate(
    row: ResultRow, judgement: Judgement, *, tied: bool = False, ratio_to_winner: Ratio | None = None
) -> Candidate:
    return Candidate(
        name=row.name,
        variant=row.variant,
        job_key=row.job_key,
        build_key=row.build_key,
        figures=row.figures,
        executor=row.executor,
        emulated=row.emulated,
        trust=row.trust,
        constraints=judgement.constraints,
        verdict=judgement.verdict,
        why=judgement.why,
        tied=tied,
        ratio_to_winner=ratio_to_winner,
    )


def _worse(row: ResultRow, best: ResultRow, metric: str, smaller: bool) -> bool:
    """Whether `row` is worse than `best` beyond doubt; see the head of this module."""
    value, top = row.figure(metric), best.figure(metric)
    if value is None or top is None or value == top:
        return False
    if metric == _LATENCY:
        ratio = ratio_by_rounds(row.medians_ms, best.medians_ms)
        if ratio is not None and ratio.low is not None:
            return ratio.low > 1.0 and ratio.value >= 1.0 + NEGLIGIBLE
    if (value < top) == smaller:
        return False
    if metric in _UNREPEATED_TIMES:
        return max(value, top) >= UNREPEATED_SPREAD * min(value, top)
    ends, best_ends = interval(row.figures, metric), interval(best.figures, metric)
    if ends is not None and best_ends is not None:
        return ends[0] > best_ends[1] or ends[1] < best_ends[0]
    return math.isinf(top) or abs(value - top) > NEGLIGIBLE * abs(top)


def _simplicity(row: ResultRow) -> tuple[float, float, str]:
    """Order inside a tie: higher accuracy, then smaller file, then name."""
    accuracy = row.figures["top1_percent"]
    if accuracy is None:
        accuracy = row.figures["agreement_percent"]
    size = row.figures["artifact_mb"]
    return math.inf if accuracy is None else -accuracy, math.inf if size is None else size, row.name


def _ratio(row: ResultRow, winner: ResultRow) -> Ratio | None:
    paired = ratio_by_rounds(row.medians_ms, winner.medians_ms)
    if paired is not None:
        return Ratio(paired.value, paired.low, paired.high)
    value, best = row.figures[_LATENCY], winner.figures[_LATENCY]
    return Ratio(value / best, None, None) if value and best else None


def _no_winner_reason(
    candidates: Sequence[Candidate], checked: Sequence[Candidate], others: Sequence[NotRanked]
) -> str:
    if not candidates:
        counts = Counter(row.outcome for row in others)
        found = [f"{len(checked)} only checked"] if checked else []
        found += [f"{count} {outcome}" for outcome, count in sorted(counts.items())]
        return f"nothing was {'timed' if checked else 'measured'}: {', '.join(found)}"
    verdicts = Counter(candidate.verdict for candidate in candidates)
    counted = ", ".join(f"{verdicts[verdict]} {_COUNTED[verdict]}" for verdict in VERDICTS if verdict in verdicts)
    return (
        f"of {len(candidates)} measured none passed ({counted}); the nearest, {candidates[0].name}: {candidates[0].why}"
    )


def _candidate_json(candidate: Candidate) -> dict[str, Any]:
    ratio = candidate.ratio_to_winner
    return {
        "name": candidate.name,
        "variant": candidate.variant,
        "job_key": candidate.job_key,
        "build_key": candidate.build_key,
        **candidate.figures,
        "executor": candidate.executor,
        "emulated": candidate.emulated,
        "trust": list(candidate.trust),
        "constraints": [asdict(check) for check in candidate.constraints],
        "verdict": candidate.verdict,
        "why": candidate.why,
        "tied": candidate.tied,
        "latency_ratio_to_winner": None if ratio is None else ratio._asdict(),
    }
