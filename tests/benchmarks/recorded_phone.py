"""Simulated phones with the recorded noise of a real device. A trace is CSV with a process and a sample per line.

    process,sample_ms
    1,3.021
    1,3.007
    2,3.114

The column of samples is `sample_ns`, `sample_us` or `sample_ms`: its name has the unit. Processes have any names; lines
of one process stand in the order of its samples, without its warm-up. `edgesweep noise --traces` writes such a file.
"""

import csv
import io
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sweeps.errors import SpecError
from workers.devices.fake.phones import Phone
from workers.devices.fake.physics import SimulatedPhone

FEWEST_PROCESSES = 5
FEWEST_SAMPLES = 5
"""A process has at least so many."""

_UNITS = {"sample_ns": 1e-6, "sample_us": 1e-3, "sample_ms": 1.0}
"""To ms."""
_FORM = "a trace has the columns process and sample_ns (or sample_us, sample_ms), one sample a line"
_QUANTILES = 1001


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """The noise of one artifact on one device, as factors. It has no latency of its own."""

    processes: tuple[NDArray[np.float64], ...]
    """Per process, its samples divided by the median of the processes' medians, in their order."""

    @property
    def samples(self) -> int:
        return sum(process.size for process in self.processes)

    @property
    def median(self) -> float:
        """The median of all samples, where each process counts as much as another."""
        shares = (np.arange(_QUANTILES) + 0.5) / _QUANTILES
        return float(np.median(np.concatenate([np.quantile(process, shares) for process in self.processes])))

    @property
    def spread(self) -> float:
        """Standard deviation of the logarithms of the processes' medians."""
        return float(np.log([np.median(process) for process in self.processes]).std(ddof=1))


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedPhone(Phone):
    """A cool phone with recorded noise of samples and processes, and with no other."""

    trace: Trace


class Playback:
    """Samples of a trace, process by process: which process, and where in it, is drawn (a block bootstrap)."""

    def __init__(self, trace: Trace, random: np.random.Generator) -> None:
        self._trace = trace
        self._random = random
        self.start()

    def start(self) -> None:
        """A new process: one of the recorded ones, from any of its samples on."""
        self._process = self._trace.processes[int(self._random.integers(len(self._trace.processes)))]
        self._at = int(self._random.integers(self._process.size))

    def factors(self, count: int) -> NDArray[np.float64]:
        """The factors of the next samples of this process. After its last comes its first."""
        factors = self._process[(self._at + np.arange(count)) % self._process.size]
        self._at += count
        return factors


class PlayingPhone(SimulatedPhone):
    """A simulated phone that plays its recorded noise."""

    def __init__(self, phone: RecordedPhone, seed: int) -> None:
        super().__init__(phone, seed)
        self._median = phone.trace.median
        self._playback = Playback(phone.trace, self.random)

    def median_factor(self, slowed: bool | None) -> float:
        return self._median

    def sample_factors(self, count: int) -> NDArray[np.float64]:
        return self._playback.factors(count)

    def process_factor(self, true_ms: float) -> float:
        """A recorded process brings its own noise."""
        self._playback.start()
        return 1.0


def simulated_phone(phone: Phone, seed: int) -> SimulatedPhone:
    """The phone at rest: with its recorded noise, where it has one."""
    return PlayingPhone(phone, seed) if isinstance(phone, RecordedPhone) else SimulatedPhone(phone, seed)


def read_trace(path: Path) -> Trace:
    """Raises `SpecError` with the line that is wrong: other columns or units, no positive number, too few processes or
    samples, or all samples equal."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise SpecError(f"{path} cannot be read: {error.strerror}", _FORM) from error
    except UnicodeDecodeError as error:
        raise SpecError(f"{path} is not text in UTF-8", _FORM) from error
    processes = _processes(path, text)
    if len(processes) < FEWEST_PROCESSES:
        raise SpecError(
            f"{path} has {len(processes)} processes: how much processes differ takes {FEWEST_PROCESSES} or more",
            "record more processes; edgesweep noise DEVICE --traces FILE does",
        )
    for name, (line, samples) in processes.items():
        if len(samples) < FEWEST_SAMPLES:
            raise SpecError(
                f"{path}, line {line}: the process {name[:80]!r} has {len(samples)} samples, "
                f"{FEWEST_SAMPLES} are needed",
                "record longer, or leave this process out",
            )
    recorded = [np.array(samples) for _, samples in processes.values()]
    if len({value for samples in recorded for value in samples.tolist()}) == 1:
        raise SpecError(
            f"{path}, from line 2 on: all {sum(map(len, recorded)):,} samples are equal, which is no noise",
            "record with a finer clock",
        )
    middle = float(np.median([np.median(samples) for samples in recorded]))
    return Trace(tuple(samples / middle for samples in recorded))


def _processes(path: Path, text: str) -> dict[str, tuple[int, list[float]]]:
    """By name, the line of its first sample, and its samples in ms."""
    rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    rows_of_process: dict[str, tuple[int, list[float]]] = {}
    try:
        columns = [column.strip() for column in next(rows, [])]
        units = [column for column in columns if column in _UNITS]
        if sorted(columns) != sorted(["process", *units[:1]]) or not units:
            raise SpecError(f"{path}, line 1: the columns are {', '.join(columns)[:200] or 'missing'}", _FORM)
        process, sample = columns.index("process"), columns.index(units[0])
        for row in rows:
            if not row:
                continue
            if len(row) != len(columns):
                raise SpecError(f"{path}, line {rows.line_num}: {len(row)} values, not {len(columns)}", _FORM)
            value = _number(row[sample]) * _UNITS[units[0]]
            if not 0.0 < value < math.inf:
                raise SpecError(
                    f"{path}, line {rows.line_num}: {units[0]} is {row[sample][:80]!r}, not a positive number",
                    "leave out samples that were not measured",
                )
            rows_of_process.setdefault(row[process].strip(), (rows.line_num, []))[1].append(value)
    except csv.Error as error:
        raise SpecError(f"{path}, line {rows.line_num}: {error}", _FORM) from error
    return rows_of_process


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
