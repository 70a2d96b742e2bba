"""The bench measures what other computers read of a sweep: bytes of its snapshots a minute and in all, CPU and memory.

python tests/benchmarks/bench_snapshot.py [--store FOLDER]

A sweep of 10,000 results as `bench_read.py` makes it is published to an MLflow database of its own (the snapshot alone,
not a run of each job) and read from there by another workspace. The bytes of a whole sweep are those of one that takes
ten hours and has an upload as often as the pace allows: by the size of snapshots of a tenth, two tenths and so on of
its results. A sweep of 100,000 results has each of these rows ten times, with other keys on other phones. CPU and
memory are those of the process that writes, or of a new one that reads. `--store` keeps the sweep there, or uses the
one that is.
"""

import argparse
import gc
import os
import resource
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from multiprocessing import get_context
from pathlib import Path

from many_results import SWEEP, add_ten, make
from report import Figure, at_most, finish

from sweeps.journal.journal import Journal
from sweeps.results import ResultRow
from sweeps.store.client import connect
from sweeps.store.mlflow import Store
from sweeps.store.result_files import copied_files
from sweeps.store.run_writer import upload
from sweeps.store.snapshot import sha256_of, write_snapshot
from sweeps.store.snapshot_upload import (
    BYTES_PER_S,
    EVERY_S,
    SnapshotTag,
    _record,
    _rows,
    _set_tag,
    read_tag,
    upload_snapshot,
)
from sweeps.store.sweep_tags import SNAPSHOT
from sweeps.store.verdicts import overview
from sweeps.store.written_runs import Written, look_up
from sweeps.workspace import Workspace

SIZE, TIMES = 10_000, 10
HOURS, PARTS = 10, 10
LEFT = 6


def publish(workspace: Workspace) -> tuple[float, Written]:
    """CPU of a snapshot's upload, and what was written."""
    with Journal.open(workspace.journal) as journal:
        client = connect(workspace.tracking_uri, make=True)
        written = look_up(client, workspace.tracking_uri, workspace.mlflow_artifacts, journal, SWEEP)
        began = time.process_time()
        uri = workspace.tracking_uri
        assert upload_snapshot(client, uri, journal, SWEEP, written, last=True, pause=lambda: None)
        return time.process_time() - began, written


