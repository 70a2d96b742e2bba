"""What it takes to read results: a ranked page, the fleet's verdicts, `edgesweep rank`, beside MLflow's search.

python tests/benchmarks/bench_read.py [--mlflow 10000] [--largest 10000]

Stores of 1,000, 10,000 and 100,000 results: 50 variants of each device and model, three rounds each, in one sweep. They
are written by the journal's own functions; samples are few, since no reader looks at them. Seconds of CPU of the
process that reads, medians of 5. MLflow has the same 1,000 results (`--mlflow 10000`: 10,000, which takes long).
"""

import argparse
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from report import Figure, at_least, at_most, finish

from sweeps.journal.journal import Journal
from sweeps.journal.results_table import Place
from sweeps.ranking.rank import rank
from sweeps.records import Job
from sweeps.store.mlflow import Store
from sweeps.store.read_journal import rank_place
from sweeps.store.reading import load
from sweeps.store.verdicts import Verdicts
from sweeps.workspace import Workspace
from tests.sweeps.conftest import Records

SIZES = (1_000, 10_000, 100_000)
VARIANTS, MODELS, ROUNDS, REPEATS = 50, 10, 3, 5
SWEEP = "phones"
_RUN = "import sys; from sweeps.cli.main import main; main(sys.argv[1:])"

records = Records()


def make(workspace: Workspace, count: int) -> list[Job]:
    """A finished sweep of so many jobs, in transactions of 500."""
    rng = random.Random(count)
    places = count // VARIANTS
    facts = [replace(records.facts, device_id=f"phone-{number:04}") for number in range(max(1, places // MODELS))]
    jobs = []
    for number in range(count):
        place = number // VARIANTS
        device, model = facts[place % len(facts)], f"net{place // len(facts)}"
        job = records.job(number)
        jobs.append(replace(job, name=f"{model} · variant {number}", model=model, device_id=device.device_id))
    with Journal.open(workspace.journal) as journal:
        journal.save_plan(records.plan(*jobs, name=SWEEP, rounds=ROUNDS, facts=tuple(facts), models=MODELS))
        for start in range(0, count, 500):
            with journal.together():
                for job in jobs[start : start + 500]:
                    measure(journal, job, 5.0 + 5.0 * rng.random(), rng)
    return jobs


def measure(journal: Journal, job: Job, ms: float, rng: random.Random) -> None:
    journal.add_artifact(records.manifest(job))
    for round_ in range(ROUNDS):
        journal.add_block(records.block(job, round_, ms=ms * rng.uniform(0.99, 1.01), samples=7))
    journal.add_accuracy(records.accuracy(job, accuracy_drop_high_points=0.9))


def cpu_s(what: Callable[[], object], repeats: int = REPEATS) -> float:
    found = []
    for _ in range(repeats):
        began = time.process_time()
        what()
        found.append(time.process_time() - began)
    return statistics.median(found)


def command_s(workspace: Workspace, *words: str) -> float:
    """CPU of a whole process, start-up included."""
    found = []
    for _ in range(REPEATS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, "-c", _RUN, "rank", "--workspace", str(workspace.root), *words]
        subprocess.run(command, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        found.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return statistics.median(found)


def page(workspace: Workspace) -> None:
    with Journal.open(workspace.journal, read_only=True) as journal:
        journal.watermark()
        [entry] = rank_place(journal, Place(SWEEP, "phone-0001", "net1")).devices
    assert len(entry.ranking) == VARIANTS


def fleet(workspace: Workspace, places: int) -> None:
    with Verdicts.open(workspace.verdicts) as verdicts, Journal.open(workspace.journal, read_only=True) as journal:
        found = verdicts.overview(journal)
    assert len(found) == places
    assert all(one.winner for one in found)


def ten_new(workspace: Workspace, jobs: list[Job]) -> float:
    """CPU until ten new results, in ten places, are in the fleet's verdicts."""
    with Journal.open(workspace.journal) as journal:
        for number in range(10):
            job = jobs[number * VARIANTS + 3]
            settings = records.manifest(job).model_copy(update={"file_bytes": 1_000_000 + number})
            journal.add_artifact(settings)
    return cpu_s(lambda: fleet(workspace, len(jobs) // VARIANTS), repeats=1)


def by_mlflow(workspace: Workspace) -> tuple[float, float]:
    """CPU of reading one sweep as before, and of reading and ranking it."""
    os.environ.pop("MLFLOW_TRACKING_URI", None)
    with Journal.open(workspace.journal) as journal:
        Store(workspace.tracking_uri, workspace.mlflow_artifacts).publish(journal, SWEEP)
    load(workspace.tracking_uri, SWEEP)  # the imports
    read_s = cpu_s(lambda: load(workspace.tracking_uri, SWEEP), repeats=1)
    results = load(workspace.tracking_uri, SWEEP)
    return read_s, read_s + cpu_s(lambda: rank(results.frame, results.spec.objective, SWEEP), repeats=1)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--mlflow", type=int, default=1_000, choices=SIZES[:2])
    parser.add_argument("--largest", type=int, default=SIZES[-1], choices=SIZES)
    asked = parser.parse_args()
    sizes = [size for size in SIZES if size <= asked.largest]
    pages, fleets, figures = {}, {}, []
    for size in sizes:
        with tempfile.TemporaryDirectory(prefix="edgesweep-bench-") as name:
            workspace = Workspace.open(Path(name))
            began = time.process_time()
            jobs = make(workspace, size)
            figures.append(Figure(f"{size:,}: made, per result", 1000 * (time.process_time() - began) / size, "ms"))
            places = size // VARIANTS
            figures.append(Figure(f"{size:,}: first fleet", cpu_s(lambda: fleet(workspace, places), 1), "s"))  # noqa: B023
            pages[size] = 1000 * cpu_s(lambda: page(workspace))  # noqa: B023
            fleets[size] = 1000 * cpu_s(lambda: fleet(workspace, places))  # noqa: B023
            figures += [
                at_most(f"{size:,}: a ranked page", pages[size], "ms", 100),
                at_most(f"{size:,}: fleet, {places} places", fleets[size], "ms", 10),
            ]
            if size >= 1_000:
                new_s = ten_new(workspace, jobs)
                figures.append(at_most(f"{size:,}: ten new results in ten places", new_s, "s", 0.6))
            command = partial(at_most, bound=1) if size == 10_000 else Figure
            figures.append(command(f"{size:,}: edgesweep rank", command_s(workspace), "s"))
            device_s = command_s(workspace, "--device", "phone-0001")
            figures.append(command(f"{size:,}: edgesweep rank --device", device_s, "s"))
            if size == asked.mlflow:
                read_s, ranked_s = by_mlflow(workspace)
                figures += [
                    Figure(f"{size:,}: MLflow, read", read_s, "s"),
                    Figure(f"{size:,}: MLflow, read and ranked", ranked_s, "s"),
                ]
                ratio = 1000 * ranked_s / pages[size]
                name_ = f"{size:,}: MLflow / a ranked page"
                figures.append(
                    at_least(name_, ratio, "times", 300) if size >= 10_000 else Figure(name_, ratio, "times")
                )
    if len(sizes) == 3:
        figures += [
            at_most("page, 100,000 / 10,000", pages[100_000] / pages[10_000], "times", 1.5),
            at_most("fleet, 100,000 / 10,000", fleets[100_000] / fleets[10_000], "times", 10),
        ]
    finish("read: rankings and verdicts", figures)


if __name__ == "__main__":
    main()
