from pathlib import Path

import numpy as np
import pytest

from sweeps.errors import SpecError
from sweeps.report.noise_text import trace_text
from tests.benchmarks.recorded_phone import Playback, RecordedPhone, Trace, read_trace, simulated_phone
from tests.sweeps.conftest import Records
from workers.devices.fake.phones import PHONES
from workers.devices.fake.physics import SimulatedBlock, SimulatedPhone

ROWS = [(f"p{process}", 1_000_000 * (process + 1) + 1_000 * sample) for process in range(6) for sample in range(8)]


def written(folder: Path, text: str | bytes) -> Path:
    path = folder / "phone.csv"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def csv_of(rows: list[tuple[str, object]], head: str = "process,sample_ns") -> str:
    return "\n".join([head, *(f"{process},{sample}" for process, sample in rows)]) + "\n"


def blocks(phone: SimulatedPhone, count: int, true_ms: float = 10.0) -> list[SimulatedBlock]:
    return [
        phone.block(true_ms, warmup_iterations=0, warmup_seconds=0.2, iterations=5, min_seconds=0.2, max_seconds=60.0)
        for _ in range(count)
    ]


def test_a_trace_is_factors_on_the_median_process_in_the_order_of_its_samples(tmp_path: Path) -> None:
    trace = read_trace(written(tmp_path, csv_of(ROWS)))
    assert (len(trace.processes), trace.samples) == (6, 48)
    middle = np.median([np.median([ns for name, ns in ROWS if name == f"p{process}"]) for process in range(6)])
    assert np.concatenate(trace.processes) == pytest.approx([ns / middle for _, ns in ROWS])
    assert np.median([np.median(process) for process in trace.processes]) == pytest.approx(1.0)


@pytest.mark.parametrize(
    "text",
    [
        csv_of([(name, ns / 1e3) for name, ns in ROWS], "process,sample_us"),
        csv_of([(name, ns / 1e6) for name, ns in ROWS], "process, sample_ms"),
        csv_of([(str(ns), name) for name, ns in ROWS], "sample_ns,process"),
        "\ufeff" + csv_of(ROWS).replace("\n", "\r\n"),
        csv_of(ROWS) + "\n\n",
        # Processes that ran at the same time.
        csv_of(sorted(ROWS, key=lambda row: row[1] % 1_000_000)),
        csv_of([(f'"{name}, the process"', ns) for name, ns in ROWS]),
    ],
)
def test_units_and_the_order_of_columns_and_lines_make_no_difference(tmp_path: Path, text: str) -> None:
    expected = np.concatenate(read_trace(written(tmp_path, csv_of(ROWS))).processes)
    assert np.concatenate(read_trace(written(tmp_path, text)).processes) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "line 1: the columns are missing"),
        (csv_of(ROWS, "process,sample_s"), "line 1: the columns are process, sample_s"),
        (csv_of(ROWS, "process,latency"), "line 1: the columns are process, latency"),
        (csv_of(ROWS, "run,sample_ns"), "line 1: the columns are run, sample_ns"),
        ("process,sample_ns,sample_ms\n1,2,3\n", "line 1: the columns are process, sample_ns, sample_ms"),
        ("process,sample_ns,warmup\n1,2,3\n", "line 1: the columns are process, sample_ns, warmup"),
        ("sample_ns\n1\n", "line 1: the columns are sample_ns"),
        ('{"process": 1, "sample_ns": 3}\n', "line 1: the columns are "),
        (csv_of([*ROWS, ("p0", "fast")]), "line 50: sample_ns is 'fast', not a positive number"),
        (csv_of([("p0", "nan"), *ROWS]), "line 2: sample_ns is 'nan', not a positive number"),
        (csv_of([("p0", "inf"), *ROWS]), "line 2: sample_ns is 'inf'"),
        (csv_of([("p0", "1e400"), *ROWS]), "line 2: sample_ns is '1e400'"),
        (csv_of([("p0", 0), *ROWS]), "line 2: sample_ns is '0'"),
        (csv_of([("p0", -5), *ROWS]), "line 2: sample_ns is '-5'"),
        (csv_of([("p0", ""), *ROWS]), "line 2: sample_ns is ''"),
        ("process,sample_ns\n1,2,3\n", "line 2: 3 values, not 2"),
        ("process,sample_ns\n1\n", "line 2: 1 values, not 2"),
        ('process,sample_ns\n"1,2\n', "line 2: "),
        (csv_of(ROWS[:32]), "has 4 processes: how much processes differ takes 5 or more"),
        ("process,sample_ns\n", "has 0 processes"),
        (csv_of(ROWS[:44]), "line 42: the process 'p5' has 4 samples, 5 are needed"),
        (csv_of([(name, 7) for name, _ in ROWS]), "from line 2 on: all 48 samples are equal, which is no noise"),
        (b"process,sample_ns\n\xff,3\n", "is not text in UTF-8"),
        ("process,sample_ns\n" + "9" * 200_000 + ",1\n", "line 2: "),
    ],
)
def test_what_is_no_trace_is_refused_with_its_line(tmp_path: Path, text: str | bytes, words: str) -> None:
    with pytest.raises(SpecError) as refused:
        read_trace(written(tmp_path, text))
    assert words in refused.value.message
    assert len(refused.value.message) < 500
    assert refused.value.next_step


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"none\.csv cannot be read: No such file"):
        read_trace(tmp_path / "none.csv")


