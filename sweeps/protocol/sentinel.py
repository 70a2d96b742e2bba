"""The sentinel: a small built-in model, timed now and then, that shows when the device itself changed speed. Pure.

A sweep compares variants within rounds, so drift cancels there; the figures themselves do not mean the same any more
once the device has changed. A sentinel that moved by more than 5 % puts `device_changed` on everything measured since
the last one that had not.
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

LOOK_BLOCKS = 3
"""Processes of one look: one alone differs from the next by more than what is looked for."""
_ROUNDS_PER_LOOK = 10


@dataclass(frozen=True, slots=True)
class Placed:
    """A block of the sentinel, and its place in the order in which everything was measured."""

    position: int
    block: Block


@dataclass(frozen=True, slots=True)
class Span:
    """What one run (session) of the driver measured after `after` and before `until`: on a changed device."""

    session: int
    after: int
    until: float
    """Infinite where that run did not look again, or found no good device any more."""

    def holds(self, one: Placed) -> bool:
        return one.block.session == self.session and self.after < one.position < self.until


def round_of(look: int, number: int) -> int:
    """The round under which the `number`th block of a look is stored."""
    return look * _ROUNDS_PER_LOOK + number


def next_look(blocks: Sequence[Block]) -> int:
    return 1 + max((block.round // _ROUNDS_PER_LOOK for block in blocks), default=-1)


def moved(blocks: Sequence[Block], first: Sequence[Block]) -> bool:
    """Whether a look differs from the first one of its run by more than 5 %, and not by the noise of processes alone:
    all of its blocks are slower, or all are faster, than all of the first look's."""
    now, then = ([median(block.samples_ns) for block in look] for look in (blocks, first))
    apart = min(now) > max(then) or max(now) < min(then)
    return apart and abs(median(now) / median(then) - 1.0) > MOVED


def changed_spans(placed: Sequence[Placed]) -> list[Span]:
    """When the device was not what it was at the start of its run; `placed` in the order of measuring.

    From the last good look to the next one. A look that was broken off says nothing. Each run (session) of the driver
    is judged by its own first look; one that had none is not judged.
    """
    spans: list[Span] = []
    for session, run in groupby(placed, key=lambda one: one.block.session):
        looks = [list(look) for _, look in groupby(run, key=lambda one: one.block.round // _ROUNDS_PER_LOOK)]
        whole = [look for look in looks if len(look) >= LOOK_BLOCKS]
        changed_after: int | None = None
        last_good = whole[0][-1].position if whole else 0
        for look in whole[1:]:
            if moved([one.block for one in look], [one.block for one in whole[0]]):
                changed_after = last_good if changed_after is None else changed_after
                continue
            if changed_after is not None:
                spans.append(Span(session, changed_after, look[0].position))
                changed_after = None
            last_good = look[-1].position
        if changed_after is not None:
            spans.append(Span(session, changed_after, math.inf))
    return spans
