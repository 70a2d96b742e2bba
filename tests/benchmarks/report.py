"""Every benchmark ends so: a table for people, one JSON line last, an exit code that says whether it was reached."""

import json
import platform
import sys
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured figure. `required` is the bound as text; `reached` is `None` where it is only reported."""

    name: str
    measured: float
    unit: str
    required: str = ""
    reached: bool | None = None


def finish(benchmark: str, figures: list[Figure], **context: object) -> None:
    """Print and exit: 0 where every bound was reached, else 1."""
    width = max(len(figure.name) for figure in figures)
    print(f"\n{benchmark} on {cpu_model()}")
    for figure in figures:
        verdict = {True: "reached", False: "MISSED", None: ""}[figure.reached]
        value = f"{figure.measured:.3f} {figure.unit}"
        print(f"  {figure.name:{width}}  {value:>14}  {figure.required:<18} {verdict}".rstrip())
    reached = all(figure.reached is not False for figure in figures)
    document = {
        "benchmark": benchmark,
        "reached": reached,
        "cpu": cpu_model(),
        "figures": [asdict(figure) for figure in figures],
        **context,
    }
    # Figures of numpy are written as the numbers that they are.
    print(json.dumps(document, allow_nan=False, default=lambda figure: figure.item()))
    sys.exit(0 if reached else 1)


def at_least(name: str, measured: float, unit: str, bound: float) -> Figure:
    return Figure(name, measured, unit, f"at least {bound:g} {unit}", measured >= bound)


def at_most(name: str, measured: float, unit: str, bound: float) -> Figure:
    return Figure(name, measured, unit, f"at most {bound:g} {unit}", measured <= bound)


def cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()
