from dataclasses import replace
from pathlib import Path

import pytest

from sweeps.errors import StoreError
from sweeps.journal.noise_blocks import (
    append,
    batch_file_of,
    file_of,
    known_batch_spread,
    known_noise,
    next_place,
    next_round,
    read_blocks,
    read_rounds,
)
from sweeps.json_records import to_json
from sweeps.protocol.batch_noise import PairedRound, batch_key
from sweeps.records import Block
from sweeps.workspace import Workspace
from tests.sweeps.conftest import Records


def blocks_of(records: Records, count: int, start: int = 0, **changes: object) -> list[Block]:
    job = records.job(0)
    return [records.block(job, number, ms=5.0 + number % 3, **changes) for number in range(start, start + count)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "noise" / "one.jsonl"


def test_blocks_come_back_as_they_were_and_in_their_order(records: Records, path: Path) -> None:
    blocks = blocks_of(records, 4)
    assert read_blocks(path) == []
    for block in blocks:
        append(path, block)
    assert read_blocks(path) == blocks


def test_a_line_that_was_cut_off_is_ignored_and_then_removed(records: Records, path: Path) -> None:
    first, second = blocks_of(records, 2)
    append(path, first)
    with path.open("a") as file:
        file.write(to_json(second)[:200])
    assert read_blocks(path) == [first]
    append(path, second)
    assert read_blocks(path) == [first, second]


@pytest.mark.parametrize(
    "change",
    [
        ('"round":1', '"round":"1"'),
        ('"round":1', '"round":-1'),
        ('"round":1', '"other":1'),
        ('"samples_ns":[', '"samples_ns":[-5,'),
        ('"samples_ns":[', '"samples_ns":[0,'),
        ('"samples_ns":[', '"samples_ns":[],"warmup":['),
        ('"device_seconds":0.0', '"device_seconds":NaN'),
        ('"device_seconds":0.0', '"device_seconds":-1.0'),
        ("{", "\xff{"),
    ],
)
def test_a_file_that_somebody_changed_is_refused_with_its_line(
    records: Records, path: Path, change: tuple[str, str]
) -> None:
    for block in blocks_of(records, 2):
        append(path, block)
    first, second = path.read_text().splitlines()
    assert change[0] in second
    path.write_bytes("\n".join([first, second.replace(*change, 1), ""]).encode("latin-1"))
    with pytest.raises(StoreError, match=r"one\.jsonl, line 2: ") as refused:
        read_blocks(path)
    assert "move the file away" in refused.value.next_step


def test_what_cannot_be_read_or_written_is_an_error_with_its_path(records: Records, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    with pytest.raises(StoreError, match="folder cannot be read"):
        read_blocks(tmp_path / "folder")
    with pytest.raises(StoreError, match="cannot be written"):
        append(tmp_path / "file" / "one.jsonl", *blocks_of(records, 1))


def test_a_run_soon_after_the_last_block_goes_on_with_its_session(records: Records) -> None:
    assert next_place([], 1e9) == (10**9, 0)
    old = blocks_of(records, 3, session=1000)
    blocks = [*old, *blocks_of(records, 3, session=100_000, device_seconds=100.0)]
    ended_s = 100_000 + 300
    assert next_place(blocks, ended_s + 1799) == (100_000, 3)
    assert next_place(blocks, ended_s + 1801) == (ended_s + 1801, 0)
    waited = replace(blocks[-1].conditions, waited_seconds=50.0)
    assert next_place([*blocks[:-1], replace(blocks[-1], conditions=waited)], ended_s + 1801) == (100_000, 3)
    assert next_place(blocks, 50.0) == (100_000, 3), "a clock that was set back begins no session"


def test_the_noise_of_a_device_is_of_its_last_job_and_unknown_from_too_few_blocks(
    records: Records, tmp_path: Path
) -> None:
    workspace = Workspace.open(tmp_path)
    path = file_of(workspace, records.facts)
    assert known_noise(workspace, records.facts) is None
    for block in blocks_of(records, 8):
        append(path, block)
    noise = known_noise(workspace, records.facts)
    assert noise is not None
    assert noise.blocks == 8
    assert known_noise(workspace, replace(records.facts, device_id="another")) is None
    assert known_noise(workspace, replace(records.facts, os_build="linux 7")) is None
    append(path, replace(blocks_of(records, 1)[0], job_key="another protocol"))
    assert known_noise(workspace, records.facts) is None


def paired(number: int, **changes: object) -> PairedRound:
    default = PairedRound(
        builds="a",
        batch=batch_key(),
        session=1000,
        round=number,
        together_ns=tuple(5e6 + number * 1e3 + build * 1e4 for build in range(8)),
        alone_ns=tuple(6e6 + number * 2e3 + build * 1e4 for build in range(8)),
        device_seconds=30.0,
    )
    return replace(default, **changes)


def test_rounds_of_batches_come_back_as_they_were_beside_the_blocks_of_one_build(
    records: Records, tmp_path: Path
) -> None:
    workspace = Workspace.open(tmp_path)
    path = batch_file_of(workspace, records.facts)
    assert known_batch_spread(workspace, records.facts) is None
    for number in range(3):
        append(path, paired(number))
    assert read_rounds(path) == [paired(number) for number in range(3)]
    spread = known_batch_spread(workspace, records.facts)
    assert spread is not None
    assert (spread.variants, spread.rounds) == (8, 3)
    assert path != file_of(workspace, records.facts)
    assert known_noise(workspace, records.facts) is None
    assert next_round(read_rounds(path), 1000 + 90 + 1799) == (1000, 3)
    assert next_round(read_rounds(path), 1000 + 90 + 1801) == (2891, 0)


@pytest.mark.parametrize(
    "change",
    [
        {"together_ns": (1.0,) * 7},
        {"together_ns": (1.0,) * 7, "alone_ns": (1.0,) * 7},
        {"together_ns": (0.0,) * 8},
        {"alone_ns": (-1.0,) * 8},
        {"round": -1},
        {"session": -1},
        {"device_seconds": -1.0},
    ],
)
def test_a_round_that_somebody_changed_is_refused_with_its_line(tmp_path: Path, change: dict[str, object]) -> None:
    path = tmp_path / "batches.jsonl"
    append(path, paired(0))
    append(path, paired(1, **change))
    with pytest.raises(StoreError, match=r"batches\.jsonl, line 2: "):
        read_rounds(path)
