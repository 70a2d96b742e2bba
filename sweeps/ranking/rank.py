"""Which variant to ship on which device, and how certain that is. Pure: results as a DataFrame in, a `Ranking` out.

Only results measured under the same conditions are compared. Their intervals come from the spread between processes of
all of them (`sweeps.ranking.intervals`); the store has each job's own. Every measured variant gets a verdict. Of the
variants that pass, the best one wins, or one that is shown to be equal to it and has advantages
(`sweeps.ranking.first_place`). Beside it stand those that are equal, and those that are not told apart from it.

A variant that a race eliminated keeps its place, with its figures and the evidence. It cannot win or be tied: the race
controls the error over its repeated tests (`sweeps.protocol.racing`), and one interval of a few rounds does not
overrule that.

A variant that a host only checked, with a reference implementation of the backend, has an accuracy and no latency. If
the objective needs no latency, it is ranked and marked as only checked. Otherwise it is listed separately, with its
verdict on the constraints.
"""

import math
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sweeps.imported import Imported, in_order
from sweeps.ranking.alike import alike, conditions_of
from sweeps.ranking.backends import backend_figure
from sweeps.ranking.batch_alarm import alarm
from sweeps.ranking.device_classes import ClassRanking, pool
from sweeps.ranking.first_place import FirstPlace, first_place, simplicity
from sweeps.ranking.intervals import speeds_of, with_interval_of_winner, with_intervals
from sweeps.ranking.provisional import provisional
from sweeps.ranking.shared import as_of_one_unit
from sweeps.ranking.ties import LATENCY, Settling, latency_ratio, settling, worse
from sweeps.ranking.values import Candidate, DeviceRanking, NotRanked, Ranking, Tie
from sweeps.ranking.verdict import (
    VERDICTS,
    Judgement,
    direction,
    evidence,
    judge_all,
    left_untimed,
    needs_time,
    objective_text,
)
from sweeps.results import ResultRow, of_device, read_rows
from sweeps.spec import catalog
from sweeps.spec.objective import ObjectiveSpec
from sweeps.stats import Estimate

if TYPE_CHECKING:
    import pandas as pd

_COUNTED = {
    "eliminated": "eliminated",
    "unresolved": "unresolved",
    "fail": "missing a constraint",
    "disqualified": "disqualified",
}


def rank(
    frame: "pd.DataFrame",
    objective: ObjectiveSpec,
    sweep: str,
    device: str | None = None,
    imported: Sequence[Imported] = (),
) -> Ranking:
    """As `rank_rows`, of a data frame with one row per job; rows that are `stale` do not count."""
    return rank_rows(read_rows(frame, sweep), objective, sweep, device, imported)


def rank_rows(
    rows: Sequence[ResultRow],
    objective: ObjectiveSpec,
    sweep: str,
    device: str | None = None,
    imported: Sequence[Imported] = (),
) -> Ranking:
    """Rank the jobs of `sweep`, or those of some of its places: an entry depends on the rows of its place alone.

    `rows` are not stale, in order of their names. `device` is a device's id or (part of) its text for people.
    `imported` figures are attached to their device and model, and not ranked. Raises `EdgeSweepError` if no device
    matches `device`.
    """
    rows = as_of_one_unit(rows)
    places = {row.place for row in rows}
    apart = [one for one in in_order(imported) if one.place not in places]
    if device is not None:
        rows = of_device(rows, device)
        apart = [one for one in apart if device == one.device_id or device.casefold() in one.device.casefold()]
    entries: list[DeviceRanking] = []
    for place in sorted({row.place for row in rows}):
        here = [row for row in rows if row.place == place]
        measured = [row for row in here if row.outcome == "measured"]
        others = [_not_ranked(row) for row in here if row.outcome != "measured"]
        others.sort(key=lambda other: (other.outcome, other.name))
        groups = _comparable(measured) or [[]]
        beneath = tuple(one for one in in_order(imported) if one.place == place)
        counted: set[str] = set()
        for group in groups:
            # What left in batches has no conditions, and may be in several groups: its time is that of the first.
            spent = [row for row in group if row.job_key not in counted]
            counted |= {row.job_key for row in group}
            one = group[0] if group else here[0]
            entries.append(_entry(one, group, tuple(others), objective, beneath, spent))
    classes: tuple[ClassRanking, ...] = ()
    if direction(objective)[0] == LATENCY:
        candidates = {one.job_key for entry in entries for one in entry.ranking if one.state == "pass"}
        classes = pool([row for row in rows if row.outcome == "measured" and not row.link], candidates)
    return Ranking(
        sweep=sweep,
        objective=objective_text(objective),
        devices=tuple(entries),
        classes=classes,
        imported=tuple(apart),
        backends=backend_figure(rows, objective),
    )


