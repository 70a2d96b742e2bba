"""The blocks by which the noise of devices is known: a file of JSON lines per device and fingerprint, one block a line.

Not in the journal of sweeps: they belong to no sweep, and older versions of EdgeSweep need not know them.
"""

import math
import os
from collections.abc import Sequence
from pathlib import Path

from sweeps.device_facts import DeviceFacts, canonical_key
from sweeps.errors import EdgeSweepError, StoreError
from sweeps.json_records import from_json, to_json
from sweeps.protocol.noise import Calibration, calibrate
from sweeps.records import Block
from sweeps.workspace import Workspace

SESSION_GAP_S = 1800.0
"""Blocks that begin so long after the last one are another session."""


def file_of(workspace: Workspace, facts: DeviceFacts) -> Path:
    # The id is text from the device, so it is not used as a file's name.
    key = canonical_key({"device": facts.device_id, "fingerprint": facts.fingerprint})
    return workspace.calibrations / f"{key[:16]}.jsonl"


def read_blocks(path: Path) -> list[Block]:
    """All blocks, in the order of measuring; none without a file. A last line that was cut off is ignored.

    Raises `StoreError` with the line that is no block.
    """
    try:
        lines = path.read_bytes().split(b"\n")[:-1]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}") from error
    blocks = []
    for number, line in enumerate(lines, 1):
        try:
            blocks.append(_checked(from_json(Block, line.decode())))
        except (StoreError, ValueError) as error:
            why = error.message if isinstance(error, StoreError) else str(error)
            raise StoreError(
                f"{path}, line {number}: {why:.300}", "move the file away, and measure again with edgesweep noise"
            ) from error
    return blocks


def of_one_job(blocks: Sequence[Block]) -> list[Block]:
    """Those of the last one's job: with other software or another protocol the noise may be another."""
    return [block for block in blocks if block.job_key == blocks[-1].job_key]


def known_noise(workspace: Workspace, facts: DeviceFacts) -> Calibration | None:
    """`None` if the noise of this device was never measured, or not enough. Raises `StoreError`."""
    blocks = of_one_job(read_blocks(file_of(workspace, facts)))
    try:
        return calibrate(blocks)
    except EdgeSweepError:
        return None


def next_place(blocks: Sequence[Block], now_s: float) -> tuple[int, int]:
    """Session and round of the next block. `now_s`: seconds since 1970.

    Blocks do not hold when they ended: it is taken from the session's start and what its blocks took.
    """
    if not blocks:
        return int(now_s), 0
    last = blocks[-1].session
    run = [block for block in blocks if block.session == last]
    ended_s = last + sum(block.device_seconds + block.conditions.waited_seconds for block in run)
    if now_s < ended_s + SESSION_GAP_S:
        return last, 1 + max(block.round for block in run)
    return int(now_s), 0


def append(path: Path, block: Block) -> None:
    """Written to the disk before it returns; what a run that was killed had cut off is removed. Raises `StoreError`."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a+b") as file:
            file.seek(0)
            file.truncate(file.read().rfind(b"\n") + 1)
            file.write(f"{to_json(block)}\n".encode())
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error.strerror}") from error


def _checked(block: Block) -> Block:
    """Raises `ValueError` for figures that no block has."""
    if not block.samples_ns or min(block.samples_ns) <= 0:
        raise ValueError("a block's samples are positive numbers")
    times = (block.device_seconds, block.conditions.waited_seconds)
    if not all(math.isfinite(one) and one >= 0 for one in times) or min(block.session, block.round) < 0:
        raise ValueError("a block's times are not negative")
    return block
