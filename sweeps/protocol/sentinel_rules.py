"""The sentinel: a small built-in model, timed at intervals, that shows when the device itself changed speed. Pure.

A sweep compares variants within rounds, so everything that a whole round shares cancels in the comparison: slow drift,
and speeds between which the device goes back and forth. Only a shift that lasts cuts a round in two. There is a shift
if all checks after it are slower (or all faster) than every check before it, by more than 5 %. Blocks between the last
check before the shift and the first one after it get the label `device_changed`: it is not known on which side of the
shift they lie. Blocks before and after it keep their rounds.

If a new speed ended and did not come again, as in a burst, the blocks around the checks that saw it are in doubt
(`device_moved`): they are left out if there are enough others. After an interrupted run, the first check of the next
run shows whether the blocks after the last check are in doubt.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, groupby

from sweeps.protocol.clock import figure_ns
from sweeps.records import Block
from sweeps.spec.model_inputs import DataSpec, ModelSpec, SyntheticData
from sweeps.stats import median
from sweeps.variant import Variant

MOVED = 0.05

MODEL = ModelSpec(
    source="workers.sentinel:sentinel", name="edgesweep-sentinel", weights="random", input_shape=(1, 3, 64, 64)
)
VARIANT = Variant(fuse=True, optimize=True)
_DATA = DataSpec(
    calibration=SyntheticData(source="synthetic", images=8), evaluation=SyntheticData(source="synthetic", images=8)
)

CHECK_BLOCKS = 3
"""Number of processes of one sentinel check: single processes differ by more than the change to detect."""
_ROUNDS_PER_CHECK = 10


@dataclass(frozen=True, slots=True)
class PlacedBlock:
    """A block of the sentinel, with its position in the order of all measurements."""

    position: int
    block: Block


@dataclass(frozen=True, slots=True)
class Span:
    """The positions between `after` and `until` in one run (session) of the driver, in which the device changed."""

    @property
    def label(self) -> str:
        """The trust label of the blocks in the span."""
        return "device_changed" if self.lasts else "device_moved"

    session: int
    after: int
    until: int
    lasts: bool = True
    """Whether the device changed for good; otherwise it returned to its earlier speed."""

    def holds(self, placed_block: PlacedBlock) -> bool:
        return placed_block.block.session == self.session and self.after < placed_block.position < self.until


def data_for(model: ModelSpec, data: DataSpec) -> DataSpec:
    """Return the sweep's own data, or small synthetic data for the sentinel, whose outputs nobody uses."""
    return _DATA if model == MODEL else data


def round_of(check: int, number: int) -> int:
    """Return the round number under which block `number` of a sentinel check is stored."""
    return check * _ROUNDS_PER_CHECK + number


def check_of(round_: int) -> int:
    """Return the number of the check that has the block of this round."""
    return round_ // _ROUNDS_PER_CHECK


def next_check(blocks: Sequence[Block]) -> int:
    return 1 + max((check_of(block.round) for block in blocks), default=-1)


def moved(blocks: Sequence[Block], known: Sequence[Block]) -> bool:
    """Tell whether a check differs by more than 5 % from the median of the `known` blocks, and by more than the noise
    between processes: all its blocks are slower, or all are faster, than all known blocks."""
    return bool(known) and _apart(_figures_ns(blocks), _figures_ns(known))


def changed_spans(placed: Sequence[PlacedBlock]) -> list[Span]:
    """Return the spans in which the device changed its speed for good. `placed`: in the order of measuring.

    A span lasts from the last check before the shift to the first one after it. A shift is found in each run (session)
    of the driver, between two checks that differ by more than 5 %, if the later one and all that follow in the run have
    moved (`moved`) from all known ones: those before it in the run, and those of earlier runs before the device had
    shifted. So speeds between which a device goes back and forth are no shift once they are known. If the shift fell
    into a check, whose own blocks then differ by more than 5 %, the span reaches from the check before that one to the
    one after it. Incomplete checks are ignored. In the last check of a run a shift counts, too: later checks will show
    whether it lasts.
    """
    spans: list[Span] = []
    known: list[float] = []
    for session, run in groupby(placed, key=lambda placed_block: placed_block.block.session):
        checks = [list(check) for _, check in groupby(run, key=lambda placed_block: check_of(placed_block.block.round))]
        whole = [check for check in checks if len(check) >= CHECK_BLOCKS]
        figures = [_figures_ns([placed_block.block for placed_block in check]) for check in whole]
        shifted: list[tuple[int, int]] = []
        for now in range(1, len(whole)):
            within = now > 1 and _mixed(figures[now - 1]) and (not shifted or shifted[-1][1] < now - 1)
            for before in (now - 1, now - 2) if within else (now - 1,):
                if _shifts(figures, before, now, known):
                    shifted.append((before, now))
                    break
        spans += [Span(session, whole[before][-1].position, whole[now][0].position) for before, now in shifted]
        for check in figures[: shifted[0][0] + 1 if shifted else None]:
            known += check
    return spans


