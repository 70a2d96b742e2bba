"""The best choice for now if nothing may win, and the one step that would settle it. Pure: rows in."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from sweeps.command_hints import RUN
from sweeps.failure_kinds import FAILS_AGAIN
from sweeps.label_kinds import disqualified, original_doubted
from sweeps.protocol.not_ready import keeps_results, looser_gate
from sweeps.ranking.accuracy_bound import side
from sweeps.ranking.amounts import DROP, interval
from sweeps.ranking.eligibility import (
    LABELLED,
    ON_ACCURACY,
    ConstraintResult,
    Judgement,
    counts_behind,
    direction,
    put_aside,
)
from sweeps.results import ResultRow
from sweeps.spec import catalog
from sweeps.spec.objective import ObjectiveSpec
from sweeps.text import duration

_RETRY = f"{RUN} --retry-failed"
_MOST_ROUNDS = 48
"""A race may not have more rounds than this; if more would be needed, longer blocks are advised."""
_PASSING = frozenset({"throttled", "gate_timeout", "device_changed"})
"""The disqualifying labels that a new measurement may remove."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settle:
    """The next step: a line of the sweep file to change, if `field` is not empty, and then a command."""

    command: str
    field: str = ""
    """A path in the sweep file, such as `data.evaluation.images`; empty if nothing is to be changed."""
    value: str = ""
    """The value to write for the field."""
    seconds: float | None = None
    """The least time that the command takes, estimated from similar work so far; `None` if that is not known."""
    note: str = ""
    """What to prepare before running the command; may be empty."""

    @property
    def text(self) -> str:
        """The text for people, without the time."""
        first = f"{self.note}, then " if self.note else ""
        return first + (f"write {self.field}: {self.value}, and run {self.command}" if self.field else self.command)

    @property
    def timed_text(self) -> str:
        """The text for people with the time, if the time is known."""
        if self.seconds is None:
            return self.text
        return f"{self.text} ({f'about {duration(self.seconds)}' if self.seconds else 'it measures nothing again'})"


