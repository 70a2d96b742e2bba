"""sweeps/specs/runtimes.yaml in a fresh workspace, as `edgesweep run` runs it: the demo's model in the three runtimes.

python tests/benchmarks/bench_runtimes_sweep.py

On the wall clock: training, builds, blocks and accuracy. Needs the extra `runtimes`, and a machine with nothing else to
do; 8 minutes.
"""

import json
import subprocess
import sys
import tempfile
import time

from exported_case import BUILDS, SPEC
from report import Figure, at_most, finish

MOST_MINUTES = 8
_EDGESWEEP = [sys.executable, "-c", "from sweeps.cli.main import main; main()"]


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="edgesweep-bench-") as folder:
        within = ["--workspace", folder]
        began = time.monotonic()
        subprocess.run([*_EDGESWEEP, "run", str(SPEC), *within], check=True, stdout=sys.stderr)
        minutes = (time.monotonic() - began) / 60
        ranked = subprocess.run([*_EDGESWEEP, "rank", "--json", *within], check=True, stdout=subprocess.PIPE).stdout
    (device,) = json.loads(ranked)["devices"]
    there = {
        runtime for runtime in BUILDS for one in device["ranking"] if one["runner"].startswith(f"python-{runtime}")
    }
    left = [one["name"] for one in device["not_ranked"]]
    finish(
        "runtimes: the sweep of the three",
        [
            at_most("training, builds, blocks, accuracy", minutes, "min", MOST_MINUTES),
            Figure("runtimes ranked", len(there), "runtimes", f"all {len(BUILDS)}", len(there) == len(BUILDS)),
            Figure("variants ranked", len(device["ranking"]), "variants", "all", not left),
        ],
        not_ranked=left,
    )


if __name__ == "__main__":
    main()
