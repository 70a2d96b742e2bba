"""From an empty folder to an answer: the README's own model, 8 variants and 400 images, while another program keeps one
of two cores busy. Of a machine with more, two are used.

python tests/benchmarks/bench_first_hour.py [--tries 10]

Each try has a folder and a workspace of its own: `edgesweep plan`, `run` and `rank`, as the README writes them. An
answer is a build to ship, or a provisional one with the line or command that settles it. Seconds of the wall clock. In
the caches is what was compiled for others before; making the network and its images is not counted.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from report import Figure, at_least, finish

from sweeps.stats import median
from tests.own_model import FILES, make_data

EDGESWEEP = Path(sys.executable).with_name("edgesweep")
WITHIN_S = 600.0
SHARE = 0.9
IMAGES = 400
CORES = 2
GRID = "  - {precision: [fp32, int8], layout: [nchw, nhwc], optimize: [true, false]}"


@contextmanager
def busy_core() -> Iterator[None]:
    """Another program that never stops computing, on whatever core it gets."""
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as other:
        try:
            yield
        finally:
            other.kill()


def one_try(folder: Path, data: Path) -> tuple[float, str]:
    """Seconds, and the answer; empty if there is none."""
    shutil.copytree(data, folder)
    sweep = re.sub(r"(?m)^  - \{precision: .*$", GRID, FILES["sweep.yaml"])
    (folder / "sweep.yaml").write_text(sweep)
    started = time.monotonic()
    for command in ("plan", "run"):
        ended = subprocess.run([EDGESWEEP, command, "sweep.yaml"], cwd=folder, capture_output=True, text=True)
        if ended.returncode != 0:
            print(ended.stderr[-2000:])
            return time.monotonic() - started, ""
    ranked = subprocess.run([EDGESWEEP, "rank", "--json"], cwd=folder, capture_output=True, text=True, check=True)
    took_s = time.monotonic() - started
    (device,) = json.loads(ranked.stdout)["devices"]
    if device["winner"]:
        return took_s, f"ship {device['winner']['name']}"
    found = device["provisional"]
    return took_s, f"provisionally {found['name']}; {found['settle']['text']}" if found and found["name"] else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tries", type=int, default=10)
    given = parser.parse_args()
    seconds, answered = [], 0
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    with tempfile.TemporaryDirectory() as made:
        data = Path(made) / "data"
        make_data(data, IMAGES)
        with busy_core():
            for number in range(given.tries):
                took_s, answer = one_try(Path(made) / str(number), data)
                print(f"{took_s:.0f} s: {answer or 'no answer'}", flush=True)
                seconds.append(took_s)
                answered += bool(answer) and took_s <= WITHIN_S
    finish(
        "first_hour",
        [
            at_least(f"tries with an answer within {WITHIN_S:g} s", answered, f"of {given.tries}", SHARE * given.tries),
            Figure("median", median(seconds), "s"),
            Figure("slowest", max(seconds), "s"),
        ],
        cores=len(os.sched_getaffinity(0)),
    )


if __name__ == "__main__":
    main()
