"""The blocks from which the noise of devices is computed: JSON lines files per device and fingerprint, one record a
line. One file has blocks of one build; a second file has rounds of several builds, each timed in a batch and in a
separate process.

The journal does not hold these blocks: they belong to no sweep, and older versions of EdgeSweep need not know them.
"""

import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from sweeps.device_facts import DeviceFacts, canonical_key
from sweeps.errors import EdgeSweepError, StoreError
from sweeps.json_records import Record, from_json, to_json
from sweeps.protocol.batch_noise import FEWEST_VARIANTS, BatchSpread, PairedRound, of_rounds
from sweeps.protocol.resolvable_difference import Calibration, calibrate
from sweeps.protocol.sessions import GAP_S
from sweeps.records import Block
from sweeps.workspace import Workspace


def file_of(workspace: Workspace, facts: DeviceFacts) -> Path:
    """Return the path of the file with this device's blocks of one build."""
    # The id is text from the device, so it is not used as a file's name.
    key = canonical_key({"device": facts.device_id, "fingerprint": facts.fingerprint})
    return workspace.calibrations / f"{key[:16]}.jsonl"


def batch_file_of(workspace: Workspace, facts: DeviceFacts) -> Path:
    """Return the path of the file with this device's rounds of several builds, in batches and in separate processes."""
    path = file_of(workspace, facts)
    return path.with_name(f"{path.stem}-batches.jsonl")


def read_blocks(path: Path) -> list[Block]:
    """Return all blocks, in the order of measuring; an empty list without a file. A last line that was cut off is
    ignored.

    Raises `StoreError`, with the line number, for a line that is no block.
    """
    return _read(path, Block, _check_block)


def read_rounds(path: Path) -> list[PairedRound]:
    """Return the rounds of a file that `batch_file_of` names, read as `read_blocks` reads blocks."""
    return _read(path, PairedRound, _check_round)


def known_batch_spread(workspace: Workspace, facts: DeviceFacts) -> BatchSpread | None:
    """Return the spread between times in batches and in separate processes on this device; `None` if they were never
    compared. Raises `StoreError`."""
    return of_rounds(read_rounds(batch_file_of(workspace, facts)))


def of_one_job(blocks: Sequence[Block]) -> list[Block]:
    """Return the blocks of the same job as the last block: with other software or another protocol the noise may
    differ."""
    return [block for block in blocks if block.job_key == blocks[-1].job_key]


def known_noise(workspace: Workspace, facts: DeviceFacts) -> Calibration | None:
    """Return the noise of this device; `None` if it was never measured, or not enough. Raises `StoreError`."""
    blocks = of_one_job(read_blocks(file_of(workspace, facts)))
    if not blocks:
        return None  # saves the second that the imports of `calibrate` take
    try:
        return calibrate(blocks)
    except EdgeSweepError:
        return None


def next_place(blocks: Sequence[Block], now_s: float) -> tuple[int, int]:
    """Return the session and the round of the next block. `now_s`: seconds since 1970."""
    return _next_place(
        [(block.session, block.round, block.device_seconds + block.conditions.waited_seconds) for block in blocks],
        now_s,
    )


def next_round(rounds: Sequence[PairedRound], now_s: float) -> tuple[int, int]:
    """Return the session and the number of the next round of several builds, as `next_place` does for blocks."""
    return _next_place([(paired.session, paired.round, paired.device_seconds) for paired in rounds], now_s)


def append(path: Path, record: Block | PairedRound) -> None:
    """Write a record to the disk before returning, in place of a last line that a killed run had cut off. Raises
    `StoreError`."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a+b") as file:
            file.seek(0)
            file.truncate(file.read().rfind(b"\n") + 1)
            file.write(f"{to_json(record)}\n".encode())
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error.strerror}") from error


def _read(path: Path, kind: type[Record], check: Callable[[Record], None]) -> list[Record]:
    try:
        lines = path.read_bytes().split(b"\n")[:-1]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}") from error
    records = []
    for number, line in enumerate(lines, 1):
        try:
            record = from_json(kind, line.decode())
            check(record)
        except (StoreError, ValueError) as error:
            why = error.message if isinstance(error, StoreError) else str(error)
            raise StoreError(
                f"{path}, line {number}: {why:.300}", "move the file away, and measure again with edgesweep noise"
            ) from error
        records.append(record)
    return records


def _check_block(block: Block) -> None:
    """Check a block. Raises `ValueError` for figures that no block can have."""
    if not block.samples_ns or min(block.samples_ns) <= 0:
        raise ValueError("a block's samples are positive numbers")
    _check_times(block.session, block.round, block.device_seconds, block.conditions.waited_seconds)


def _check_round(paired: PairedRound) -> None:
    """Check a round. Raises `ValueError` for figures that no round can have."""
    figures = (*paired.together_ns, *paired.alone_ns)
    if not all(0.0 < figure < math.inf for figure in figures):
        raise ValueError("the figures of blocks are positive numbers")
    if len(paired.together_ns) != len(paired.alone_ns) or len(paired.alone_ns) < FEWEST_VARIANTS:
        raise ValueError(f"a round has a figure in the batch and one alone of {FEWEST_VARIANTS} builds or more")
    _check_times(paired.session, paired.round, paired.device_seconds)


def _check_times(session: int, round_: int, *seconds: float) -> None:
    if min(session, round_) < 0 or not all(0.0 <= duration < math.inf for duration in seconds):
        raise ValueError("times, sessions and rounds are not negative")


def _next_place(places: Sequence[tuple[int, int, float]], now_s: float) -> tuple[int, int]:
    """Return the session and the round that follow the measurements at `places` (session, round and seconds of each).
    No field holds when a session ended: its end is computed from its start and the seconds of its measurements."""
    if not places:
        return int(now_s), 0
    last = places[-1][0]
    run = [(round_, seconds) for session, round_, seconds in places if session == last]
    if now_s < last + sum(seconds for _, seconds in run) + GAP_S:
        return last, 1 + max(round_ for round_, _ in run)
    return int(now_s), 0
