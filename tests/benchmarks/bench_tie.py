"""One variant entered twice under two names ends tied (sweeps/specs/tie.yaml), in five sweeps.

A test at 95 % tells two equal things apart in up to 5 % of cases: one sweep of five may, two hardly ever (2 %).
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from report import Figure, finish

ROOT = Path(__file__).parents[2]
EDGESWEEP = Path(sys.executable).with_name("edgesweep")
SWEEPS = 5


def main() -> None:
    ties, ratios = 0, []
    with tempfile.TemporaryDirectory() as folder:
        spec = (ROOT / "sweeps" / "specs" / "tie.yaml").read_text()
        for number in range(SWEEPS):
            # A name of its own and a warm-up of its own (by a hair): every sweep measures anew, on the same build.
            sweep = Path(folder) / f"tie-{number}.yaml"
            sweep.write_text(
                spec.replace("name: tie", f"name: tie-{number}", 1) + f"  warmup_seconds: {0.2 + number / 1000}\n"
            )
            ranked = subprocess.run(
                [EDGESWEEP, "run", sweep, "--workspace", Path(folder) / "data", "--executor", "inline", "--json"],
                stdout=subprocess.PIPE,
                check=True,
            ).stdout
            [device] = json.loads(ranked)["devices"]
            first, second = (row["latency_p50_ms"] for row in device["ranking"])
            ratios.append(second / first)
            ties += len(device["tied"]) == 1
            print(f"sweep {number + 1} of {SWEEPS}: {first:.3f} and {second:.3f} ms", file=sys.stderr)
    finish(
        "tie: one variant under two names",
        [
            Figure("sweeps that ended tied", ties, f"of {SWEEPS}", f"at least {SWEEPS - 1}", ties >= SWEEPS - 1),
            Figure("largest difference of the two p50", 100 * (max(max(ratios), 1 / min(ratios)) - 1), "%"),
        ],
    )


if __name__ == "__main__":
    main()
