"""What other computers read of a server: snapshots, never a result twice, none lost, and nothing believed unread."""

import errno
import json
import math
import os
import shutil
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pyarrow
import pytest
from click.testing import CliRunner, Result
from mlflow import MlflowClient
from pyarrow import parquet

from sweeps.cli.main import main
from sweeps.errors import StoreError
from sweeps.imported import Imported
from sweeps.journal import schema as journal_schema
from sweeps.journal.journal import Journal
from sweeps.json_records import from_json, to_json
from sweeps.operations.stored_results import open_results
from sweeps.ranking.document import ranking_document
from sweeps.records import Job
from sweeps.store import merged_results, server_copy, snapshot_upload
from sweeps.store import result_files as files_module
from sweeps.store import snapshot as snapshot_module
from sweeps.store.mlflow import Store
from sweeps.store.owner import read_owner
from sweeps.store.read_journal import rank_sweep
from sweeps.store.result_files import ResultFiles, copied_files, in_words, own_files
from sweeps.store.server_copy import CopyState, ServerCopy, copy_folder
from sweeps.store.snapshot import SnapshotRecord, sha256_of
from sweeps.store.snapshot_download import ReplacedError, download
from sweeps.store.snapshot_upload import SnapshotTag
from sweeps.store.sweep_tags import IS_SWEEP, SNAPSHOT
from sweeps.store.verdicts import overview
from sweeps.workspace import Workspace
from tests.fresh_mlflow import fresh_mlflow
from tests.mlflow_servers import MlflowServer
from tests.store_double import DoubleClient, doubled, make
from tests.sweeps.conftest import Records

HOSTILE = "net \x1b[31m' OR 1=1 -- <b>"


class Team:
    """Computers that measure and publish to a shared store, and another one that only reads."""

    def __init__(self, folder: Path, uri: str, records: Records) -> None:
        self.folder, self.uri, self.records = folder, uri, records
        self.measuring = Workspace.open(folder / "measuring")
        self.reading = Workspace.open(folder / "reading")
        self.client: Any = (DoubleClient if uri.endswith("/double.sqlite") else MlflowClient)(tracking_uri=uri)
        self.read: list[int] = []
        """The results in each snapshot that the last look downloaded."""

    def measure(
        self, *numbers: int, ms: float = 5.0, rounds: int = 2, sweep: str = "phones", by: Workspace | None = None
    ) -> list[Job]:
        """Measure these jobs of four, and publish."""
        workspace = by or self.measuring
        jobs = [self.records.job(number, name=f"net · {number} {HOSTILE}") for number in range(4)]
        with Journal.open(workspace.journal) as journal:
            journal.save_plan(self.records.plan(*jobs, name=sweep, rounds=rounds))
            for job in (jobs[number] for number in numbers):
                journal.artifacts.add(self.records.manifest(job))
                for round_ in range(len(journal.attempts.blocks(job.key)), rounds):
                    journal.attempts.add_block(self.records.block(job, round_, ms=ms + round_ / 100))
                journal.attempts.add_accuracy(self.records.accuracy(job, accuracy_drop_high_points=0.9))
        self.publish(sweep, workspace)
        return jobs

    def publish(self, sweep: str = "phones", by: Workspace | None = None) -> None:
        workspace = by or self.measuring
        with Journal.open(workspace.journal) as journal:
            Store(self.uri, workspace.mlflow_artifacts).publish(journal, sweep)

    def copy(self, **options: Any) -> ResultFiles:
        self.read = []
        files = copied_files(self.reading, each=lambda count: self.read.append(count), **options)
        self.read.remove(0) if self.read else None
        return files

    def rows(self, sweep: str = "phones", **options: Any) -> dict[str, Any]:
        """The rows of a new copy, by job key; each key is there once."""
        with Journal.open(self.copy(**options).journal, read_only=True) as journal:
            rows = journal.results.rows(sweep)
        assert len({row.job_key for row in rows}) == len(rows)
        return {row.job_key: row for row in rows}

    def parents(self, sweep: str = "phones") -> list[Any]:
        experiment = self.client.get_experiment_by_name(sweep)
        return list(self.client.search_runs([experiment.experiment_id], IS_SWEEP))

    def snapshot(self, sweep: str = "phones") -> tuple[Path, SnapshotTag]:
        """The file that the first parent run has now."""
        [parent, *_] = self.parents(sweep)
        tag = from_json(SnapshotTag, parent.data.tags[SNAPSHOT])
        return Path(parent.info.artifact_uri.removeprefix("file://")) / tag.file, tag

    def put(self, content: bytes, sweep: str = "phones", **changes: Any) -> None:
        """Let the server have this as the next snapshot, as whoever may write to it could."""
        path, tag = self.snapshot(sweep)
        path.write_bytes(content)
        tag = replace(tag, sequence=tag.sequence + 2, bytes=len(content), sha256=sha256_of(path))
        self.client.set_tag(self.parents(sweep)[0].info.run_id, SNAPSHOT, to_json(replace(tag, **changes)))


