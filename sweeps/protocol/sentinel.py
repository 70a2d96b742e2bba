"""The sentinel: a small built-in model, timed at intervals, that shows when the device itself changed speed. Pure.

A sweep compares variants within rounds, so drift cancels in the comparison. But figures from before and after a change
of the device are not comparable. If the sentinel's latency changed by more than 5 %, everything measured since the last
good check gets the label `device_changed`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from sweeps.records import Block
from sweeps.spec.inputs import ModelSpec
from sweeps.stats import median
from sweeps.variant import Variant

MOVED = 0.05

MODEL = ModelSpec(
    source="workers.sentinel:sentinel", name="edgesweep-sentinel", weights="random", input_shape=(1, 3, 64, 64)
)
VARIANT = Variant(fuse=True, optimize=True)

CHECK_BLOCKS = 3
"""Processes of one sentinel check: single processes differ by more than the change to detect."""
_ROUNDS_PER_CHECK = 10


@dataclass(frozen=True, slots=True)
class PlacedBlock:
    """A block of the sentinel, with its position in the order of all measurements."""

    position: int
    block: Block


@dataclass(frozen=True, slots=True)
class Span:
    """The positions between `after` and `until` in one run (session) of the driver: measured on a changed device."""

    session: int
    after: int
    until: float
    """Infinite if no later check of that run was good."""

    def holds(self, one: PlacedBlock) -> bool:
        return one.block.session == self.session and self.after < one.position < self.until


def round_of(check: int, number: int) -> int:
    """The round number under which block `number` of a sentinel check is stored."""
    return check * _ROUNDS_PER_CHECK + number


def next_check(blocks: Sequence[Block]) -> int:
    return 1 + max((block.round // _ROUNDS_PER_CHECK for block in blocks), default=-1)


def moved(blocks: Sequence[Block], first: Sequence[Block]) -> bool:
    """Whether a check differs from the first check of its run by more than 5 %, and by more than the noise between
    processes: all its blocks are slower, or all are faster, than all blocks of the first check."""
    now, then = ([median(block.samples_ns) for block in check] for check in (blocks, first))
    apart = min(now) > max(then) or max(now) < min(then)
    return apart and abs(median(now) / median(then) - 1.0) > MOVED


def changed_spans(placed: Sequence[PlacedBlock]) -> list[Span]:
    """The spans in which the device differed from the start of its run. `placed`: in the order of measuring.

    A span lasts from the last good check to the next good one. Incomplete checks are ignored. Each run (session) of the
    driver is compared with its own first check; a run without a check has no spans.
    """
    spans: list[Span] = []
    for session, run in groupby(placed, key=lambda one: one.block.session):
        checks = [list(check) for _, check in groupby(run, key=lambda one: one.block.round // _ROUNDS_PER_CHECK)]
        whole = [check for check in checks if len(check) >= CHECK_BLOCKS]
        changed_after: int | None = None
        last_good = whole[0][-1].position if whole else 0
        for check in whole[1:]:
            if moved([one.block for one in check], [one.block for one in whole[0]]):
                changed_after = last_good if changed_after is None else changed_after
                continue
            if changed_after is not None:
                spans.append(Span(session, changed_after, check[0].position))
                changed_after = None
            last_good = check[-1].position
        if changed_after is not None:
            spans.append(Span(session, changed_after, math.inf))
    return spans
