"""A finished sweep of any number of results: made up, written by the journal's own functions."""

import random
from dataclasses import replace

from sweeps.journal.journal import Journal
from sweeps.records import Job
from sweeps.workspace import Workspace
from tests.sweeps.conftest import Records

VARIANTS, MODELS, ROUNDS = 50, 10, 3
SWEEP = "phones"
records = Records()


def make(workspace: Workspace, count: int) -> None:
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


def measure(journal: Journal, job: Job, ms: float, rng: random.Random) -> None:
    journal.add_artifact(records.manifest(job))
    for round_ in range(ROUNDS):
        journal.add_block(records.block(job, round_, ms=ms * rng.uniform(0.99, 1.01), samples=7))
    journal.add_accuracy(records.accuracy(job, accuracy_drop_high_points=0.9))
