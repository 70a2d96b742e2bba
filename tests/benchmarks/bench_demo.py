"""`make demo` in a fresh clone: with installation, the sweep itself, a second time; the small ViT's training."""

import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path

from report import Figure, at_least, at_most, finish

from sweeps.spec.model_inputs import ModelSpec
from sweeps.workspace import Workspace
from workers.models.making import package

ROOT = Path(__file__).parents[2]


def _make_demo(clone: Path) -> float:
    started = time.monotonic()
    environment = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONHOME")}
    subprocess.run(["make", "demo"], cwd=clone, env=environment, check=True, stdout=sys.stderr)
    return time.monotonic() - started


def _train_small_vit() -> float:
    """CPU seconds: training runs on one thread."""
    spec = ModelSpec(source="workers.small_vit:small_vit", weights="demo", input_shape=(1, 3, 64, 64))
    with tempfile.TemporaryDirectory() as folder:
        started = time.process_time()
        package(spec, Workspace.open(Path(folder)), lambda *_: None)
        return time.process_time() - started


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "edgesweep"
        subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
        first_s = _make_demo(clone)
        workspace = clone / "edgesweep-data"
        with sqlite3.connect(workspace / "journal.sqlite") as journal:
            attempts = journal.execute("SELECT count(*), max(created) FROM attempts").fetchone()
            # Training ends when the weights are there; the sweep proper is builds, blocks and accuracy.
            [(last_build,)] = journal.execute("SELECT max(created) FROM artifacts").fetchall()
        trained = max(path.stat().st_mtime for path in (workspace / "weights").iterdir())
        sweep_s = datetime.fromisoformat(attempts[1]).timestamp() - trained
        builds_s = datetime.fromisoformat(last_build).timestamp() - trained
        second_s = _make_demo(clone)
        with sqlite3.connect(workspace / "journal.sqlite") as journal:
            [(after,)] = journal.execute("SELECT count(*) FROM attempts").fetchall()
        ranked = subprocess.run(
            [clone / ".venv" / "bin" / "edgesweep", "rank", "demo", "--json", "--workspace", workspace],
            stdout=subprocess.PIPE,
            check=True,
        ).stdout
        rows = json.loads(ranked)["devices"][0]["ranking"]
    finish(
        "demo: make demo in a fresh clone",
        [
            at_most("first make demo, with installation", first_s / 60, "min", 8),
            at_most("the sweep: builds, blocks, accuracy", sweep_s / 60, "min", 4),
            Figure("  of that, builds", builds_s / 60, "min"),
            at_least("variants measured", len(rows), "variants", 12),
            at_least("top-1 of the fp32 model", max(r["top1_percent"] for r in rows if "fp32" in r["name"]), "%", 95),
            at_most("second make demo", second_s, "s", 30),
            at_most("the small ViT's training, of one core", _train_small_vit(), "s", 60),
            Figure("attempts added by it", after - attempts[0], "attempts", "none", after == attempts[0]),
        ],
    )


if __name__ == "__main__":
    main()