def _comparable(measured: Sequence[ResultRow]) -> list[list[ResultRow]]:
    """Groups of rows with the same conditions. A row without a latency has no conditions: it is added to every group of
    its device's fingerprint. If there is no such group, these rows form a group of their own."""
    timed = [row for row in measured if row.timed]
    untimed = [row for row in measured if not row.timed]
    groups = alike(timed)
    for group in groups:
        group += [row for row in untimed if row.fingerprint == group[0].fingerprint]
    apart = {row.fingerprint for row in untimed} - {row.fingerprint for row in timed}
    return groups + [[row for row in untimed if row.fingerprint == fingerprint] for fingerprint in sorted(apart)]


def _not_ranked(row: ResultRow) -> NotRanked:
    found = ", ".join(filter(None, (row.stage, row.kind)))
    reason = ": ".join(filter(None, (found, row.reason))) or "no reason recorded"
    return NotRanked(name=row.name, variant=row.variant, outcome=row.outcome, reason=reason)


def _entry(
    one: ResultRow,
    group: Sequence[ResultRow],
    others: tuple[NotRanked, ...],
    objective: ObjectiveSpec,
    imported: tuple[Imported, ...],
    spent: Sequence[ResultRow],
) -> DeviceRanking:
    """The ranking of `group`, rows with the same conditions. `one`: any row of it, or a failed row if it is empty.
    `spent`: those whose time is counted here."""
    speeds = speeds_of(group)
    group = with_intervals(group, speeds)
    metric, smaller = direction(objective)
    judgements = judge_all(group, objective)
    eliminated = {row.job_key: evidence(row, judgements[row.job_key], objective) for row in group}

    def severity(row: ResultRow) -> tuple[int, bool]:
        return VERDICTS.index(judgements[row.job_key].verdict), bool(eliminated[row.job_key])

    ended = {row.job_key: row.settled for row in group if row.settled is not None}

    def badness(row: ResultRow) -> tuple[tuple[int, bool], float, float]:
        # What left in batches has a ratio, and no figure; what is the same program has that of the other build.
        why = ended.get(row.job_key)
        if why is not None and why.reason == "same_program":
            why = ended.get(why.by_key)
        return severity(row), _signed(row, metric, smaller), (why and why.ratio) or 0.0

    apart = [row for row in group if not row.timed and not left_untimed(row)] if needs_time(objective) else []
    rows = sorted((row for row in group if row not in apart), key=badness)
    passing = [row for row in rows if judgements[row.job_key].verdict == "pass"]
    contending = [row for row in passing if not eliminated[row.job_key]]
    first = first_place(contending, metric, smaller, front=objective.front is not None) if contending else None
    sharing = [] if first is None else [first.winner, *first.equal, *first.unresolved]
    selected: dict[str, ResultRow] = {}
    if first and metric == LATENCY:
        selected[first.winner.job_key] = with_interval_of_winner(first.winner, group, first.candidates, speeds)
    ties = _ties(first)
    front = None if objective.front is None else _front(rows, contending, objective, objective.front)

    def candidate(row: ResultRow, *, ranked: bool = True) -> Candidate:
        return _candidate(
            selected.get(row.job_key, row),
            judgements[row.job_key],
            tie=ties.get(row.job_key),
            ratio_to_winner=latency_ratio(row, first.winner) if first and ranked else None,
            settling=_settling(row, first, ties.get(row.job_key)) if first and metric == LATENCY else None,
            eliminated=eliminated[row.job_key],
            on_front=front.get(row.job_key) if front and ranked else None,
        )

    keys = {row.job_key for row in sharing}
    candidates = tuple(map(candidate, sharing + [row for row in rows if row.job_key not in keys]))
    apart.sort(key=lambda row: (severity(row), *simplicity(row), row.name))
    checked = tuple(candidate(row, ranked=False) for row in apart)
    return DeviceRanking(
        device=one.device,
        device_id=one.device_id,
        fingerprint=one.fingerprint,
        model=one.model,
        conditions=conditions_of(group or [one]),
        metric=metric,
        front=objective.front,
        winner=candidates[0] if first else None,
        no_winner_reason="" if first else _no_winner_reason(candidates, checked, others),
        provisional=None if first else provisional(rows, judgements, eliminated, objective),
        tied=candidates[1 : len(sharing)],
        alarm=alarm(first.winner, group) if first and metric == LATENCY else "",
        ranking=candidates,
        checked=checked,
        not_ranked=others,
        device_seconds=sum(row.device_seconds + row.batch_seconds for row in spent),
        batch_seconds=sum(row.batch_seconds for row in spent),
        timed_seconds=sum(row.timed_seconds for row in spent),
        full_seconds=sum(row.full_seconds for row in group),
        waited_seconds=sum(row.waited_seconds for row in spent),
        push_seconds=sum(row.push_seconds for row in group),
        # Jobs of one build share its pass; one that failed has none.
        accuracy_seconds=sum(dict(sorted((row.build_key, row.accuracy_seconds) for row in group)).values()),
        imported=imported,
    )