def doubtful_spans(placed: Sequence[PlacedBlock]) -> list[Span]:
    """Return, in addition to `changed_spans`, the spans in which a block may be of another speed than its neighbours,
    in each run.

    If checks have moved from all known ones, and only once in the run, they have seen a speed that did not last: the
    blocks between the check before them and the one after them are in doubt. If the first check of a run has moved from
    all checks of the run before, the blocks of that earlier run after its last check may be of either speed, and count
    as if a shift fell among them.
    """
    spans: list[Span] = []
    before: list[PlacedBlock] = []
    for session, run in groupby(placed, key=lambda placed_block: placed_block.block.session):
        checks = [list(check) for _, check in groupby(run, key=lambda placed_block: check_of(placed_block.block.round))]
        whole = [check for check in checks if len(check) >= CHECK_BLOCKS]
        figures = [_figures_ns([placed_block.block for placed_block in check]) for check in whole]
        if before and whole and _apart(figures[0], _figures_ns([placed_block.block for placed_block in before])):
            spans.append(Span(before[0].block.session, before[-1].position, whole[0][0].position))
        spans += _burst(session, whole, figures)
        before = [placed_block for check in whole for placed_block in check] or before
    return spans


def in_race(labels: Iterable[str]) -> tuple[str, ...]:
    """Return the labels of a block in a race, in which a shift is only a warning: the race pairs blocks within rounds,
    and one block in which a shift fell cannot decide. A speed that did not last gives no warning in a race."""
    lasting = (label for label in labels if label != "device_moved")
    return tuple("device_moved" if label == "device_changed" else label for label in lasting)


def _burst(session: int, whole: Sequence[Sequence[PlacedBlock]], figures: Sequence[Sequence[float]]) -> list[Span]:
    """Return the span around the checks in a row that have moved, if all checks before and after them in the run have
    not."""
    first = next((at for at in range(1, len(whole)) if _apart(figures[at], [*chain(*figures[:at])])), None)
    if first is None:
        return []
    known = [*chain(*figures[:first])]
    away = [at for at in range(first, len(whole)) if _beyond(figures[at], known)]
    back = first + len(away)
    if back == len(whole) or away[-1] != back - 1:
        return []  # The new speed has lasted up to now, or it came again.
    return [Span(session, whole[first - 1][-1].position, whole[back][0].position, lasts=False)]


def _shifts(checks: Sequence[Sequence[float]], before: int, now: int, known: Sequence[float]) -> bool:
    """Tell whether the device changed for good between two checks. `before` and `now`: numbers of checks; all values
    are figures of blocks."""
    earlier, later = [*known, *chain(*checks[: before + 1])], [*chain(*checks[now:])]
    return _differ(checks[now], checks[before]) and _apart(checks[now], earlier) and _beyond(later, earlier)


def _mixed(check: Sequence[float]) -> bool:
    return max(check) > (1.0 + MOVED) * min(check)


def _apart(check: Sequence[float], known: Sequence[float]) -> bool:
    return _beyond(check, known) and _differ(check, known)


def _beyond(check: Sequence[float], known: Sequence[float]) -> bool:
    return min(check) > max(known) or max(check) < min(known)


def _differ(check: Sequence[float], known: Sequence[float]) -> bool:
    return abs(median(check) / median(known) - 1.0) > MOVED


def _figures_ns(blocks: Sequence[Block]) -> list[float]:
    return [figure_ns(block.samples_ns) for block in blocks]
