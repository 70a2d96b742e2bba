"""Blocks that are lost because the device changed its speed for good, and how many replace them. Pure.

A lost block does not count as a round: the job gets another one, even after its last round. A device that keeps
shifting cannot hold a job for ever: no job gets more blocks than twice the rounds that it needs, or than its last round
if that is more.
"""

from collections.abc import Iterable

from sweeps.protocol.presets import Protocol
from sweeps.records import Block


def is_lost(block: Block) -> bool:
    """Tell whether the device's speed shifted around the block, by the block's labels as the journal returns them."""
    return "device_changed" in block.labels


def lost_count(blocks: Iterable[Block]) -> int:
    return sum(map(is_lost, blocks))


def missing_rounds(protocol: Protocol, blocks: int, lost: int) -> int:
    """Return how many more rounds a job of `budget: full` gets, because `lost` of its `blocks` are lost."""
    return min(lost, _missing(protocol.rounds, blocks, lost, max(protocol.last_round, 2 * protocol.rounds)))


def missing_confirmations(needed: int, blocks: int, lost: int) -> int:
    """Return how many more confirming blocks the winner of a race needs: it has `blocks`, of which `lost` are lost."""
    return _missing(needed, blocks, lost, 2 * needed)


def _missing(needed: int, blocks: int, lost: int, most: int) -> int:
    return max(0, min(needed - (blocks - lost), most - blocks))