def _ties(first: FirstPlace[ResultRow] | None) -> dict[str, Tie]:
    """How each row shares the first place, by job key."""
    if first is None:
        return {}
    found: dict[str, Tie] = {row.job_key: "unresolved" for row in first.unresolved}
    if first.equal:
        found |= {row.job_key: "equal" for row in (first.winner, *first.equal)}
    return found


def _settling(row: ResultRow, first: FirstPlace[ResultRow], tie: Tie | None) -> Settling | None:
    if tie == "equal":
        return None if row is first.winner else Settling(rounds=0, outcome="equal")
    return settling(row.medians_ms, first.best.medians_ms) if tie == "unresolved" else None


def _front(
    rows: Sequence[ResultRow], contending: Sequence[ResultRow], objective: ObjectiveSpec, other: str
) -> dict[str, bool]:
    """Which rows are on the Pareto front, by job key. A row is on it if it may win and no other row dominates it. A row
    dominates another if its estimates of both metrics are as good or better, and one metric is better beyond doubt.
    Eliminated candidates are not on the front. Rows with an unknown figure are left out of the result."""
    metric, smaller = direction(objective)
    directions = {metric: smaller, other: catalog.metric(other).better == "lower"}
    known = [row for row in rows if all(row.figure(name) is not None for name in directions)]
    may_win = {row.job_key for row in contending}
    rivals = [row for row in known if row.job_key in may_win]

    def dominates(one: ResultRow, row: ResultRow) -> bool:
        as_good = all(_signed(one, name, less) <= _signed(row, name, less) for name, less in directions.items())
        return as_good and any(worse(row, one, name, less) for name, less in directions.items())

    return {row.job_key: row.job_key in may_win and not any(dominates(one, row) for one in rivals) for row in known}


def _signed(row: ResultRow, metric: str, smaller: bool) -> float:
    """The metric with its sign chosen so that smaller is better."""
    value = row.figure(metric)
    return math.inf if value is None else value if smaller else -value


def _candidate(
    row: ResultRow,
    judgement: Judgement,
    *,
    tie: Tie | None,
    ratio_to_winner: Estimate | None,
    settling: Settling | None,
    eliminated: str,
    on_front: bool | None,
) -> Candidate:
    return Candidate(
        name=row.name,
        variant=row.variant,
        job_key=row.job_key,
        build_key=row.build_key,
        figures=row.figures,
        runner=row.runner,
        executor=row.executor,
        emulated=row.emulated,
        trust=row.trust,
        constraints=judgement.constraints,
        verdict=judgement.verdict,
        why=judgement.why,
        tie=tie,
        ratio_to_winner=ratio_to_winner,
        settling=settling,
        settled=row.settled,
        eliminated=eliminated,
        on_front=on_front,
    )


def _no_winner_reason(
    candidates: Sequence[Candidate], checked: Sequence[Candidate], others: Sequence[NotRanked]
) -> str:
    if not candidates:
        counts = Counter(row.outcome for row in others)
        found = [f"{len(checked)} only checked"] if checked else []
        found += [f"{count} {outcome}" for outcome, count in sorted(counts.items())]
        return f"nothing was {'timed' if checked else 'measured'}: {', '.join(found)}"
    states = Counter(candidate.state for candidate in candidates)
    counted = ", ".join(f"{states[state]} {words}" for state, words in _COUNTED.items() if state in states)
    nearest = candidates[0]
    return (
        f"of {len(candidates)} measured none may win ({counted}); the nearest, {nearest.name}: "
        f"{nearest.why or nearest.eliminated}"
    )
