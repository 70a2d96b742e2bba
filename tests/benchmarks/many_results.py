"""A finished sweep of any number of results: made up, written by the journal's own functions."""

import random
from dataclasses import replace

from sweeps.device_facts import canonical_key
from sweeps.journal.journal import Journal
from sweeps.journal.result_place import Place
from sweeps.records import Job
from sweeps.variant import RunAxes
from sweeps.workspace import Workspace
from tests.sweeps.conftest import Records

VARIANTS, MODELS, ROUNDS = 50, 10, 3
SWEEP = "phones"
records = Records()


def model_name(number: int) -> str:
    """Name a model as `Records.plan` does."""
    return f"net{number or ''}"


def make(workspace: Workspace, count: int, left: int = 0) -> None:
    """A sweep of so many finished jobs, in transactions of 500: the same builds on each phone. `left`: how many jobs
    more of each model wait on the first phone (see `add_ten`)."""
    rng = random.Random(count)
    places = count // VARIANTS
    facts = [replace(records.facts, device_id=f"phone-{number:04}") for number in range(max(1, places // MODELS))]

    def job(number: int, place: int, build: int) -> Job:
        model = model_name(place // len(facts))
        job = records.job(number, model=model, name=f"{model} · variant {number}", run=RunAxes(threads=build + 1))
        key = canonical_key({"model": model, "build": build})
        return replace(job, device_id=facts[place % len(facts)].device_id, build_key=key)

    jobs = [job(number, *divmod(number, VARIANTS)) for number in range(count)]
    for number in range(left * MODELS):
        more, model = divmod(number, MODELS)
        jobs.append(job(count + number, model * len(facts), VARIANTS + more))
    with Journal.open(workspace.journal) as journal:
        journal.save_plan(records.plan(*jobs, name=SWEEP, rounds=ROUNDS, facts=tuple(facts), models=MODELS))
        for start in range(0, count, 500):
            with journal.transaction():
                for job in jobs[start : min(start + 500, count)]:
                    measure(journal, job, 5.0 + 5.0 * rng.random(), rng)


def add_ten(workspace: Workspace) -> None:
    """Ten results more, in ten places, of those that `make` has left."""
    with Journal.open(workspace.journal) as journal:
        waiting = [journal.jobs.waiting_rows(Place(SWEEP, "phone-0000", model_name(net))) for net in range(MODELS)]
        assert all(waiting), "nothing waits there any more: make the store anew"
        for first, *_ in waiting:
            measure(journal, journal.jobs.planned(SWEEP, first.job_key).job, 7.0, random.Random(first.job_key))


def measure(journal: Journal, job: Job, ms: float, rng: random.Random) -> None:
    if journal.artifacts.latest(job.build_key) is None:
        journal.artifacts.add(records.manifest(job))
    for round_ in range(ROUNDS):
        journal.attempts.add_block(records.block(job, round_, ms=ms * rng.uniform(0.99, 1.01), samples=7))
    journal.attempts.add_accuracy(records.accuracy(job, accuracy_drop_high_points=0.9))