@pytest.fixture
def team(tmp_path: Path, records: Records, monkeypatch: pytest.MonkeyPatch) -> Iterator[Team]:
    """On the double of MLflow."""
    path = tmp_path / "shared" / "double.sqlite"
    with doubled():
        make(path)
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{path}")
        yield Team(tmp_path, f"sqlite:///{path}", records)


def imported(mean_ms: float = 7.0) -> Imported:
    return Imported(
        model="net",
        variant="by hand",
        device="Maker Board's 3 (SoC <b>)",
        device_id="local-1",
        tool="speed_benchmark_torch",
        mean_ms=mean_ms,
        iterations=10,
        p50_ms=None,
        log="log.txt",
        log_sha256="0" * 64,
        imported="2026-11-24T00:00:00+00:00",
    )


def test_a_copy_is_read_as_a_journal_is(team: Team) -> None:
    jobs = team.measure(0, 1)
    with Journal.open(team.measuring.journal) as journal:
        journal.imports.add("phones", imported())
        for _ in range(3):
            journal.attempts.add_failure(jobs[2].key, team.records.failed())
    team.publish()
    files = team.copy()
    assert (files.is_copy, files.complete, files.error, files.left_out) == (True, True, "", ())
    ranked, expected = (rank_sweep(path, "phones") for path in (files.journal, team.measuring.journal))
    assert ranking_document(ranked) == ranking_document(expected)
    assert ranked.devices[0].imported == expected.devices[0].imported != ()
    with (
        Journal.open(files.journal, read_only=True) as copy,
        Journal.open(team.measuring.journal, read_only=True) as journal,
    ):
        assert copy.results.rows("phones") == journal.results.rows("phones")
        assert copy.sweeps.all() == journal.sweeps.all()
    assert [verdict.winner for verdict in overview(files)] == [verdict.winner for verdict in overview(team.measuring)]


def check_that_a_copy_follows(team: Team) -> None:
    """Publish, copy, publish more, copy again; a job is measured further; a sweep is deleted and restored."""
    jobs = team.measure(0, 1)
    assert team.rows().keys() == {job.key for job in jobs[:2]}
    assert team.read == [2]
    with Journal.open(team.copy().journal, read_only=True) as journal:
        before = journal.results.watermark()
    assert team.read == [], "nothing is new"
    team.measure(2)
    team.measure(0, rounds=3, sweep="other")
    files = team.copy()
    assert sorted(team.read) == [1, 3]
    with Journal.open(files.journal, read_only=True) as journal:
        assert [row.rounds for row in journal.results.rows("other")] == [3]
        assert {row.job_key for row in journal.results.rows("phones")} == {job.key for job in jobs[:3]}
        changed = journal.results.matching({"model": ["net"]})
        assert len(changed) == 4
        seqs = journal.results.watermark().seq - before.seq
        assert seqs == 2, "rows that are as they were are not written again"
    experiment = team.client.get_experiment_by_name("other")
    team.client.delete_experiment(experiment.experiment_id)
    assert {verdict.sweep for verdict in overview(team.copy())} == {"phones"}
    team.client.restore_experiment(experiment.experiment_id)
    assert {verdict.sweep for verdict in overview(team.copy())} == {"phones", "other"}
    with Journal.open(team.measuring.journal) as journal:
        journal.save_plan(team.records.plan(jobs[0], name="phones"))
    team.publish()
    assert team.rows().keys() == {jobs[0].key}, "the others are no longer in the sweep file"


def test_a_copy_follows_what_is_published(team: Team) -> None:
    check_that_a_copy_follows(team)


