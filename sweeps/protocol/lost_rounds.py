"""Blocks that are lost where a device changed its speed for good, and how many are measured in their place. Pure.

A lost block is no round: the job gets another one, also after its last round. A device that goes on to shift cannot
hold a job for ever: nothing has more than twice the blocks that it needs, or than its last round.
"""

from collections.abc import Iterable

from sweeps.protocol.presets import Protocol
from sweeps.records import Block


def is_lost(block: Block) -> bool:
    """Tell whether the device shifted around the block, by the labels with which a journal reads it."""
    return "device_changed" in block.labels


def lost_count(blocks: Iterable[Block]) -> int:
    return sum(map(is_lost, blocks))


def missing_rounds(protocol: Protocol, blocks: int, lost: int) -> int:
    """A job of `budget: full` gets this many more rounds because `lost` of its `blocks` are lost."""
    return min(lost, _missing(protocol.rounds, blocks, lost, max(protocol.last_round, 2 * protocol.rounds)))


def missing_confirmations(needed: int, blocks: int, lost: int) -> int:
    """The winner of a race needs this many more confirming blocks: it has `blocks`, of which `lost` are lost."""
    return _missing(needed, blocks, lost, 2 * needed)


def _missing(needed: int, blocks: int, lost: int, most: int) -> int:
    return max(0, min(needed - (blocks - lost), most - blocks))