_SEE_TO_ORIGINAL = Settle(
    command=RUN,
    note="see to the original itself (edgesweep plan SWEEP.yaml --check tells its figure and the likely cause)",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Provisional:
    """The job to use until a job wins."""

    name: str
    """The name of the job; empty if every build is shown to break a constraint, or can never win, or none has a
    figure."""
    job_key: str
    why: str
    """The reason why the job is not the winner."""
    settle: Settle


@dataclass(frozen=True, slots=True, kw_only=True)
class NextStepHints:
    """The facts for a next step that come from the sweep file, and not from rows."""

    most_images: int | None = None
    """The number of images that exist for the evaluation, if known: no more are suggested."""
    seconds: Callable[[Sequence[ResultRow]], float] | None = None
    """Returns roughly how many seconds it takes to build and measure jobs that have no figures yet."""


NO_HINTS = NextStepHints()


def provisional(
    rows: Sequence[ResultRow],
    judgements: Mapping[str, Judgement],
    eliminated: Mapping[str, str],
    objective: ObjectiveSpec,
    hints: NextStepHints = NO_HINTS,
) -> Provisional | None:
    """Return the provisional choice; `None` without rows. `rows`: with the same conditions, none of which may win; best
    first. `eliminated`: the reasons by job key, or empty.

    Builds that lost a race to one that may not win come first; then those with an unresolved constraint; then those
    whose time was disqualified because of the state of the device. Within each class, builds whose estimates keep all
    bounds come first.
    """
    classes: tuple[Callable[[ResultRow], bool], ...] = (
        lambda row: judgements[row.job_key].verdict == "pass",
        lambda row: judgements[row.job_key].verdict == "unresolved",
        lambda row: _may_be_sound(row) and not _shown_to_break(judgements[row.job_key]),
    )
    for belongs in classes:
        if fitting := [row for row in rows if belongs(row)]:
            best = min(fitting, key=lambda row: not _keeps(row, objective))  # Of equal rows, the first one is the best.
            judgement = judgements[best.job_key]
            lacked = best.reason if "gate_timeout" in best.trust else ""
            return Provisional(
                name=best.name,
                job_key=best.job_key,
                why=(judgement.why or eliminated[best.job_key]) + (lacked and f"; it was not ready: {lacked}"),
                settle=_settle(best, judgement, rows, objective, hints.most_images),
            )
    return _none_possible(rows, judgements)


def without_figures(
    failed: Sequence[ResultRow], checked: Sequence[ResultRow], why: str, hints: NextStepHints
) -> Provisional:
    """Return the next step if no build of a place may be ranked. `failed`, `checked`: the rows that failed, and the
    rows that were only checked."""
    settle = Settle(command=RUN, note="vary more axes under grids: every combination was skipped")
    retried = failed or checked
    seconds = hints.seconds(retried) if retried and hints.seconds is not None else None
    if checked:
        settle = Settle(command=RUN, note="name a device under devices that can time them", seconds=seconds)
    if failed:
        note = "see to why they failed (each reason is listed under Not ranked)"
        final = all(row.kind in FAILS_AGAIN for row in failed)
        settle = Settle(command=RUN if final else _RETRY, note=note, seconds=seconds)
    return Provisional(name="", job_key="", why=why, settle=settle)


def _may_be_sound(row: ResultRow) -> bool:
    labels = disqualified(row.trust)
    return not catalog.unshippable(row.runtime) and set(labels) <= _PASSING and bool(labels or put_aside(row))


def _shown_to_break(judgement: Judgement) -> bool:
    return any(check.result == "fail" for check in judgement.constraints)


def _keeps(row: ResultRow, objective: ObjectiveSpec) -> bool:
    """Tell whether the row's estimates keep all bounds."""
    for bound in objective.constraints:
        value = row.figure(bound.metric)
        least = -math.inf if bound.at_least is None else bound.at_least
        most = math.inf if bound.at_most is None else bound.at_most
        if value is None or not least <= value <= most:
            return False
    return True


def _settle(
    row: ResultRow,
    judgement: Judgement,
    rows: Sequence[ResultRow],
    objective: ObjectiveSpec,
    most_images: int | None,
) -> Settle:
    if judgement.verdict == "pass":  # The candidate that eliminated the row may not win, so the row races again.
        return Settle(command=RUN, seconds=_device_seconds([row]))
    if judgement.verdict == "disqualified":
        return _settle_state(row, rows)
    for check in judgement.constraints:
        if check.result == "unresolved":
            return _settle_constraint(row, check, rows, most_images)
    metric, smaller = direction(objective)
    if metric in ON_ACCURACY and original_doubted(row.trust):
        return _SEE_TO_ORIGINAL
    if row.figure(metric) is None:
        return _settle_unknown(row, metric, rows) or Settle(
            command=RUN, field=f"objective.{'minimize' if smaller else 'maximize'}", value="latency_p50_ms", seconds=0.0
        )
    return Settle(
        command=_RETRY, seconds=_device_seconds(filter(_may_be_sound, rows))
    )  # The leader of the row's race may not win.


def _settle_state(row: ResultRow, rows: Sequence[ResultRow]) -> Settle:
    """Return the step for a latency that was disqualified because of the state of the device."""
    retried = [other for other in rows if _may_be_sound(other)]
    if "gate_timeout" not in row.trust:
        note = "let the device cool" if "throttled" in row.trust else "find out what changed the device's speed"
        note = note if set(row.trust) & _PASSING else "leave the device to the sweep alone"
        return Settle(command=_RETRY, seconds=_device_seconds(retried), note=note)
    limits = looser_gate(other.lacking for other in retried if "gate_timeout" in other.trust)
    if limits is None:
        return Settle(command=RUN, field="protocol.gate", value="none", seconds=_device_seconds(rows))
    [(name, limit), *more] = limits.items()
    field, value = f"protocol.gate.{name}", str(limit)
    if more:
        field, value = (
            "protocol.gate",
            f"{{{', '.join(f'{limit_name}: {most}' for limit_name, most in limits.items())}}}",
        )
    if keeps_results(limits):
        return Settle(command=_RETRY, field=field, value=value, seconds=_device_seconds(retried))
    return Settle(command=RUN, field=field, value=value, seconds=_device_seconds(rows))


def _settle_constraint(
    row: ResultRow, check: ConstraintResult, rows: Sequence[ResultRow], most_images: int | None
) -> Settle:
    if check.doubts:
        return _SEE_TO_ORIGINAL
    needed = check.images_needed
    if needed is not None and needed.more is not None and row.images + needed.more <= (most_images or math.inf):
        images = row.images + needed.more
        seconds = _accuracy_seconds(rows)
        return Settle(
            command=RUN,
            field="data.evaluation.images",
            value=str(images),
            seconds=seconds and seconds * images / row.images,
            note=f"have {images:,} images to evaluate with",
        )
    if row.figure(check.metric) is None:
        return _settle_unknown(row, check.metric, rows) or Settle(
            command=RUN, note=f"take {check.metric} out of objective.constraints, as nothing can tell it", seconds=0.0
        )
    if check.metric == "latency_p50_ms":
        return _more_rounds(row, max(2 * row.rounds, 3), rows)
    return _loosened(row, check)


def _settle_unknown(row: ResultRow, metric: str, rows: Sequence[ResultRow]) -> Settle | None:
    """Return the step that would give an unknown figure. `None` if no change of the sweep file does."""
    if metric in LABELLED:
        value = "{source: folder, path: A_FOLDER_OF_CLASSES}"
        return Settle(command=RUN, field="data.evaluation", value=value, seconds=_accuracy_seconds(rows))
    samples = catalog.metric(metric).from_samples
    if samples and row.timed and row.samples and row.rounds:
        rounds = math.ceil(samples * row.rounds / row.samples)
        if rounds <= _MOST_ROUNDS:
            return _more_rounds(row, max(rounds, row.rounds + 1), rows)
        # With this number of iterations in each block, the rounds have enough samples.
        iterations = math.ceil(samples / row.rounds)
        seconds = _device_seconds(rows)
        more = seconds and seconds * samples / row.samples
        return Settle(command=RUN, field="protocol.iterations", value=str(iterations), seconds=more)
    if catalog.is_timed(metric) and not row.timed:
        return Settle(command=_RETRY, seconds=_device_seconds(filter(_may_be_sound, rows)))
    return None


def _more_rounds(row: ResultRow, rounds: int, rows: Sequence[ResultRow]) -> Settle:
    seconds = _sum(other.device_seconds / other.rounds for other in rows if other.rounds)
    more = seconds and seconds * (rounds - row.rounds)
    return Settle(command=RUN, field="protocol.rounds", value=str(rounds), seconds=more)


def _none_possible(rows: Sequence[ResultRow], judgements: Mapping[str, Judgement]) -> Provisional | None:
    """Return the step to a bound that the nearest build would keep: every build is shown to break a constraint, or can
    never win."""
    for row in rows:
        judgement = judgements[row.job_key]
        broken = [check for check in judgement.constraints if check.result == "fail"]
        if judgement.verdict == "fail" and broken:
            return Provisional(name="", job_key="", why=judgement.why, settle=_loosened(row, broken[0]))
    if not rows:
        return None
    settle = Settle(command=RUN, note="vary more axes under grids", seconds=_device_seconds(rows))
    return Provisional(name="", job_key="", why=judgements[rows[0].job_key].why, settle=settle)


def _loosened(row: ResultRow, check: ConstraintResult) -> Settle:
    """Return the step that sets a bound which the row would keep. Nothing is measured again."""
    at = "at_most" if check.bound.startswith("at most") else "at_least"
    value = _kept_bound(row, check.metric, at)
    return Settle(command=RUN, field=f"objective.constraints, {check.metric}: {at}", value=f"{value:g}", seconds=0.0)


def _kept_bound(row: ResultRow, metric: str, at: str) -> float:
    """Return a bound that the figure keeps, rounded to three digits; for an accuracy drop, to tenths of a point, as
    people write it. The figure is known."""
    value = row.figure(metric)
    assert value is not None
    low, high = interval(row.figures, metric) or (value, value)
    counts = counts_behind(row) if metric == DROP and at == "at_most" else None
    if counts is not None:
        tenths = range(1, 1000)
        return next((step / 10 for step in tenths if side(*counts, row.images, step / 10) == "below"), 100.0)
    limit = high if at == "at_most" else low
    unit = 10.0 ** (math.floor(math.log10(abs(limit))) - 2) if limit and math.isfinite(limit) else 1.0
    return (math.ceil if at == "at_most" else math.floor)(limit / unit) * unit if math.isfinite(limit) else limit


def _device_seconds(rows: Iterable[ResultRow]) -> float | None:
    return _sum(row.device_seconds + row.batch_seconds for row in rows)


def _accuracy_seconds(rows: Iterable[ResultRow]) -> float | None:
    """Return the sum of the times of the accuracy passes: jobs of one build share its pass."""
    return _sum({row.build_key: row.accuracy_seconds for row in rows}.values())


def _sum(seconds: Iterable[float]) -> float | None:
    """Return the sum of the seconds; `None` if nothing was recorded."""
    return sum(seconds) or None
