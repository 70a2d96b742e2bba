"""The tables of what happened: artifacts, blocks, accuracies, failures, ends of rounds, imported figures."""

import json
from dataclasses import replace

from sweeps.errors import StoreError
from sweeps.imported import Imported
from sweeps.journal.changes import ChangeTables
from sweeps.journal.plans import now
from sweeps.journal.schema import BLOCK_SESSION, JOB_DEVICE, JOB_SENTINEL
from sweeps.json_records import from_json, to_json
from sweeps.manifest import Manifest
from sweeps.protocol.ended import same_question
from sweeps.protocol.presets import Protocol
from sweeps.protocol.sessions import GAP_S, begins_session, has_start, start_text
from sweeps.records import Accuracy, Block, Failed
from sweeps.settled import Settled
from sweeps.trust import stored_in_order


class AttemptTables(ChangeTables):
    """Attempts in the journal. They are added, and never changed or deleted."""

    def add_artifact(self, manifest: Manifest) -> None:
        """Record a built artifact, unless the same manifest is recorded already."""
        if self.artifact(manifest.build_key) == manifest:
            return
        text = json.dumps(manifest.model_dump(mode="json"), allow_nan=False, separators=(",", ":"))
        with self._writing():
            self._db.execute(
                "INSERT INTO artifacts (build_key, manifest, created) VALUES (?, ?, ?)",
                (manifest.build_key, text, now()),
            )
            self._touched.add(manifest.build_key)

    def artifact(self, build_key: str) -> Manifest | None:
        """The manifest of the last build under this key."""
        row = self._row("SELECT manifest FROM artifacts WHERE build_key = ? ORDER BY id DESC LIMIT 1", build_key)
        return None if row is None else Manifest.model_validate_json(row[0])

    def add_data_manifest(self, sweep: str, manifest_id: str, manifest: str) -> None:
        """Record the images of one data set of this sweep. `manifest` is JSON; the id is derived from its content."""
        with self._writing():
            self._db.execute("INSERT OR IGNORE INTO data_manifests VALUES (?, ?, ?)", (sweep, manifest_id, manifest))

    def data_manifests(self, sweep: str) -> dict[str, str]:
        """JSON by manifest id."""
        return dict(self._rows("SELECT manifest_id, manifest FROM data_manifests WHERE sweep = ?", sweep))

    def add_block(self, block: Block) -> bool:
        """Accept one block. If the job has a block of this round already, nothing changes and `False` is returned.

        The first block of a round stays: a repeated or late reply must not change an accepted result.
        Raises `StoreError` for an incomplete block.
        """
        if missing := incomplete(block):
            raise StoreError(
                f"a block of job {block.job_key:.12} (round {block.round}) is not accepted: {missing}",
                "run the same command again; if this happens again, please report it",
            )
        with self._writing():
            cursor = self._db.execute(
                "INSERT INTO attempts (key, kind, round, record, created) VALUES (?, 'block', ?, ?, ?)"
                " ON CONFLICT (key, round) WHERE kind = 'block' DO NOTHING",
                (block.job_key, block.round, to_json(block), now()),
            )
            self._touched.add(block.job_key)
            return cursor.rowcount == 1

    def blocks(self, job_key: str, sentinel: str = "") -> tuple[Block, ...]:
        """The accepted blocks in order of rounds.

        With the key of the device's sentinel, blocks from spans of a changed device get the label `device_changed`, and
        `device_moved` where the device came back.
        """
        spans = self.changed_spans(sentinel) if sentinel else []
        found = []
        for one in self._placed(job_key):
            span = next((span for span in spans if span.holds(one)), None)
            labels = one.block.labels if span is None else stored_in_order((*one.block.labels, span.label))
            found.append(replace(one.block, labels=labels))
        return tuple(found)

    def block_count(self, job_key: str) -> int:
        """The number of blocks of a job, without reading them."""
        [count] = self._row("SELECT count(*) FROM attempts WHERE key = ? AND kind = 'block'", job_key)
        return int(count)

    def last_session(self) -> int:
        """The largest session number (`Block.session`) of all accepted blocks; 0 if there is none."""
        found = self._row(
            f"SELECT {BLOCK_SESSION} FROM attempts WHERE kind = 'block' ORDER BY 1 DESC LIMIT 1"  # noqa: S608  # ours
        )
        return 0 if found is None else int(found[0] or 0)

    def session_start(self, device_id: str, run: int) -> int | None:
        """The start of the device's session (`sweeps.protocol.sessions`) that a run (`Block.session`) belongs to;
        `None` if the run's number is not a time."""
        if not has_start(run):
            return None
        while True:
            # What is older than the gap between sessions does not matter. Backwards by id, which is the order of time:
            # the block is near the run. `+key`: not by the index of keys.
            oldest, newest = (self._attempts_before(start_text(time)) for time in (run - GAP_S, run))
            before = self._row(
                "SELECT created, CASE WHEN json_valid(record) THEN json_extract(record, '$.session') END"  # noqa: S608
                " FROM attempts WHERE kind = 'block' AND id > ?1 AND id <= ?2 AND +key IN"
                f" (SELECT job_key FROM jobs WHERE {JOB_DEVICE} = ?3 UNION"
                f" SELECT {JOB_SENTINEL} FROM jobs WHERE {JOB_DEVICE} = ?3) ORDER BY id DESC LIMIT 1",
                oldest,
                newest,
                device_id,
            )
            past = self._row(
                "SELECT last, session FROM past_sessions WHERE device_id = ? AND last >= ? AND last < ?"
                " ORDER BY last DESC LIMIT 1",
                device_id,
                start_text(run - GAP_S),
                start_text(run),
            )
            before = max((one for one in (before, past) if one is not None), key=lambda one: str(one[0]), default=None)
            earlier = 0 if before is None else int(before[1] or 0)
            if before is None or begins_session(run, before[0]) or not has_start(earlier) or earlier >= run:
                return run
            run = earlier

    def sentinel_blocks(self, device_id: str) -> list[tuple[Block, ...]]:
        """The blocks of each sentinel that the device ever had, in the order of measuring."""
        rows = self._rows(
            f"SELECT DISTINCT {JOB_SENTINEL} FROM jobs WHERE {JOB_DEVICE} = ?",  # noqa: S608  # expressions of ours
            device_id,
        )
        return [tuple(one.block for one in self._sentinel_blocks(key)) for (key,) in rows if key]

    def add_accuracy(self, accuracy: Accuracy) -> None:
        """Record an accuracy. The newest one counts for each build, evaluation, engine and executor."""
        self._append(accuracy.build_key, "accuracy", to_json(accuracy))

    def accuracy(self, build_key: str, evaluation_id: str, engine: str, executor: str) -> Accuracy | None:
        found = self._accuracy(build_key, evaluation_id, executor)
        return next((accuracy for accuracy in found if accuracy.engine == engine), None)

    def add_failure(self, key: str, failed: Failed) -> None:
        """`key`: one of `build_failure_keys` for a failed build, otherwise a job key."""
        self._append(key, "failure", to_json(failed))

    def failures(self, key: str) -> tuple[Failed, ...]:
        """The failures since the last retry, in their order."""
        rows = self._rows("SELECT record FROM live_failures WHERE key = ? ORDER BY id", key)
        return tuple(from_json(Failed, record) for (record,) in rows)

    def add_settled(self, settled: Settled) -> None:
        """Record why a job's rounds ended. The newest reason counts."""
        self._append(settled.job_key, "settled", to_json(settled))

    def settled(self, job_key: str, protocol: Protocol | None = None) -> Settled | None:
        """The newest reason why the rounds of this job ended; with a protocol, the newest for its question."""
        rows = self._rows("SELECT record FROM attempts WHERE key = ? AND kind = 'settled' ORDER BY id DESC", job_key)
        found = (from_json(Settled, record) for (record,) in rows)
        return next((one for one in found if protocol is None or same_question(one, protocol)), None)

    def add_imported(self, sweep: str, imported: Imported) -> bool:
        """Accept a figure from a log. If the sweep has it already, nothing changes and `False` is returned."""
        with self._writing():
            cursor = self._db.execute(
                "INSERT OR IGNORE INTO imported (sweep, imported_key, record, created) VALUES (?, ?, ?, ?)",
                (sweep, imported.key, to_json(imported), now()),
            )
            return cursor.rowcount == 1

    def imported(self, sweep: str) -> tuple[Imported, ...]:
        """In the order of their imports."""
        rows = self._rows("SELECT record FROM imported WHERE sweep = ? ORDER BY id", sweep)
        return tuple(from_json(Imported, record) for (record,) in rows)

    def imported_count(self) -> int:
        """How many figures of tools there are, of all sweeps."""
        return int(self._row("SELECT count(*) FROM imported")[0])

    def retry_failures(self, sweep: str, *, kind: str = "") -> int:
        """Let failed jobs of this sweep be tried again; with `kind`, only jobs with a failure of that kind. Returns the
        number of jobs.

        The failures stay in the file, but no longer count. A failed build may be retried by every sweep that needs it.
        """
        with self._writing():
            keys = self._db.execute(
                "SELECT DISTINCT job_key, key FROM jobs JOIN live_failures"
                " ON key IN (job_key, build_key) OR key LIKE build_key || '@%'"
                " WHERE sweep = ? AND (? = '' OR json_extract(live_failures.record, '$.kind') = ?)",
                (sweep, kind, kind),
            ).fetchall()
            self._db.executemany(
                "INSERT INTO attempts (key, kind, created) VALUES (?, 'retry', ?)",
                [(key, now()) for key in sorted({key for _, key in keys})],
            )
            self._touched.update(job_key for job_key, _ in keys)
        return len({job_key for job_key, _ in keys})

    def _accuracy(self, build_key: str, evaluation_id: str, executor: str) -> list[Accuracy]:
        """Newest first. The engine is not part of the query, because it is part of the build key."""
        rows = self._rows(
            "SELECT record FROM attempts WHERE key = ? AND kind = 'accuracy'"
            " AND json_extract(record, '$.evaluation_id') = ? AND json_extract(record, '$.executor') = ?"
            " ORDER BY id DESC",
            build_key,
            evaluation_id,
            executor,
        )
        return [from_json(Accuracy, record) for (record,) in rows]

    def _append(self, key: str, kind: str, record: str) -> None:
        with self._writing():
            self._db.execute(
                "INSERT INTO attempts (key, kind, record, created) VALUES (?, ?, ?, ?)", (key, kind, record, now())
            )
            # A failure on one evaluation set has its own key: the build key, `@`, and what it holds for.
            self._touched.add(key.partition("@")[0])


def incomplete(block: Block) -> str | None:
    """Why a block may not be accepted; `None` if it may."""
    required = ("job_key", "backend_ran", "engine_ran", "runner", "runtime_version", "artifact_sha256")
    if empty := [name for name in required if not getattr(block, name)]:
        return f"no {', '.join(empty)}"
    if block.exit_code != 0:
        return f"its process ended with {block.exit_code}"
    if not block.samples_ns:
        return "no samples"
    times = (*block.samples_ns, *block.warmup_ns, block.first_inference_ns, block.load_ns)
    if impossible := [time for time in times if time is not None and not time > 0]:
        return f"a time of {impossible[0]} ns"
    return None
