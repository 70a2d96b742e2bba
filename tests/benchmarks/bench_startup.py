"""The start of a command is measured in processor time: its list, the help of `plan`, `status` of a measured sweep, and
`plan` of the README's own model.

python tests/benchmarks/bench_startup.py

Each is a process of its own, in turn, 11 rounds; user and system time of the process, after one round that warms the
file cache and the cache of what torch is here. Python that imports click, twice, says what of it is not ours and how
far one figure is from itself (A/A).
"""

import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from report import Figure, at_most, finish

from sweeps.journal.journal import Journal
from sweeps.workspace import Workspace
from tests.own_model import make_data
from tests.sweeps.conftest import Records

ROUNDS = 11
JOBS, BLOCKS = 8, 3
IMAGES = 400
CLICK, AGAIN = "python, importing click", " again"


def stored(root: Path) -> None:
    """A workspace with a sweep that was measured, as `status` finds it."""
    records = Records()
    jobs = [records.job(number) for number in range(JOBS)]
    with Journal.open(Workspace.open(root).journal) as journal:
        journal.save_plan(records.plan(*jobs, rounds=BLOCKS))
        for job in jobs:
            journal.attempts.add_accuracy(records.accuracy(job))
            for round_ in range(BLOCKS):
                journal.attempts.add_block(records.block(job, round_))


def cpu_seconds(argv: list[str], folder: Path) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(argv, check=True, cwd=folder, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="edgesweep-bench-") as name:
        folder = Path(name)
        stored(folder)
        make_data(folder / "own", IMAGES)
        edgesweep = str(Path(sys.executable).with_name("edgesweep"))
        arms = {
            CLICK: [sys.executable, "-c", "import click"],
            "edgesweep --help": [edgesweep, "--help"],
            "edgesweep status": [edgesweep, "status", "--workspace", name],
            "edgesweep plan --help": [edgesweep, "plan", "--help"],
            "edgesweep plan": [edgesweep, "plan", "sweep.yaml"],
            CLICK + AGAIN: [sys.executable, "-c", "import click"],
        }
        rounds = [{arm: cpu_seconds(argv, folder / "own") for arm, argv in arms.items()} for _ in range(1 + ROUNDS)][1:]
    median = {arm: statistics.median(times[arm] for times in rounds) for arm in arms}
    figures = [
        at_most("edgesweep --help", median["edgesweep --help"], "s", 0.25),
        at_most("edgesweep status", median["edgesweep status"], "s", 0.5),
        at_most("edgesweep plan --help", median["edgesweep plan --help"], "s", 0.5),
        at_most("edgesweep plan, of the README's own model", median["edgesweep plan"], "s", 3.0),
        Figure(CLICK, median[CLICK], "s"),
        Figure(CLICK + AGAIN, median[CLICK + AGAIN], "s"),
    ]
    finish("startup", figures, rounds=rounds)


if __name__ == "__main__":
    main()
