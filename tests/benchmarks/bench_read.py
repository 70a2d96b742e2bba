"""Reading results is timed: a ranked page, the fleet's verdicts, filters, `edgesweep rank`.

python tests/benchmarks/bench_read.py [--sizes 1000 10000] [--stores FOLDER]

Stores of 1,000, 10,000 and 100,000 results: 50 variants of each device and model, three rounds each, in one sweep. They
are written by the journal's own functions; samples are few, since no reader looks at them. A few jobs more wait: what
is new comes from them. Seconds of CPU of the process that reads, medians of 5. What other computers read has a bench
of its own (`bench_snapshot.py`).
`--stores`: keep the stores there, or use those that are.
"""

import argparse
import gc
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import streamlit as st
from many_results import SWEEP, VARIANTS, add_ten, make
from report import Figure, at_most, finish

from dashboard import data, fleet_data
from dashboard.views.fleet import MODELS, PHONES
from sweeps.journal.journal import Journal
from sweeps.journal.next_step_hints import hints_of
from sweeps.journal.result_place import Place
from sweeps.ranking.rank import rank_rows
from sweeps.store.verdicts import overview
from sweeps.workspace import Workspace

SIZES = (1_000, 10_000, 100_000)
REPEATS = 5
LEFT = 6
"""Ten new results can come so many times."""
_RUN = "import sys; from sweeps.cli.main import main; main(sys.argv[1:])"


def cpu_s(call: Callable[[], object], repeats: int = REPEATS) -> float:
    times_s = []
    for _ in range(repeats):
        began = time.process_time()
        call()
        times_s.append(time.process_time() - began)
    return statistics.median(times_s)


