"""How close the schedule is to the best one: sweeps whose durations nobody knows, and many short jobs on two slots.

    python tests/benchmarks/bench_schedule.py [--traces 1000] [--only traces|jobs]

Traces run the driver's own schedule in virtual time (`schedule_traces.py`): the time until the last device has ended,
in proportion to a lower bound that knows all durations. In a second set of traces one device dies; the bound is that of
the others alone. Then 200 jobs of 1 s and 400 of 0.1 s on two slots with journal and MLflow on (`jobs_at_once.py`), and
the same ones by Ray Tune with its MLflow callback, each in a process of its own, twice, in alternating order; the
better of the two counts. Their ideal is half the sum of the jobs.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from report import Figure, at_most, finish
from schedule_traces import ratios

CASES = ((200, 1.0, 1.03), (400, 0.1, 1.15))
"""Jobs, seconds of each, and the most that the makespan may be, in proportion to the ideal."""
REPEATS = 2
ROOT = Path(__file__).parents[2]


def trace_figures(traces: int) -> list[Figure]:
    alive = np.array([*ratios(range(traces))])
    dying = np.array([*ratios(range(traces), dies=True)])
    return [
        at_most("makespan / lower bound, mean", float(alive.mean()), "times", 1.04),
        at_most("makespan / lower bound, 95th percentile", float(np.percentile(alive, 95)), "times", 1.10),
        Figure("makespan / lower bound, largest", float(alive.max()), "times"),
        at_most("a device dies: makespan / lower bound, mean", float(dying.mean()), "times", 1.12),
        at_most(
            "a device dies: makespan / lower bound, 95th percentile", float(np.percentile(dying, 95)), "times", 1.12
        ),
        Figure("a device dies: makespan / lower bound, largest", float(dying.max()), "times"),
    ]


def run(who: str, jobs: int, seconds: float) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="edgesweep-bench-") as folder:
        command = [sys.executable, str(Path(__file__).with_name("jobs_at_once.py")), who, str(jobs), str(seconds)]
        environment = {name: value for name, value in os.environ.items() if name != "MLFLOW_TRACKING_URI"}
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
        ended = subprocess.run([*command, folder], stdout=subprocess.PIPE, text=True, check=True, env=environment)
    found: dict[str, float] = json.loads(ended.stdout.splitlines()[-1])
    return found


def job_figures() -> list[Figure]:
    figures = []
    for jobs, seconds, most in CASES:
        ideal_s = jobs * seconds / 2
        took: dict[str, list[dict[str, float]]] = {"edgesweep": [], "tune": []}
        for repeat in range(REPEATS):
            for who in sorted(took, reverse=bool(repeat % 2)):
                took[who].append(run(who, jobs, seconds))
        best = {who: min(one["seconds"] for one in its) / ideal_s for who, its in took.items()}
        spread = max(one["seconds"] for one in took["edgesweep"]) / ideal_s - best["edgesweep"]
        published = min(one["published"] for one in took["edgesweep"]) / ideal_s
        name = f"{jobs} jobs of {seconds:g} s on 2 slots"
        figures += [
            at_most(f"{name}: makespan / ideal", best["edgesweep"], "times", most),
            Figure(f"{name}: until MLflow has all / ideal", published, "times"),
            Figure(f"{name}: Ray Tune with MLflow / ideal", best["tune"], "times"),
            Figure(f"{name}: A/A", spread, "times"),
        ]
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=int, default=1000)
    parser.add_argument("--only", choices=("traces", "jobs"))
    given = parser.parse_args()
    figures = trace_figures(given.traces) if given.only != "jobs" else []
    figures += job_figures() if given.only != "traces" else []
    finish("schedule", figures, traces=given.traces)


if __name__ == "__main__":
    main()
