"""The ranking of the results of one device and model that were measured under the same conditions. Pure.

The intervals of these results come from the spread between processes of all of them (`sweeps.ranking.intervals`); the
store has each job's own interval. Every measured variant gets a verdict. Of the variants that pass, the best one wins,
or one that is shown to be equal to the best and has advantages (`sweeps.ranking.winner`). The winner is listed with the
variants that are equal to it, and with those that are not told apart from it.

A variant that a race eliminated keeps its place in the list, with its figures and the evidence. It cannot win or be
tied: the race controls the error over its repeated tests (`sweeps.protocol.racing`), and one interval of a few rounds
does not overrule that.

A variant that a host only checked, with a reference implementation of the backend, has an accuracy and no latency. If
the objective needs no latency, it is ranked and marked as only checked. Otherwise it is listed separately, with its
verdict on the constraints.
"""

from collections import Counter
from collections.abc import Sequence

from sweeps.imported import Imported
from sweeps.label_kinds import disqualified
from sweeps.ranking.amounts import interval
from sweeps.ranking.at_one_speed import at_one_speed
from sweeps.ranking.batch_alarm import alarm
from sweeps.ranking.eligibility import VERDICTS, Judgement, direction, evidence, judge_all, left_untimed, needs_time
from sweeps.ranking.front import front_of, signed
from sweeps.ranking.interval_scope import IntervalOf, interval_of, watched_seconds
from sweeps.ranking.intervals import speeds_of, with_interval_of_winner, with_intervals
from sweeps.ranking.provisional import NextStepHints, provisional, without_figures
from sweeps.ranking.resolution import resolution
from sweeps.ranking.same_conditions import conditions_of
from sweeps.ranking.ties import LATENCY, MadeOf, Settling, latency_ratio, made_of
from sweeps.ranking.two_speeds import TwoSpeeds
from sweeps.ranking.values import Candidate, DeviceRanking, NotRanked, Tie
from sweeps.ranking.winner import FirstPlace, first_place, simplicity
from sweeps.results import ResultRow
from sweeps.spec.objective import ObjectiveSpec
from sweeps.stats import Estimate

_COUNTED = {
    "eliminated": "eliminated",
    "unresolved": "unresolved",
    "fail": "missing a constraint",
    "disqualified": "disqualified",
}


def rank_place(
    sample: ResultRow,
    group: Sequence[ResultRow],
    not_ranked: tuple[NotRanked, ...],
    objective: ObjectiveSpec,
    imported: tuple[Imported, ...],
    spent: Sequence[ResultRow],
    failed: Sequence[ResultRow],
    hints: NextStepHints,
) -> DeviceRanking:
    """Return the ranking of `group`, rows with the same conditions. `sample`: any row of `group`, or a failed row if
    `group` is empty. `not_ranked`: the results without figures; `failed`: the rows among these that failed. `spent`:
    the rows whose time is counted for this place."""
    group = at_one_speed(group)
    speeds = speeds_of(group)
    group = with_intervals(group, speeds)
    metric, smaller = direction(objective)
    judgements = judge_all(group, objective)
    eliminated = {row.job_key: evidence(row, judgements[row.job_key], objective) for row in group}

    def severity(row: ResultRow) -> tuple[int, bool]:
        return VERDICTS.index(judgements[row.job_key].verdict), bool(eliminated[row.job_key])

    ended = {row.job_key: row.settled for row in group if row.settled is not None}

    def badness(row: ResultRow) -> tuple[tuple[int, bool], float, float]:
        # A build that left in batches has a ratio but no figure; a build that is the same program as another one gets
        # the ratio of that one.
        why = ended.get(row.job_key)
        if why is not None and why.reason == "same_program":
            why = ended.get(why.by_key)
        return severity(row), signed(row, metric, smaller), (why and why.ratio) or 0.0

    only_checked = [row for row in group if not row.timed and not left_untimed(row)] if needs_time(objective) else []
    rows = sorted((row for row in group if row not in only_checked), key=badness)
    passing = [row for row in rows if judgements[row.job_key].verdict == "pass"]
    contending = [row for row in passing if not eliminated[row.job_key]]
    first = first_place(contending, metric, smaller, front=objective.front is not None) if contending else None
    sharing = [] if first is None else [first.winner, *first.equal, *first.unresolved]
    selected: dict[str, ResultRow] = {}
    if first and metric == LATENCY:
        selected[first.winner.job_key] = with_interval_of_winner(first.winner, group, first.candidates, speeds)
    ties = _ties(first)
    scopes = (
        {} if first is None or metric != LATENCY else {first.winner.job_key: _interval_of(first.winner, group, speeds)}
    )
    front = None if objective.front is None else front_of(rows, contending, objective, objective.front)

    def candidate(row: ResultRow, *, ranked: bool = True) -> Candidate:
        return _candidate(
            selected.get(row.job_key, row),
            judgements[row.job_key],
            tie=ties.get(row.job_key),
            ratio_to_winner=_ratio(row, first, contending) if first and ranked else None,
            made_of=made_of(row, first.winner) if first and ranked else None,
            interval_of=scopes.get(row.job_key, ""),
            settling=_settling(row, first, ties.get(row.job_key)) if first and metric == LATENCY else None,
            eliminated=eliminated[row.job_key],
            on_front=front.get(row.job_key) if front and ranked else None,
        )

    keys = {row.job_key for row in sharing}
    candidates = tuple(map(candidate, sharing + [row for row in rows if row.job_key not in keys]))
    only_checked.sort(key=lambda row: (severity(row), *simplicity(row), row.name))
    checked = tuple(candidate(row, ranked=False) for row in only_checked)
    no_winner_reason = "" if first else _no_winner_reason(candidates, checked, not_ranked)
    next_step = None if first else provisional(rows, judgements, eliminated, objective, hints)
    if first is None and next_step is None:
        next_step = without_figures(failed, only_checked, no_winner_reason, hints)
    return DeviceRanking(
        device=sample.device,
        device_id=sample.device_id,
        fingerprint=sample.fingerprint,
        model=sample.model,
        conditions=conditions_of(group or [sample]),
        metric=metric,
        front=objective.front,
        winner=candidates[0] if first else None,
        no_winner_reason=no_winner_reason,
        provisional=next_step,
        led=first is not None and first.led,
        tied=candidates[1 : len(sharing)],
        better_disqualified=_better_disqualified(candidates, metric, smaller) if first else (),
        resolution=resolution(group) if metric == LATENCY else None,
        alarm=alarm(first.winner, group) if first and metric == LATENCY else "",
        ranking=candidates,
        checked=checked,
        not_ranked=not_ranked,
        device_seconds=sum(row.device_seconds + row.batch_seconds for row in spent),
        batch_seconds=sum(row.batch_seconds for row in spent),
        timed_seconds=sum(row.timed_seconds for row in spent),
        full_seconds=sum(row.full_seconds for row in group),
        waited_seconds=sum(row.waited_seconds for row in spent),
        push_seconds=sum(row.push_seconds for row in group),
        # Jobs of one build share its accuracy pass; a job that failed has none.
        accuracy_seconds=sum(dict(sorted((row.build_key, row.accuracy_seconds) for row in group)).values()),
        imported=imported,
    )


