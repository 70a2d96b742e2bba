"""The check of a journal: whether sqlite finds the file intact, and whether the accepted records are complete and
consistent."""

import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from sweeps.batches import BatchItem
from sweeps.device_facts import DeviceFacts
from sweeps.errors import StoreError
from sweeps.imported import Imported
from sweeps.journal import schema as journal_schema
from sweeps.journal.attempts import incomplete
from sweeps.journal.journal import Journal
from sweeps.journal.outcomes import Complete
from sweeps.json_records import from_json
from sweeps.manifest import Manifest
from sweeps.protocol.presets import Protocol
from sweeps.records import Accuracy, Block, Failed, Job, Skipped
from sweeps.settled import Settled
from sweeps.sqlite_file import connect

_RECORDS: tuple[tuple[str, str, type[Any]], ...] = (
    ("attempts", "SELECT id, record FROM attempts WHERE kind = 'block'", Block),
    ("attempts", "SELECT id, record FROM attempts WHERE kind = 'accuracy'", Accuracy),
    ("attempts", "SELECT id, record FROM attempts WHERE kind = 'failure'", Failed),
    ("attempts", "SELECT id, record FROM attempts WHERE kind = 'settled'", Settled),
    ("jobs", "SELECT rowid, record FROM jobs", Job),
    ("skipped", "SELECT rowid, record FROM skipped", Skipped),
    ("devices", "SELECT rowid, facts FROM devices", DeviceFacts),
    ("plans", "SELECT id, protocol FROM plans", Protocol),
    ("batch_items", "SELECT rowid, record FROM batch_items", BatchItem),
    ("batch_failures", "SELECT rowid, record FROM batch_failures", Failed),
    ("imported", "SELECT id, record FROM imported", Imported),
)
"""Table, query of its row ids and records (JSON), and the class of the records."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Fault of a journal. `where`: the table and row, or the job, that has the fault."""

    where: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """Report of a check: what was checked, in words, and the faults."""

    counts: tuple[str, ...]
    findings: tuple[Finding, ...]


def verify(path: Path) -> Checked:
    """Check the journal at `path`, and change nothing.

    Raises `StoreError` if there is none, or if it is of another version.
    """
    if damage := file_damage(path):
        return Checked(counts=("the file of the journal",), findings=tuple(damage))
    findings: list[Finding] = []
    counts: list[str] = []
    with Journal.open(path, read_only=True) as journal:
        with journal_schema.translated(path), closing(connect(path, read_only=True)) as db:
            bad = list(_unreadable(db))
            findings += bad
            [blocks] = db.execute("SELECT count(*) FROM attempts WHERE kind = 'block'").fetchone()
            counts.append(f"{blocks} blocks")
            if not bad:
                findings += _blocks(db)
        for sweep in journal.sweeps.all() if not bad else ():
            count, wrong = _jobs(journal, sweep.name)
            counts.append(count)
            findings += wrong
    return Checked(counts=tuple(counts), findings=tuple(findings))


def file_damage(path: Path) -> list[Finding]:
    """Return the damage that sqlite finds in the file itself. Raises `StoreError` if there is no file, or it is not
    readable."""
    if not path.exists():
        raise StoreError(f"there is no journal at {path}", "name the folder of a workspace with --workspace")
    try:
        with closing(connect(path, read_only=True)) as db:
            lines = [row[0] for row in db.execute("PRAGMA integrity_check")]
            foreign = db.execute("PRAGMA foreign_key_check").fetchall()
    except sqlite3.DatabaseError as error:
        if isinstance(error, sqlite3.OperationalError):
            with journal_schema.translated(path):
                raise
        lines, foreign = [str(error)], []
    findings = [Finding(path.name, line) for line in lines if line != "ok"]
    return findings + [
        Finding(f"{table} {row}", f"it refers to a missing row of {of}") for table, row, of, _ in foreign
    ]


