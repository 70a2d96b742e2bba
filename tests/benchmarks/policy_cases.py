"""The cases of `bench_policy.py`, what a sweep gave, and the tables of `infra/protocol-evidence.md` from them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from bench_shipping import SPREADS


@dataclass(frozen=True)
class Cell:
    arm: str
    form: str
    spread: str
    start_s: float
    groups: int = 1
    misleads: bool = False

    @property
    def name(self) -> str:
        label = f"{self.form.removeprefix('judge_')}, {self.spread}, {self.start_s:g} s"
        return f"{label}{f', {self.groups} groups' if self.groups > 1 else ''}{', misled' if self.misleads else ''}"


@dataclass(frozen=True)
class Sweep:
    """The figures of one sweep."""

    device_s: float
    named: bool
    lost: bool
    decided: bool
    covered: bool | None
    """The winner's interval holds the latency that it says it is of."""
    alarm: bool | None
    """`None`: there was nothing to raise one."""
    batches_s: float
    batches_timed_s: float
    timed_s: float


def percent(sweeps: list[Sweep], name: str) -> float:
    values = [getattr(sweep, name) for sweep in sweeps]
    numbers = [value for value in values if value is not None]
    return 100 * sum(numbers) / len(numbers) if numbers else 0.0


def table(sweeps_of: Mapping[Cell, list[Sweep]], start_s: float, arm: str) -> str:
    """The table of `infra/protocol-evidence.md`: device seconds, median / nine of ten."""
    lines = [f"| {arm}, {start_s:g} s a start | " + " | ".join((*SPREADS, "processes of their own only")) + " |"]
    lines.append("| --- |" + " ---: |" * (len(SPREADS) + 1))
    rows: dict[Cell, list[Cell]] = {}
    for cell in sweeps_of:
        if (cell.arm, cell.start_s) == (arm, start_s):
            rows.setdefault(replace(cell, spread=""), []).append(cell)
    for row, cells_ in rows.items():
        solo = [
            np.median([sweep.device_s for sweep in sweeps_of[of]])
            for of in (replace(c, arm="solo") for c in cells_)
            if of in sweeps_of
        ]
        words = [*(_entry(sweeps_of[cell]) for cell in cells_), ", ".join(f"{median:.0f}" for median in solo)]
        name = row.name.replace(f", , {start_s:g} s", "")
        lines.append(f"| {name} | " + " | ".join(words) + " |")
    return "\n".join(lines)


def _entry(sweeps: list[Sweep]) -> str:
    times = [sweep.device_s for sweep in sweeps]
    named, undecided = percent(sweeps, "named"), 100 - percent(sweeps, "decided")
    notes = [f"{named:.0f} % named"] * (named < 100) + [f"{undecided:.0f} % open"] * (undecided > 0)
    return f"{np.median(times):.0f} / {np.quantile(times, 0.9):.0f}" + (f" ({', '.join(notes)})" if notes else "")