def test_blocks_make_a_trace_of_their_samples(tmp_path: Path) -> None:
    records = Records()
    made_blocks = [records.block(records.job(0), number, ms=5.0 + number) for number in range(5)]
    trace = read_trace(written(tmp_path, trace_text(made_blocks)))
    assert np.concatenate(trace.processes) * 7.003 == pytest.approx(
        [ns / 1e6 for block in made_blocks for ns in block.samples_ns]
    )


def test_a_process_is_played_from_any_sample_on_and_begins_again_after_its_last() -> None:
    trace = Trace(tuple(np.array([10.0 * number + offset for offset in range(4)]) for number in range(5)))
    playback = Playback(trace, np.random.Generator(np.random.SFC64(0)))
    firsts = set()
    for _ in range(400):
        playback.start()
        played = np.concatenate([playback.factors(3), playback.factors(4)])
        assert len({int(value // 10) for value in played}) == 1, "one process"
        assert {*np.diff(played).tolist()} <= {1.0, -3.0}, "its samples in their order"
        firsts.add(played[0])
    assert firsts == {10.0 * number + position for number in range(5) for position in range(4)}


def test_a_phone_with_recorded_noise_has_the_noise_of_the_recorded_phone(tmp_path: Path) -> None:
    original = SimulatedPhone(PHONES["correlated"], 0)
    rows: list[tuple[str, object]] = [
        (str(number), sample) for number, block in enumerate(blocks(original, 300)) for sample in block.samples_ns
    ]
    trace = read_trace(written(tmp_path, csv_of(rows)))
    recorded_phone = simulated_phone(RecordedPhone(name="again", trace=trace), 1)
    logs = [
        np.log([block.median_ms for block in device_blocks])
        for device_blocks in (blocks(SimulatedPhone(PHONES["correlated"], 2), 300), blocks(recorded_phone, 300))
    ]
    assert logs[1].std() == pytest.approx(logs[0].std(), rel=0.15)
    assert trace.spread == pytest.approx(logs[0].std(), rel=0.15)
    samples = np.log(np.concatenate([block.samples_ns[:15] for block in blocks(recorded_phone, 300)])).reshape(300, 15)
    samples -= samples.mean(axis=1, keepdims=True)
    neighbours = float((samples[:, 1:] * samples[:, :-1]).mean() / (samples**2).mean())
    assert neighbours > 0.3, "neighbouring samples correlate as before, by 0.5 less what 15 samples' mean takes"


def test_the_truth_of_recorded_noise_is_the_median_over_its_processes() -> None:
    random = np.random.default_rng(0)
    trace = Trace(tuple(level * np.exp(0.1 * random.standard_normal(50)) for level in (0.9, 0.95, 1.0, 1.3, 1.5)))
    phone = simulated_phone(RecordedPhone(name="r", trace=trace), 3)
    device_blocks = blocks(phone, 3000)
    samples = np.concatenate([block.samples_ns[:10] for block in device_blocks]) / 1e6
    assert np.median(samples) == pytest.approx(device_blocks[0].true_p50_ms, rel=0.01)
    assert phone.true_p50_ms(20.0) == pytest.approx(2 * device_blocks[0].true_p50_ms)