@pytest.mark.system
def test_a_copy_follows_a_server_and_stays_when_that_is_away(
    tmp_path: Path, records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "server"
    server = MlflowServer(folder, f"sqlite:///{fresh_mlflow(folder)}")
    server.start()
    try:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", server.uri)
        team = Team(tmp_path, server.uri, records)
        check_that_a_copy_follows(team)
        assert not team.measuring.mlflow_artifacts.exists(), "artifacts go through the server"
    finally:
        server.stop()
    files = team.copy()
    assert files.complete
    assert "cannot be reached" in files.error
    shown = rank(team, "phones")
    assert (shown.exit_code, "phones: what to ship" in shown.stdout) == (0, True)
    assert "seconds ago; MLflow at http://127.0.0.1" in shown.stderr
    assert "Traceback" not in shown.stderr


def rank(team: Team, *words: str) -> Result:
    return CliRunner().invoke(main, ["rank", "--workspace", str(team.reading.root), *words])


# Several writers of one name


def test_of_two_workspaces_with_one_sweep_each_job_is_shown_once_and_none_is_lost(team: Team) -> None:
    other = Workspace.open(team.folder / "other")
    jobs = team.measure(0, 1, ms=5.0)
    team.measure(1, 2, ms=9.0, rounds=3, by=other)
    assert len(team.parents()) == 2
    rows = team.rows()
    assert rows.keys() == {job.key for job in jobs[:3]}
    assert [rows[job.key].rounds for job in jobs[:3]] == [2, 3, 3], "more rounds count"
    with Journal.open(team.measuring.journal, read_only=True) as journal:
        own_rows = {row.job_key: row for row in journal.results.rows("phones")}
    team.publish()
    assert team.rows() == rows, "whoever published last changes nothing"
    # A workspace that has the sweep reads its own journal alone.
    with open_results(team.measuring, "phones") as stored:
        assert stored.files == own_files(team.measuring)
    # Without the other one, its results go, and what it had hidden comes back.
    [other_parent] = [run for run in team.parents() if run.data.tags["edgesweep.workspace"] == read_owner(other).name]
    team.client.delete_run(other_parent.info.run_id)
    assert team.rows() == own_rows


def test_a_copied_workspace_takes_its_own_name_and_hides_nothing_of_the_original(team: Team) -> None:
    jobs = team.measure(0)
    copy = Workspace(Path(shutil.copytree(team.measuring.root, team.folder / "copy")))
    name = read_owner(copy).name
    team.measure(1)
    team.measure(2, by=copy)
    assert team.rows().keys() == {job.key for job in jobs[:3]}
    assert read_owner(team.measuring).name == name
    assert (read_owner(copy).originals, read_owner(copy).name != name) == ((name,), True)
    team.measure(3)
    team.publish(by=copy)
    assert team.rows().keys() == {job.key for job in jobs}
    assert len(team.parents()) == 2


def test_a_moved_workspace_goes_on_with_its_own_parent_run(team: Team) -> None:
    jobs = team.measure(0)
    moved = Workspace(team.folder / "moved")
    team.measuring.root.rename(moved.root)
    team.measure(1, by=moved)
    assert len(team.parents()) == 1
    assert team.rows().keys() == {job.key for job in jobs[:2]}


@pytest.mark.parametrize("lost", ["the name", "a snapshot of the server", "the reply to the last one"])
def test_whatever_is_lost_or_set_back_no_result_is_lost_or_shown_twice(team: Team, lost: str) -> None:
    jobs = team.measure(0)
    [parent] = team.parents()
    old_file, _ = team.snapshot()
    old = (parent.data.tags[SNAPSHOT], old_file.read_bytes())
    team.measure(1)
    match lost:
        case "the name":
            team.measuring.published_as.unlink()
        case "a snapshot of the server":
            team.measure(2)
            team.client.set_tag(parent.info.run_id, SNAPSHOT, old[0])
            old_file.write_bytes(old[1])
            assert team.rows().keys() == {jobs[0].key}, "the server has no more"
        case _:
            remembered = read_owner(team.measuring).snapshots[parent.info.run_id]
            assert len(remembered) == 2, "also the one that was about to be written, in case no reply comes"
    team.measure(3)
    measured = {0, 1, 3} | ({2} if lost == "a snapshot of the server" else set())
    assert team.rows().keys() == {jobs[number].key for number in measured}
    assert len(team.parents()) == (1 if lost == "the reply to the last one" else 2)


def test_an_upload_that_is_cut_off_leaves_the_snapshot_before_and_comes_again(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = team.measure(0)

    def cut_off(*_: object) -> None:
        raise StoreError("killed", "")

    with monkeypatch.context() as patch:
        patch.setattr(snapshot_upload, "_set_tag", cut_off)
        with pytest.raises(StoreError, match="killed"):
            team.measure(1)
    assert team.rows().keys() == {jobs[0].key}
    team.publish()
    assert team.rows().keys() == {job.key for job in jobs[:2]}
    assert len(team.parents()) == 1


def test_a_snapshot_comes_once_a_minute_and_at_the_end(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 1000.0
    monkeypatch.setattr(snapshot_upload.time, "monotonic", lambda: now_s)
    [job, *_] = jobs = team.measure(0)
    store = Store(team.uri, team.measuring.mlflow_artifacts)
    with Journal.open(team.measuring.journal) as journal:

        def sequence(*, last: bool = False) -> int:
            journal.attempts.add_failure(jobs[1].key, team.records.failed())
            journal.attempts.add_block(team.records.block(job, next(rounds)))
            store.publish(journal, "phones", last=last)
            return team.snapshot()[1].sequence

        rounds = iter(range(2, 50))
        assert sequence() == 1
        assert sequence() == 1
        assert store.waits_for_snapshot(journal, "phones", last=False) is False
        assert store.waits_for_snapshot(journal, "phones", last=True) is True
        now_s += snapshot_upload.EVERY_S
        assert store.waits_for_snapshot(journal, "phones", last=False) is True
        assert sequence() == 2
        assert sequence(last=True) == 3
        store.publish(journal, "phones")
        assert team.snapshot()[1].sequence == 3, "nothing is new"
        monkeypatch.setattr(snapshot_upload, "BYTES_PER_S", team.snapshot()[1].bytes / 3600)
        assert sequence(last=True) == 4
        now_s += 3000.0
        assert sequence() == 4, "a large one comes more rarely"


# What a server says is not believed


def changed(path: Path, edit: Callable[[pyarrow.Table], pyarrow.Table], **record: Any) -> bytes:
    """The snapshot with another table, and other values in its record."""
    table = parquet.read_table(path)
    metadata = dict(table.schema.metadata)
    known = from_json(SnapshotRecord, metadata[b"edgesweep"].decode())
    text = json.dumps(json.loads(to_json(known)) | record)
    edited = edit(table).replace_schema_metadata({"edgesweep": text})
    parquet.write_table(edited, path.with_suffix(".changed"), row_group_size=5_000)
    return path.with_suffix(".changed").read_bytes()


def column(name: str, *values: Any, kind: pyarrow.DataType | None = None) -> Callable[[pyarrow.Table], pyarrow.Table]:
    def edit(table: pyarrow.Table) -> pyarrow.Table:
        at = table.schema.get_field_index(name)
        return table.set_column(at, name, pyarrow.array(values, kind or table.schema.field(name).type))

    return edit


def same(table: pyarrow.Table) -> pyarrow.Table:
    return table


HARM: dict[str, Callable[[Path], bytes]] = {
    "no Parquet": lambda _: b"PAR1 but no more PAR1",
    "empty": lambda _: b"",
    "cut off": lambda path: path.read_bytes()[:-100],
    "no record": lambda path: changed(path, same, format=None),
    "another format": lambda path: changed(path, same, format=2),
    "another sweep's": lambda path: changed(path, same, sweep="other"),
    "a row of another sweep": lambda path: changed(path, column("sweep", "phones", "other")),
    "no time": lambda path: changed(path, same, updated="yesterday"),
    "a figure that is not finite": lambda path: changed(path, column("latency_p50_ms", math.inf, 1.0)),
    "an imported figure that is not finite": lambda path: changed(
        path, same, imported=[json.loads(to_json(imported())) | {"mean_ms": math.nan}]
    ),
    "no key": lambda path: changed(path, lambda table: table.drop_columns(["job_key"])),
    "an empty key": lambda path: changed(path, column("job_key", "a", None)),
    "a text for a number": lambda path: changed(path, column("threads", "1", "2", kind=pyarrow.string())),
    "lists for texts": lambda path: changed(
        path, column("job_key", ["a"], ["b"], kind=pyarrow.list_(pyarrow.string()))
    ),
    "large lists for numbers": lambda path: changed(
        path, column("threads", [1], [2], kind=pyarrow.large_list(pyarrow.int64()))
    ),
    "pairs for figures": lambda path: changed(
        path, column("latency_p50_ms", [1.0, 2.0], [1.0, 2.0], kind=pyarrow.list_(pyarrow.float64(), 2))
    ),
    "a number beyond a database's": lambda path: changed(path, column("threads", 2**64 - 1, 1, kind=pyarrow.uint64())),
    "negative medians": lambda path: changed(path, column("block_medians_ms", "[[0, -1]]", "[]")),
    "nested without end": lambda path: changed(path, column("trust", "[" * 100_000, "[]")),
    "no number that a database takes": lambda path: changed(path, column("sessions", "[1e999]", "[]")),
    "a stale row": lambda path: changed(path, column("stale", 1, 0)),
    "more text than memory": lambda path: changed(
        path, lambda table: pyarrow.concat_tables([column("reason", "x" * 300_000, "")(table)] * 1800)
    ),
}


@pytest.mark.parametrize("harm", HARM)
def test_a_snapshot_that_cannot_be_read_is_left_out_and_the_one_before_stays(team: Team, harm: str) -> None:
    jobs = team.measure(0, 1)
    team.measure(0, sweep="other")
    assert len(team.rows()) == 2
    team.put(HARM[harm](team.snapshot()[0]))
    assert team.rows().keys() == {job.key for job in jobs[:2]}
    files = team.copy()
    [left_out] = files.left_out
    assert (left_out.sweep, bool(left_out.reason), files.error) == ("phones", True, "")
    assert f"1 snapshot was left out: phones: {left_out.reason} ({left_out.next_step})" in files.text
    assert {verdict.sweep for verdict in overview(files)} == {"phones", "other"}
    team.measure(2)
    assert team.rows().keys() == {job.key for job in jobs[:3]}


def test_a_snapshot_that_is_left_out_has_its_sweep_the_reason_and_a_next_step(team: Team) -> None:
    sweeps = ["a", "b", "c", "d", "phones"]
    for sweep in sweeps:
        team.measure(0, sweep=sweep)
        team.put(changed(team.snapshot(sweep)[0], same, format=2), sweep=sweep)
    team.measure(0, 1, sweep="good")
    shown = rank(team, "good")
    reason, step = (
        "a snapshot is of format 2, and this EdgeSweep reads 1",
        "use one version of EdgeSweep on all computers",
    )
    assert "5 snapshots were left out" in shown.stderr
    assert (shown.stderr.count(f": {reason} ({step})"), "), 2 more" in shown.stderr) == (3, True)
    documents = json.loads(rank(team, "good", "--json").stdout)["copied"]["left_out"]
    assert sorted(document["sweep"] for document in documents) == sweeps
    assert [(document["reason"], document["next_step"]) for document in documents] == [(reason, step)] * 5
    team.put(b"", bytes=0)
    [phones] = [left_out for left_out in team.copy().left_out if left_out.sweep == "phones"]
    assert phones.reason.startswith("the tag of a snapshot cannot be read")


def test_what_another_version_of_edgesweep_has_refused_is_read_again(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = team.measure(0, 1)
    team.put(changed(team.snapshot()[0], same, format=2))
    assert len(team.copy().left_out) == 1
    monkeypatch.setattr(snapshot_module, "FORMAT", 2)
    assert len(team.copy().left_out) == 1, "the same version does not ask for it again"
    monkeypatch.setattr(server_copy, "version", lambda _: "2.0.0")
    assert team.rows().keys() == {job.key for job in jobs[:2]}
    assert team.copy().left_out == ()


@pytest.mark.parametrize(
    ("failure", "retried"),
    [
        (OSError(errno.EMFILE, "Too many open files"), True),
        (pyarrow.ArrowMemoryError("malloc of size 64 failed"), True),
        (MemoryError(), True),
        (OSError("Couldn't deserialize thrift"), False),
    ],
    ids=["open files", "arrow's memory", "memory", "a damaged file"],
)
def test_a_snapshot_that_this_computer_could_not_read_is_read_again(
    team: Team, monkeypatch: pytest.MonkeyPatch, failure: Exception, retried: bool
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise failure

    monkeypatch.setattr(server_copy, "_RETRY_S", 0.0)
    jobs = team.measure(0)
    with monkeypatch.context() as patch:
        patch.setattr(parquet, "ParquetFile", fail)
        files = team.copy()
    assert (len(files.left_out), files.error) == (1, "")
    assert team.rows().keys() == ({jobs[0].key} if retried else set())


@pytest.mark.parametrize(
    "address",
    [
        "http://[",
        "mlflow-artifacts://:8080/1",
        "wasbs://container@account.blob.core.windows.net/1",
        "mlflow-artifacts://[::1/1",
    ],
)
def test_a_run_with_an_address_that_cannot_be_read_hides_no_other(
    team: Team, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    real = server_copy.download
    team.measure(0)
    [bad] = team.parents()
    team.measure(0, 1, sweep="other")
    monkeypatch.setattr(
        server_copy,
        "download",
        lambda client, uri, *rest: real(client, address if uri == bad.info.artifact_uri else uri, *rest),
    )
    assert len(team.rows("other")) == 2
    files = team.copy()
    assert ([left_out.sweep for left_out in files.left_out], files.error) == (["phones"], "")


@pytest.mark.parametrize(
    "changes", [{"bytes": 1 << 40}, {"sequence": -1}, {"sha256": "../../x"}, {"sha256": "0" * 64}, {"bytes": 10}]
)
def test_a_tag_that_lies_is_left_out_and_the_one_before_stays(team: Team, changes: dict[str, Any]) -> None:
    team.measure(0, 1)
    before = team.rows()
    team.put(team.snapshot()[0].read_bytes(), **changes)
    assert team.rows() == before
    assert len(team.copy().left_out) == 1


def test_a_snapshot_of_another_version_with_more_or_fewer_figures_is_read(team: Team) -> None:
    team.measure(0, 1)
    path, _ = team.snapshot()

    def edit(table: pyarrow.Table) -> pyarrow.Table:
        more = table.append_column("figure_of_tomorrow", pyarrow.array([1.0, 2.0]))
        return more.drop_columns(["first_inference_ms", "link"])

    team.put(changed(path, edit))
    rows = list(team.rows().values())
    assert [("first_inference_ms" in row.metrics, row.link) for row in rows] == [(False, "")] * 2


class _Server(BaseHTTPRequestHandler):
    content = b""
    length: int | None = None
    may_end: threading.Event | None = None
    """The connection stays open until then."""

    def do_GET(self) -> None:
        self.send_response(200 if self.content else 404)
        if self.length is not None:
            self.send_header("Content-Length", str(self.length))
        self.end_headers()
        self.wfile.write(self.content)
        if self.may_end is not None:
            self.wfile.flush()
            assert self.may_end.wait(60)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving(**answer: Any) -> Iterator[str]:
    """A server that answers each request so; yields its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Server,), answer))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(
    ("content", "address", "error"),
    [
        (b"x" * 10, "mlflow-artifacts:/1", None),
        (b"x" * 10_000_000, "mlflow-artifacts:/1", "is not the one that its run names"),
        (b"x" * 9, "mlflow-artifacts:/1", "is not the one that its run names"),
        (b"y" * 10, "mlflow-artifacts:/1", "is not the one that its run names"),
        (b"", "mlflow-artifacts:/1", "status 404"),
        (b"x" * 10, "mlflow-artifacts://127.0.0.2:1/1", "on another server"),
        (b"x" * 10, "dbfs:/1", "no store of files"),
        (b"x" * 10, "file:///etc", "there is no snapshot at /etc/rows.parquet"),
    ],
    ids=["whole", "without end", "cut off", "other content", "not there", "another server", "no files", "a local path"],
)
def test_no_more_is_downloaded_than_the_tag_says_and_from_nowhere_else(
    tmp_path: Path, content: bytes, address: str, error: str | None
) -> None:
    with serving(content=content) as uri:
        client = MlflowClient(tracking_uri=uri)
        (tmp_path / "x").write_bytes(b"x" * 10)
        target, sha256 = tmp_path / "target", sha256_of(tmp_path / "x")
        if error is None:
            download(client, address, "rows.parquet", 10, sha256, target)
            assert target.read_bytes() == content
        else:
            with pytest.raises(StoreError, match=error):
                download(client, address, "rows.parquet", 10, sha256, target)
            assert target.stat().st_size <= 10
        assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert issubclass(ReplacedError, StoreError)


def test_a_password_for_an_encrypted_connection_is_never_sent_without_encryption(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "secret")
    with serving(content=b"x" * 10) as uri:
        client = MlflowClient(tracking_uri=uri.replace("http:", "https:"))
        with pytest.raises(StoreError, match="on another server"):
            download(client, f"{uri}/1", "rows.parquet", 10, "0" * 64, tmp_path / "target")
    assert (tmp_path / "target").read_bytes() == b""


@pytest.mark.parametrize("ending", ["cut off", "a stall"])
def test_a_lost_connection_in_a_download_leaves_the_snapshot_before_and_is_retried(
    team: Team, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    team.measure(0)
    before = team.rows()
    team.measure(1)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "1")
    monkeypatch.setattr(files_module, "LOOK_S", 0.0)
    monkeypatch.setattr(files_module, "SHARE", 0)
    may_end = threading.Event()
    with serving(content=b"x" * 9, length=10, may_end=may_end) as uri:
        may_end.set() if ending == "cut off" else None
        server = SimpleNamespace(tracking_uri=uri)
        monkeypatch.setattr(
            server_copy, "download", lambda _client, _uri, *rest: download(server, "mlflow-artifacts:/1", *rest)
        )
        assert team.copy(wait=False).error == ""
        join_looks()
        may_end.set()
    state = ServerCopy(team.uri).state()
    [refused] = state.refused.values()
    assert (refused.sweep, refused.retry_s > state.tried_s > 0.0, state.error) == ("phones", True, "")
    assert team.rows() == before


def join_looks() -> None:
    """Wait for the looks that no reader waits for."""
    for thread in threading.enumerate():
        if thread.name == files_module.THREAD:
            thread.join()


# Several computers that write to one database directly


def test_results_on_another_computers_disk_are_named_with_the_way_to_read_them(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_copy, "_RETRY_S", 0.0)
    jobs = team.measure(0, 1)
    elsewhere = team.measuring.root.rename(team.folder / "another computer")
    files = team.copy()
    assert (files.left_out, files.error, files.elsewhere) == ((), "", {"phones"})
    for words in ([], ["phones"]):
        shown = rank(team, *words)
        assert (shown.exit_code, "other computers' disks have the results of phones" in shown.output) == (1, True)
        assert "mlflow server --artifacts-destination artifacts" in shown.output
    assert copied_files(Workspace(elsewhere)).elsewhere == frozenset(), "a workspace has its own results"
    team.measure(0, sweep="mine", by=Workspace.open(team.folder / "this computer"))
    shown = rank(team)
    assert (shown.exit_code, "mine: what to ship" in shown.stdout) == (0, True)
    assert "phones: results of other workspaces, which are on other computers' disks" in shown.stderr
    assert json.loads(rank(team, "--json").stdout)["copied"]["elsewhere"] == ["phones"]
    elsewhere.rename(team.measuring.root)
    assert team.rows().keys() == {job.key for job in jobs[:2]}
    assert team.copy().elsewhere == frozenset()


def test_a_run_that_could_not_be_read_is_forgotten_with_its_server(team: Team) -> None:
    team.measure(0)
    team.put(b"no snapshot")
    assert len(team.copy().left_out) == 1
    team.client.delete_run(team.parents()[0].info.run_id)
    assert team.copy().left_out == ()
    assert ServerCopy(team.uri).state().refused == {}


# On this computer's disk


@pytest.mark.parametrize("harm", ["no database", "half a database", "no file", "another version"])
@pytest.mark.parametrize("away", [False, True], ids=["", "with the server away"])
def test_damaged_results_are_made_again_from_the_snapshots(team: Team, harm: str, away: bool) -> None:
    jobs = team.measure(0, 1)
    path = team.copy().journal
    database = Path(team.uri.removeprefix("sqlite:///"))
    if away:
        database.rename(team.folder / "away.sqlite")
    match harm:
        case "no file":
            path.unlink()
        case "another version":
            state = CopyState(asked_s=time.time())
            shutil.copy(team.measuring.journal, path)
            assert state.asked_s
        case "no database":
            path.write_bytes(b"no database")
        case _:
            with path.open("r+b") as file:
                file.truncate(5000)
    for suffix in ("-wal", "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)
    assert team.rows().keys() == {job.key for job in jobs[:2]}
    assert team.read == [], "nothing was downloaded"
    assert bool(team.copy().error) == away


def test_while_results_are_made_again_readers_have_those_before(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = team.measure(0, 1)
    path = team.copy().journal
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA application_id = 7")
    real, read = merged_results.put_sweep, []

    def put_sweep(*values: Any) -> None:
        with Journal.open(path, read_only=True) as journal:
            read.append({row.job_key for row in journal.results.rows("phones")})
            real(*values)
        raise OSError(errno.ENOSPC, "No space left on device")

    with Journal.open(path, read_only=True) as journal:
        with monkeypatch.context() as patch:
            patch.setattr(merged_results, "put_sweep", put_sweep)
            assert "No space left" in team.copy().error
        assert team.rows().keys() == {job.key for job in jobs[:2]}
        read.append({row.job_key for row in journal.results.rows("phones")})
    assert read == [{job.key for job in jobs[:2]}] * 2
    assert list(path.parent.glob("new.sqlite*")) == []


def test_results_that_cannot_be_read_now_are_not_damaged(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    team.measure(0)
    path = team.copy().journal
    before = path.stat().st_ino
    monkeypatch.setattr(merged_results, "_BUSY_S", 0.1)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA locking_mode = EXCLUSIVE")
        db.execute("BEGIN EXCLUSIVE")
        assert "locked" in team.copy().error
    assert (team.copy().error, path.stat().st_ino) == ("", before)


def test_a_damaged_snapshot_on_the_disk_is_downloaded_again(team: Team) -> None:
    jobs = team.measure(0, 1)
    copy = ServerCopy(team.uri)
    team.copy()
    [stored] = copy.folder.glob("*.parquet")
    stored.write_bytes(b"spoilt")
    copy.results.unlink()
    assert team.rows().keys() == {job.key for job in jobs[:2]}
    assert team.read == [2]


def test_a_damaged_snapshot_beside_one_that_has_gone_is_downloaded_again(team: Team) -> None:
    jobs = team.measure(0, 1)
    team.measure(2, by=Workspace.open(team.folder / "other"))
    team.copy()
    name = read_owner(team.measuring).name
    runs = {run.data.tags["edgesweep.workspace"] == name: run.info.run_id for run in team.parents()}
    (ServerCopy(team.uri).folder / f"{runs[True]}.parquet").write_bytes(b"spoilt")
    team.client.delete_run(runs[False])
    assert team.rows().keys() == {job.key for job in jobs[:2]}
    assert (team.read, team.copy().error) == ([2], "")


def test_a_run_that_replaces_another_hides_nothing_while_its_snapshot_cannot_be_had(team: Team) -> None:
    jobs = team.measure(0, 1)
    assert len(team.rows()) == 2
    [old] = team.parents()
    team.client.delete_run(old.info.run_id)
    team.measure(2)
    path, _ = team.snapshot()
    content = path.read_bytes()
    team.put(b"no snapshot")
    assert team.rows().keys() == {job.key for job in jobs[:2]}
    team.put(content)
    assert team.rows().keys() == {job.key for job in jobs[:3]}
    assert len(ServerCopy(team.uri).state().snapshots) == 1


def test_a_damaged_row_is_told_of_and_the_next_command_reads_the_snapshots_again(team: Team) -> None:
    team.measure(0, 1)
    with closing(sqlite3.connect(team.copy().journal)) as db, db:
        db.execute("UPDATE results SET trust = '['")
    shown = rank(team, "--all")
    assert (shown.exit_code, "the copy of MLflow's results is damaged" in shown.output) == (1, True)
    assert "it is made anew" in shown.output
    assert rank(team, "--all").exit_code == 0


def test_only_its_user_can_read_a_copy_and_its_name_has_no_secret(team: Team) -> None:
    team.measure(0)
    files = team.copy()
    assert files.journal.is_relative_to(os.environ["EDGESWEEP_STATE"])
    assert stat.S_IMODE(files.journal.parent.stat().st_mode) == 0o700
    names = [copy_folder(f"https://ann{password}@example.test/mlflow").name for password in ("", ":one", ":two")]
    assert len(set(names)) == 1
    assert copy_folder("https://bob@example.test/mlflow").name not in names
    assert copy_folder("https://ann@example.test/other").name not in names


@pytest.mark.parametrize(("module", "name"), [(merged_results, "VERSION"), (journal_schema, "VERSION")])
def test_each_version_has_a_copy_of_its_own_and_old_ones_go_when_one_is_made(
    team: Team, monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str
) -> None:
    team.measure(0)
    used = team.copy().journal.parent
    older = Path(shutil.copytree(used, used.with_name(f"{used.name}0")))
    another = used.with_name("another.v1-1")
    another.mkdir()
    for path in (older, another):
        os.utime(path, (1.0, 1.0))
    monkeypatch.setattr(module, name, getattr(module, name) + 1)
    assert len(team.rows()) == 1
    assert ServerCopy(team.uri).folder != used
    assert (used.exists(), older.exists(), another.exists()) == (True, False, True)


def test_one_reader_brings_a_copy_up_to_date_and_the_others_read_what_is_there(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = team.measure(0)
    team.copy()
    team.measure(1)
    is_looking, may_go_on = threading.Event(), threading.Event()
    real = server_copy.experiments

    def slow(client: Any) -> Any:
        is_looking.set()
        assert may_go_on.wait(60)
        return real(client)

    monkeypatch.setattr(server_copy, "experiments", slow)
    first = threading.Thread(target=lambda: copied_files(team.reading))
    first.start()
    assert is_looking.wait(60)
    assert team.rows().keys() == {jobs[0].key}, "it does not wait for the first one"
    may_go_on.set()
    first.join()
    assert team.rows().keys() == {job.key for job in jobs[:2]}


def test_a_reader_that_does_not_wait_gets_the_copy_as_it_is(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = team.measure(0)
    monkeypatch.setattr(files_module, "LOOK_S", 0.0)
    monkeypatch.setattr(files_module, "SHARE", 0)
    assert team.rows(wait=False).keys() == {jobs[0].key}, "the first one is waited for"
    team.measure(1)
    assert team.rows(wait=False).keys() == {jobs[0].key}
    join_looks()
    assert team.rows(wait=False).keys() == {job.key for job in jobs[:2]}
    join_looks()


def test_looks_come_when_their_time_has_come_and_no_more_often_than_they_may_cost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def due(now_s: float, **state: Any) -> bool:
        monkeypatch.setattr(files_module.time, "time", lambda: now_s)
        return files_module._is_due(CopyState(asked_s=1000.0, **state))

    assert [due(1004.0), due(1006.0), due(990.0)] == [False, True, True], "also where the clock went back"
    assert [due(1030.0, took_s=2.0), due(1041.0, took_s=2.0)] == [False, True]
    assert [due(1029.0, error="away", tried_s=1005.0), due(1036.0, error="away", tried_s=1005.0)] == [False, True]


def test_a_server_that_was_never_there_is_told_of(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://ann:secret@127.0.0.1:9")
    shown = rank(team)
    assert (shown.exit_code, "cannot be reached" in shown.output) == (1, True)
    assert "secret" not in shown.output
    assert "start the server" in shown.output


def test_a_folder_that_cannot_be_written_is_told_of(
    team: Team, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a file").touch()
    monkeypatch.setenv("EDGESWEEP_STATE", str(tmp_path / "a file"))
    shown = rank(team)
    assert (shown.exit_code, "no copy of MLflow can be kept in" in shown.output) == (1, True)
    assert "EDGESWEEP_STATE" in shown.output


def test_a_locked_copy_is_told_of_and_no_snapshot_is_called_unreadable(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = team.measure(0)
    path = team.copy().journal
    team.measure(1)
    monkeypatch.setattr(merged_results, "_BUSY_S", 0.1)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")
        files = team.copy()
    assert ("cannot be written: database is locked" in files.error, files.left_out) == (True, ())
    assert team.rows().keys() == {job.key for job in jobs[:2]}


def test_a_sweep_of_the_workspace_is_read_from_its_journal_without_asking_the_server(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    team.measure(0)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    for sweep in ("phones", None):
        with open_results(team.measuring, sweep) as stored:
            assert stored.files == own_files(team.measuring)
            assert (stored.name, stored.files.text, stored.files.is_copy) == ("phones", "", False)


def test_a_misspelt_sweep_is_told_with_what_there_is(team: Team) -> None:
    team.measure(0)
    shown = rank(team, "phonse")
    assert (shown.exit_code, "there is no sweep 'phonse', here or in MLflow" in shown.output) == (1, True)
    assert "there is: phones" in shown.output


def test_a_misspelt_sweep_copies_nothing_of_a_workspaces_own_store(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    team.measure(0)
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    make(Path(team.measuring.tracking_uri.removeprefix("sqlite:///")))
    shown = CliRunner().invoke(main, ["rank", "phonse", "--workspace", str(team.measuring.root)])
    assert (shown.exit_code, "known sweeps: phones" in shown.output) == (1, True)
    assert not copy_folder(team.measuring.tracking_uri).exists()


def test_a_server_is_read_beside_a_workspace_that_another_version_has_written(team: Team) -> None:
    team.measure(0, 1)
    Journal.open(team.reading.journal).close()
    with closing(sqlite3.connect(team.reading.journal)) as db:
        db.execute("PRAGMA user_version = 15")
    assert rank(team, "phones").exit_code == 0
    latest = rank(team)
    assert (latest.exit_code, "has version 15" in latest.output) == (1, True), "its latest sweep cannot be known"


def test_rank_says_how_old_a_copy_is(team: Team) -> None:
    team.measure(0, 1)
    shown = rank(team)
    assert (shown.exit_code, "phones: what to ship" in shown.stdout) == (0, True)
    assert "Results: copied from MLflow at sqlite:///" in shown.stderr
    assert "\x1b" not in shown.output
    document = rank(team, "--json")
    assert '"complete": true' in document.stdout
    assert [in_words(age_s) for age_s in (3, 119, 121, 7300, 200000)] == [
        *("3 seconds", "119 seconds", "2 minutes", "2 hours", "2 days"),
    ]
