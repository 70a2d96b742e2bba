"""`make bench`: every benchmark in turn; each prints its table and one JSON line. Fails if a bound is missed.

`make bench` takes up to two hours on two cores that have nothing else to do;
`python tests/benchmarks/bench_NAME.py` runs one.
"""

import subprocess
import sys
from pathlib import Path


def main() -> None:
    missed = []
    for path in sorted(Path(__file__).parent.glob("bench_*.py")):
        print(f"\n== {path.stem}", flush=True)
        if subprocess.run([sys.executable, path]).returncode != 0:
            missed.append(path.stem)
    if missed:
        sys.exit(f"bounds missed or benchmark broken: {', '.join(missed)}")


if __name__ == "__main__":
    main()
