"""What other computers read of a sweep costs: bytes of its snapshots a minute and in all, and seconds of CPU.

python tests/benchmarks/bench_snapshot.py [--sizes 10000] [--stores FOLDER]

Sweeps of 10,000 and 100,000 results as `bench_read.py` makes them, published to an MLflow database of its own (the
snapshot alone, not a run of each job) and read from there. The bytes of a whole sweep are those of one that takes ten
hours and has an upload as often as the pace allows: by the size of snapshots of a tenth, two tenths and so on of its
results. Bytes a minute: of the last one, which is the largest, at that pace. CPU of the process that writes or reads.
"""

import argparse
import os
import tempfile
import time
from itertools import islice
from pathlib import Path

from many_results import SWEEP, add_ten, make
from report import Figure, at_most, finish

from sweeps.journal.journal import Journal
from sweeps.store.client import connect
from sweeps.store.mlflow import Store
from sweeps.store.result_files import copied_files
from sweeps.store.snapshot import write_snapshot
from sweeps.store.snapshot_upload import BYTES_PER_S, EVERY_S, _record, _rows, read_tag, upload_snapshot
from sweeps.store.sweep_tags import SNAPSHOT
from sweeps.store.verdicts import overview
from sweeps.store.written_runs import Written, look_up
from sweeps.workspace import Workspace

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


def growing_bytes(workspace: Workspace, size: int) -> list[int]:
    """Of snapshots of one tenth of the results, of two tenths, and so on."""
    found = []
    with tempfile.TemporaryDirectory() as folder, Journal.open(workspace.journal, read_only=True) as journal:
        path = Path(folder) / "rows.parquet"
        for part in range(1, PARTS + 1):
            rows = islice(_rows(journal, SWEEP, lambda: None), size * part // PARTS)
            write_snapshot(path, _record(journal, SWEEP), rows)
            found.append(path.stat().st_size)
    return found


def bytes_of_a_sweep(sizes: list[int]) -> float:
    """Of all uploads of `HOURS`, at the pace that sizes allow."""
    part_s = HOURS * 3600 / PARTS
    return sum(size * part_s / max(EVERY_S, size / BYTES_PER_S) for size in sizes)


def read_s(reader: Workspace) -> float:
    """CPU until the fleet's verdicts have what the server has."""
    began = time.process_time()
    files = copied_files(reader)
    overview(files)
    assert (files.error, files.left_out) == ("", 0)
    return time.process_time() - began


def figures_of(workspace: Workspace, reader: Workspace, size: int) -> list[Figure]:
    Store(workspace.tracking_uri, workspace.mlflow_artifacts).check()
    written_s, written = publish(workspace)
    tag = read_tag(written.parent.tags[SNAPSHOT])
    assert tag is not None
    sizes = growing_bytes(workspace, size)
    minute_mb = 60 * tag.bytes / max(EVERY_S, tag.bytes / BYTES_PER_S) / 1e6
    figures = [
        Figure(f"{size:,}: a snapshot", tag.bytes / 1e6, "MB"),
        at_most(f"{size:,}: a minute", minute_mb, "MB", 60 * BYTES_PER_S / 1e6),
        Figure(f"{size:,}: a sweep of {HOURS} h", bytes_of_a_sweep(sizes) / 1e6, "MB"),
        Figure(f"{size:,}: written, CPU", written_s, "s"),
        Figure(f"{size:,}: first read and judged, CPU", read_s(reader), "s"),
        Figure(f"{size:,}: nothing new, CPU", read_s(reader), "s"),
    ]
    add_ten(workspace)
    publish(workspace)
    ten_s = read_s(reader)
    name = f"{size:,}: ten new results until shown, CPU"
    return [*figures, at_most(name, ten_s, "s", 0.6) if size == 10_000 else Figure(name, ten_s, "s")]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sizes", type=int, nargs="+", default=(10_000, 100_000))
    parser.add_argument("--stores", type=Path)
    asked = parser.parse_args()
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="edgesweep-bench-") as name:
        os.environ["EDGESWEEP_STATE"] = f"{name}/state"
        for size in asked.sizes:
            os.environ["MLFLOW_TRACKING_URI"] = f"sqlite:///{name}/{size}.sqlite"
            folder = (asked.stores or Path(name)) / str(size)
            is_new = not folder.exists()
            workspace = Workspace.open(folder)
            if is_new:
                make(workspace, size, LEFT)
            figures += figures_of(workspace, Workspace.open(Path(name) / "reader"), size)
    finish("snapshot: what other computers read", figures)


if __name__ == "__main__":
    main()