def unreadable(db: sqlite3.Connection) -> Iterator[tuple[str, int]]:
    """Yield the table and row id of each record that cannot be parsed."""
    for finding in _unreadable(db):
        table, _, row = finding.where.partition(" ")
        yield table, int(row)


def _unreadable(db: sqlite3.Connection) -> Iterator[Finding]:
    for table, query, kind in _RECORDS:
        for row, text in db.execute(query):
            try:
                from_json(kind, text)
            except StoreError as error:
                yield Finding(f"{table} {row}", error.message)
    for row, text in db.execute("SELECT id, manifest FROM artifacts"):
        try:
            Manifest.model_validate_json(text)
        except ValidationError as error:
            yield Finding(f"artifacts {row}", f"a manifest that cannot be read: {error.errors()[0]['msg']}")


def _blocks(db: sqlite3.Connection) -> Iterator[Finding]:
    """Yield the faults of accepted blocks. Each must be complete and stored under its job's key, be the job's only one
    of its round, and have timed a file that was built for the job."""
    built: dict[str, set[str]] = {}
    for build_key, sha256 in db.execute("SELECT build_key, json_extract(manifest, '$.file_sha256') FROM artifacts"):
        built.setdefault(build_key, set()).add(sha256)
    builds = dict(db.execute("SELECT job_key, build_key FROM jobs"))
    names: dict[str, str] = dict(
        db.execute("SELECT job_key, sweep || ': ' || json_extract(record, '$.name') FROM jobs")
    )
    rounds: Counter[tuple[str, int]] = Counter()

    def named(key: str) -> str:
        return names.get(key, "a job that is in no plan")

    for row, key, round_, text in db.execute("SELECT id, key, round, record FROM attempts WHERE kind = 'block'"):
        block = from_json(Block, text)
        rounds[key, round_] += 1
        where = f"attempts {row}"
        if missing := incomplete(block):
            yield Finding(where, f"a block was accepted with {missing}")
        if (block.job_key, block.round) != (key, round_):
            yield Finding(where, f"a block of {named(block.job_key)}, round {block.round}, is stored as another's")
        # The keys of sentinels are in no plan, and their builds are known to no job.
        if key in builds and block.artifact_sha256 not in built.get(builds[key], set()):
            yield Finding(where, f"it timed a file that is not known as a build of {named(key)}")
    for (key, round_), number in rounds.items():
        if number > 1:
            yield Finding(named(key), f"{number} blocks of round {round_} were accepted")


def _jobs(journal: Journal, sweep: str) -> tuple[str, Sequence[Finding]]:
    """Return the numbers of a sweep's jobs by state, in words, and the faults: jobs without a readable plan, and jobs
    that count as measured without a timing."""
    states: Counter[str] = Counter()
    findings = []
    for job, stale in journal.jobs.of_sweep(sweep):
        try:
            ended = journal.outcomes.ending(journal.jobs.planned(sweep, job.key))
        except (StoreError, IndexError) as error:
            message = error.message if isinstance(error, StoreError) else "its plan lacks its device"
            findings.append(Finding(f"{sweep}: {job.name}", message))
            continue
        state = "measured" if isinstance(ended, Complete) else "failed" if isinstance(ended, Failed) else "pending"
        states["stale" if stale else state] += 1
        if state == "measured" and not job.emulated and not _timed(journal, job.key):
            findings.append(Finding(f"{sweep}: {job.name}", "it counts as measured, and nothing was timed"))
    words = [f"{states[state]} {state}" for state in ("measured", "failed", "pending", "stale") if states[state]]
    return f"sweep {sweep}: {', '.join(words) or 'no jobs'}", findings


def _timed(journal: Journal, key: str) -> bool:
    """Tell whether the job was timed, or another job of the same program was timed in its place."""
    settled = journal.attempts.settled(key)
    return journal.outcomes.was_raced(key) or (settled is not None and settled.reason == "same_program")
