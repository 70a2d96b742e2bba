"""A mistake is named in little processor time: each of the 40 and more, as a person makes it.

python tests/benchmarks/bench_mistakes.py

The mistakes and what must be said are those of tests/sweeps/cli/test_mistakes.py. Each is a command of its own, with
its start and all processes that it starts: user and system time, after one that warms the file cache. At most 5 s, or
15 s where a model has to be loaded.
"""

import contextlib
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from report import Figure, at_least, at_most, finish

from sweeps.stats import median
from tests.sweeps.cli.test_mistakes import CPU_S, LOADED, MISTAKES, OURS, Mistake, check, lay_out

LOADED_CPU_S = 15.0
EDGESWEEP = Path(sys.executable).with_name("edgesweep")
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}


def output_and_seconds(mistake: Mistake) -> tuple[str, float]:
    """Run the command; return its output, and the processor time of it and of what it started, in the current
    folder."""
    if mistake.content:
        Path("s.yaml").write_text(mistake.content)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ended = subprocess.run(
        [EDGESWEEP, *mistake.words],
        env=ENVIRONMENT | dict(mistake.environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.stdout, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def is_named(mistake: Mistake, output: str) -> bool:
    try:
        check(mistake, output)
    except AssertionError:
        print(f"{mistake.name}: {output.strip()}")
        return False
    return True


def arm(mistakes: Sequence[Mistake]) -> tuple[dict[str, float], int]:
    """CPU seconds of each, and how many were named as they must be."""
    seconds, named = {}, 0
    for mistake in mistakes:
        with tempfile.TemporaryDirectory(prefix="edgesweep-bench-") as folder, contextlib.chdir(folder):
            lay_out()
            output, seconds[mistake.name] = output_and_seconds(mistake)
        named += is_named(mistake, output)
    return seconds, named


def main() -> None:
    arm([MISTAKES[0], LOADED[0]])  # warms the file cache
    (plain, named), (loaded, of_loaded) = arm(MISTAKES), arm(LOADED)
    slow, slow_loaded = max(plain, key=plain.__getitem__), max(loaded, key=loaded.__getitem__)
    figures = [
        at_most(f"the slowest of {len(plain)} ({slow})", plain[slow], "s", CPU_S),
        at_most(f"the slowest of {len(loaded)} with a model ({slow_loaded})", loaded[slow_loaded], "s", LOADED_CPU_S),
        Figure("median", median(list(plain.values())), "s"),
        at_least("named with place and next step", named + of_loaded, "mistakes", len(plain) + len(loaded)),
    ]
    finish("mistakes", figures, seconds=plain | loaded)


if __name__ == "__main__":
    main()