def command_s(workspace: Workspace, *words: str) -> float:
    """CPU of a whole process, start-up included."""
    times_s = []
    for _ in range(REPEATS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, "-c", _RUN, "rank", "--workspace", str(workspace.root), *words]
        subprocess.run(command, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times_s.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return statistics.median(times_s)


def page(workspace: Workspace) -> None:
    with Journal.open(workspace.journal, read_only=True) as journal:
        journal.results.watermark()
        place = Place(SWEEP, "phone-0001", "net1")
        spec, rows = journal.plans.spec(SWEEP), journal.results.rows(SWEEP, place)
        [entry] = rank_rows(rows, spec.objective, SWEEP, hints=hints_of(spec)).devices
    assert len(entry.ranking) == VARIANTS


def whole_page(workspace: Workspace) -> None:
    """All that Decide asks before it draws, by its own functions as if nothing were cached."""
    st.cache_resource.clear()
    now, place = data.source(workspace.root), Place(SWEEP, "phone-0001", "net1")
    assert now is not None
    assert place.model in data.places(now, workspace.root, SWEEP).models[place.place_id]
    assert len(data.ranked(now, place).ranking.devices) == 1
    _, table, _ = data.ranking_tables(now, place, None, 0)
    assert len(table) == VARIANTS


def fleet(workspace: Workspace, places: int) -> None:
    """All that the page Fleet asks of the verdicts, by its own functions as if nothing were cached."""
    now = data.source(workspace.root)
    assert now is not None
    fleet_data.judge_first(now)
    fleet_data.standing.clear()
    [total] = fleet_data.standing(now).sums.values()
    assert total.places == places
    names = uncached(fleet_data.names)(now, SWEEP)
    drawn = uncached(fleet_data.drawn)(now, SWEEP, tuple(names.devices)[:PHONES], names.models[:MODELS])
    assert len(drawn) == min(len(names.devices), PHONES) * min(len(names.models), MODELS)
    assert all(cell.winner for cell in drawn.values())


def uncached(read: Any) -> Callable[..., Any]:
    return read.__wrapped__  # type: ignore[no-any-return]


def whole_overview(workspace: Workspace, places: int) -> None:
    """All verdicts, as `edgesweep rank --json` and a download have them."""
    assert len(overview(workspace)) == places


def ten_new(workspace: Workspace, places: int) -> float:
    """CPU until ten new results, in ten places, are in the fleet's verdicts."""
    add_ten(workspace)
    return cpu_s(lambda: fleet(workspace, places), repeats=1)


FILTERS: dict[str, dict[str, list[str | int]]] = {
    "one axis": {"precision": ["int8"]},
    "five axes": {
        **{"precision": ["int8", "fp32"], "layout": ["nchw"], "backend": ["cpu"], "qengine": ["x86"]},
        "threads": list(range(1, 40)),
    },
    "that choose nothing": {"layout": ["nhwc"]},
}


def chosen(workspace: Workspace, filters: dict[str, list[str | int]]) -> None:
    """A first page of 100 results, and how many each place has."""
    with Journal.open(workspace.journal, read_only=True) as journal:
        rows = journal.results.matching(filters, most=100)
        places = journal.results.matching_places(filters)
    assert len(rows) == min(100, sum(places.values()))


def figures_of(workspace: Workspace, size: int) -> list[Figure]:
    """The figures of one store. The page and the fleet have names that `growth` finds."""
    places = size // VARIANTS
    figures = [Figure(f"{size:,}: first fleet", cpu_s(lambda: fleet(workspace, places), 1), "s")]
    page_ms = 1000 * cpu_s(lambda: page(workspace))
    figures += [
        at_most(f"{size:,}: a ranked page", page_ms, "ms", 100),
        at_most(f"{size:,}: a page's data and tables", 1000 * cpu_s(lambda: whole_page(workspace)), "ms", 100),
        at_most(f"{size:,}: fleet, {places} places", 1000 * cpu_s(lambda: fleet(workspace, places)), "ms", 10),
        Figure(f"{size:,}: all verdicts whole", 1000 * cpu_s(lambda: whole_overview(workspace, places)), "ms"),
        at_most(f"{size:,}: ten new results in ten places", ten_new(workspace, places), "s", 0.6),
    ]
    for name, filters in FILTERS.items():
        figures.append(Figure(f"{size:,}: filter, {name}", 1000 * cpu_s(partial(chosen, workspace, filters)), "ms"))
    command = partial(at_most, bound=1) if size == 10_000 else Figure
    figures.append(command(f"{size:,}: edgesweep rank", command_s(workspace), "s"))
    figures.append(command(f"{size:,}: edgesweep rank --device", command_s(workspace, "--device", "phone-0001"), "s"))
    return figures


def growth(figures: list[Figure]) -> list[Figure]:
    """From 10,000 to 100,000 results."""
    value_of = {figure.name: figure.measured for figure in figures}
    large, small = (
        {name.partition(": ")[2].partition(",")[0]: value for name, value in value_of.items() if name.startswith(size)}
        for size in ("100,000: ", "10,000: ")
    )
    return [
        at_most("page, 100,000 / 10,000", large["a ranked page"] / small["a ranked page"], "times", 1.5),
        at_most(
            "page's data, 100,000 / 10,000",
            large["a page's data and tables"] / small["a page's data and tables"],
            "times",
            1.5,
        ),
        at_most("fleet, 100,000 / 10,000", large["fleet"] / small["fleet"], "times", 10),
    ]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, choices=SIZES)
    parser.add_argument("--stores", type=Path)
    options = parser.parse_args()
    os.environ.pop("MLFLOW_TRACKING_URI", None)
    gc.freeze()  # after the imports, as the dashboard's server does
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="edgesweep-bench-") as name:
        for size in options.sizes:
            folder = (options.stores or Path(name)) / str(size)
            is_new = not folder.exists()
            workspace = Workspace.open(folder)
            if is_new:
                made_s = cpu_s(lambda: make(workspace, size, LEFT), repeats=1)  # noqa: B023
                figures.append(Figure(f"{size:,}: made, per result", 1000 * made_s / size, "ms"))
            figures += figures_of(workspace, size)
    if set(options.sizes) >= set(SIZES[1:]):
        figures += growth(figures)
    finish("read: rankings and verdicts", figures)


if __name__ == "__main__":
    main()