def growing_bytes(workspace: Workspace) -> list[int]:
    """The sizes of snapshots of one tenth of the results, of two tenths, and so on."""
    sizes = []
    with tempfile.TemporaryDirectory() as folder, Journal.open(workspace.journal, read_only=True) as journal:
        path = Path(folder) / "rows.parquet"
        for part in range(1, PARTS + 1):
            rows = islice(_rows(journal, SWEEP, lambda: None), SIZE * part // PARTS)
            write_snapshot(path, _record(journal, SWEEP), rows)
            sizes.append(path.stat().st_size)
    return sizes


def bytes_of_a_sweep(sizes: list[int]) -> float:
    """The bytes of all uploads of `HOURS`, at the pace that sizes allow."""
    part_s = HOURS * 3600 / PARTS
    return sum(size * part_s / max(EVERY_S, size / BYTES_PER_S) for size in sizes)


def uploads_of_a_sweep(sizes: list[int], written_s: float) -> float:
    """Seconds of CPU of these uploads: that of a tenth of the results is a tenth of `written_s`, and so on."""
    part_s = HOURS * 3600 / PARTS
    return sum(written_s * size / sizes[-1] * part_s / max(EVERY_S, size / BYTES_PER_S) for size in sizes)


def bytes_of_a_minute(size: int) -> float:
    return 60 * size / max(EVERY_S, size / BYTES_PER_S)


def publish_large(workspace: Workspace, written: Written) -> int:
    """Let the sweep's run have a snapshot of `TIMES` as many results. Returns its bytes."""

    def rows(journal: Journal) -> Iterator[ResultRow]:
        for number in range(TIMES):
            for row in _rows(journal, SWEEP, lambda: None):
                key, device_id = f"{number:x}{row.job_key[1:]}", f"{row.device_id}-{number}"
                yield replace(row, job_key=key, device_id=device_id)

    client = connect(workspace.tracking_uri, make=False)
    before = read_tag(written.parent.tags[SNAPSHOT])
    assert before is not None
    with tempfile.TemporaryDirectory() as folder, Journal.open(workspace.journal, read_only=True) as journal:
        path = Path(folder) / "rows.parquet"
        count = write_snapshot(path, _record(journal, SWEEP), rows(journal))
        tag = SnapshotTag(
            sequence=before.sequence + 1,
            bytes=path.stat().st_size,
            sha256=sha256_of(path),
            rows=count,
            content="large",
        )
        upload(client, written.parent.artifact_uri, {tag.file: path})
    _set_tag(client, written, tag)
    return tag.bytes


def read(reader: Path, judge: bool) -> tuple[float, float]:
    """Seconds of CPU until a new process has what the server has (`judge`: and its verdicts), and MB of memory."""
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(_read, (reader, judge))


def _read(reader: Path, judge: bool) -> tuple[float, float]:
    # The imports are no part of reading.
    import pyarrow.parquet
    from mlflow.store.artifact import artifact_repository_registry

    assert pyarrow.parquet
    assert artifact_repository_registry
    connect(Workspace(reader).tracking_uri, make=False)
    gc.freeze()  # as the dashboard's server does
    began = time.process_time()
    files = copied_files(Workspace(reader))
    assert (files.error, files.left_out) == ("", ())
    if judge:
        overview(files)
    return time.process_time() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def figures_of(workspace: Workspace, folder: Path) -> list[Figure]:
    Store(workspace.tracking_uri, workspace.mlflow_artifacts).check()
    written_s, written = publish(workspace)
    tag = read_tag(written.parent.tags[SNAPSHOT])
    assert tag is not None
    reader = Workspace.open(folder / "reader").root
    sizes = growing_bytes(workspace)
    bound_mb = 60 * BYTES_PER_S / 1e6
    figures = [
        Figure(f"{SIZE:,}: a snapshot", tag.bytes / 1e6, "MB"),
        at_most(f"{SIZE:,}: a minute", bytes_of_a_minute(tag.bytes) / 1e6, "MB", bound_mb),
        at_most(f"{SIZE:,}: a sweep of {HOURS} h", bytes_of_a_sweep(sizes) / 1e6, "MB", HOURS * 60 * bound_mb),
        Figure(f"{SIZE:,}: written, CPU", written_s, "s"),
        Figure(f"{SIZE:,}: written in a sweep of {HOURS} h, CPU", uploads_of_a_sweep(sizes, written_s), "s"),
        Figure(f"{SIZE:,}: first read, CPU", read(reader, judge=False)[0], "s"),
        Figure(f"{SIZE:,}: judged, CPU", read(reader, judge=True)[0], "s"),
        Figure(f"{SIZE:,}: nothing new, CPU", read(reader, judge=True)[0], "s"),
    ]
    add_ten(workspace)
    publish(workspace)
    figures.append(at_most(f"{SIZE:,}: ten new results until shown, CPU", read(reader, judge=True)[0], "s", 0.6))
    large = f"{TIMES * SIZE:,}"
    size = publish_large(workspace, written)
    read_s, read_mb = read(reader, judge=False)
    nothing_s, _ = read(reader, judge=False)
    add_ten(workspace)
    publish_large(workspace, written)
    return [
        *figures,
        Figure(f"{large}: a snapshot", size / 1e6, "MB"),
        at_most(f"{large}: a minute", bytes_of_a_minute(size) / 1e6, "MB", bound_mb),
        Figure(f"{large}: first read, CPU", read_s, "s"),
        Figure(f"{large}: first read, memory", read_mb, "MB"),
        Figure(f"{large}: nothing new, CPU", nothing_s, "s"),
        Figure(f"{large}: {TIMES * 10} new results read, CPU", read(reader, judge=False)[0], "s"),
    ]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--store", type=Path)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="edgesweep-bench-") as name:
        os.environ["EDGESWEEP_STATE"] = f"{name}/state"
        os.environ["MLFLOW_TRACKING_URI"] = f"sqlite:///{name}/mlflow.sqlite"
        store = asked.store or Path(name) / "store"
        is_new = not store.exists()
        workspace = Workspace.open(store)
        if is_new:
            make(workspace, SIZE, LEFT)
        figures = figures_of(workspace, Path(name))
    finish("snapshot: what other computers read", figures)


if __name__ == "__main__":
    main()