def _interval_of(winner: ResultRow, group: Sequence[ResultRow], speeds: TwoSpeeds | None) -> IntervalOf:
    if interval(winner.metrics, LATENCY) is None:
        return ""
    return interval_of(
        raced=bool(winner.confirmed_medians_ms),
        speeds=speeds,
        watched_s=watched_seconds(group),
        moved="device_moved" in winner.trust,
    )


def _better_disqualified(candidates: Sequence[Candidate], metric: str, smaller: bool) -> tuple[Candidate, ...]:
    """Return the disqualified candidates that are better than the winner. `candidates`: the winner is the first."""
    winners = candidates[0].figures.get(metric)
    sign = 1.0 if smaller else -1.0
    figures = [
        (sign * value, candidate)
        for candidate in candidates
        if disqualified(candidate.trust) and (value := candidate.figures.get(metric)) is not None
    ]
    better = [figure for figure in figures if winners is None or figure[0] < sign * winners]
    return tuple(candidate for _, candidate in sorted(better, key=lambda figure: figure[0]))


def _ties(first: FirstPlace[ResultRow] | None) -> dict[str, Tie]:
    """Return the kind of tie of each row that shares the first place, by job key."""
    if first is None:
        return {}
    ties: dict[str, Tie] = {row.job_key: "unresolved" for row in first.unresolved}
    if first.equal:
        ties |= {row.job_key: "equal" for row in (first.winner, *first.equal)}
    return ties


def _settling(row: ResultRow, first: FirstPlace[ResultRow], tie: Tie | None) -> Settling | None:
    if tie == "equal":
        return None if row is first.winner else Settling(rounds=0, outcome="equal")
    return first.family.settling(row, first.best, first.candidates) if tie == "unresolved" else None


def _ratio(row: ResultRow, first: FirstPlace[ResultRow], contending: Sequence[ResultRow]) -> Estimate | None:
    """Return the ratio to the winner. For rows that may win, the ratio's interval shows them slower only if the ranking
    does."""
    among = any(row is other for other in contending)
    return first.family.ratio(row, first.winner, first.candidates) if among else latency_ratio(row, first.winner)


def _candidate(
    row: ResultRow,
    judgement: Judgement,
    *,
    tie: Tie | None,
    ratio_to_winner: Estimate | None,
    made_of: MadeOf | None,
    interval_of: IntervalOf,
    settling: Settling | None,
    eliminated: str,
    on_front: bool | None,
) -> Candidate:
    return Candidate(
        name=row.name,
        name_here=row.name_here,
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
        made_of=made_of,
        interval_of=interval_of,
        settling=settling,
        settled=row.settled,
        eliminated=eliminated,
        on_front=on_front,
    )


def _no_winner_reason(
    candidates: Sequence[Candidate], checked: Sequence[Candidate], not_ranked: Sequence[NotRanked]
) -> str:
    if not candidates:
        counts = Counter(row.outcome for row in not_ranked)
        counted_words = [f"{len(checked)} only checked"] if checked else []
        counted_words += [f"{count} {outcome}" for outcome, count in sorted(counts.items())]
        return f"nothing was {'timed' if checked else 'measured'}: {', '.join(counted_words)}"
    states = Counter(candidate.state for candidate in candidates)
    counted = ", ".join(f"{states[state]} {words}" for state, words in _COUNTED.items() if state in states)
    nearest = candidates[0]
    return (
        f"of {len(candidates)} measured none may win ({counted}); the nearest, {nearest.name_here}: "
        f"{nearest.why or nearest.eliminated}"
    )
