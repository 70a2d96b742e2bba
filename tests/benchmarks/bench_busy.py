"""The order of a sweep on a busy machine against the same sweep on the quiet one (sweeps of 12 variants and a twin).

One of two cores is kept busy half of the time, by turns of 50 ms, which no run on a phone or a laptop is spared.
`on_not_ready: mark` measures all the same and says so. Order: Kendall's tau over the pairs that the quiet sweep tells
apart (95 %, and 2 % or more), by the busy sweep's estimates, whether or not it tells them apart itself. The twin is one
variant under two names. An idle machine is needed: what else runs here is in both arms.
"""

import itertools
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from busy_core import half_busy_core
from report import Figure, at_least, at_most, finish

from sweeps.journal.journal import Journal
from sweeps.stats import median, ratio_by_rounds

EDGESWEEP = Path(sys.executable).with_name("edgesweep")
ROUNDS = 5

SWEEP = """
name: {name}
models:
  - source: mobilenet_v2
    arguments: {{width_mult: 0.35, num_classes: 10}}
    weights: demo
    input_shape: [1, 3, 64, 64]
grids:
  - {{precision: [fp32], layout: [nchw, nhwc], fuse: [true, false], optimize: [true, false]}}
  - {{precision: [int8], layout: [nhwc], qengine: [x86, onednn, qnnpack]}}
  - {{precision: [int8], layout: [nchw], qengine: [qnnpack], optimize: [false]}}
  - {{name: twin, precision: [fp32], layout: [nhwc]}}
protocol:
  preset: quick
  rounds: {rounds}
  warmup_seconds: {warmup}
  on_not_ready: mark
  gate: {{load_wait_seconds: 0}}
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        quiet = _medians(Path(folder), "quiet", 0.2)
        with half_busy_core():
            busy = _medians(Path(folder), "busy", 0.201)
    assert quiet.keys() == busy.keys(), "the same variants in both"
    twin = next(name for name in quiet if name.endswith("twin"))
    original = twin.removesuffix(" · twin")
    names = sorted(quiet.keys() - {twin})
    resolved = [pair for pair in itertools.combinations(names, 2) if _apart(quiet[pair[0]], quiet[pair[1]])]
    both = [pair for pair in resolved if _apart(busy[pair[0]], busy[pair[1]])]
    difference = abs(_p50(busy[twin]) / _p50(busy[original]) - 1)
    paired = ratio_by_rounds(busy[twin], busy[original])
    assert paired is not None
    finish(
        "busy: one of the cores busy half of the time",
        [
            Figure("variants", len(names), "", "12", len(names) == 12),
            Figure("pairs that the quiet sweep tells apart", len(resolved), f"of {len(names) * (len(names) - 1) // 2}"),
            at_least("Kendall's tau over them", _tau(resolved, quiet, busy), "", 0.95),
            Figure("pairs that both tell apart", len(both), ""),
            at_least("Kendall's tau over these", _tau(both, quiet, busy), "", 0.95),
            Figure(
                "twin told apart",
                float(_apart(busy[twin], busy[original])),
                "",
                "0",
                not _apart(busy[twin], busy[original]),
            ),
            at_most("difference of the twin, paired by rounds", 100 * abs(paired.value - 1), "%", 2.0),
            Figure("difference of the twin's p50", 100 * difference, "%"),
            Figure(
                "busy over quiet, median of the variants",
                median([_p50(busy[n]) / _p50(quiet[n]) for n in names]),
                "times",
            ),
        ],
    )


def _medians(folder: Path, name: str, warmup: float) -> dict[str, dict[int, float]]:
    """By variant: block medians in ms by visit."""
    sweep = folder / f"{name}.yaml"
    # A warm-up of its own, by a hair, so that both sweeps measure anew on the same builds.
    sweep.write_text(SWEEP.format(name=name, rounds=ROUNDS, warmup=warmup))
    workspace = folder / "data"
    argv = [EDGESWEEP, "run", sweep, "--workspace", workspace, "--executor", "inline", "--json"]
    document = json.loads(subprocess.run(argv, stdout=subprocess.PIPE, check=True).stdout)
    failed = [row for device in document["devices"] for row in device["not_ranked"]]
    assert not failed, failed
    with Journal.open(workspace / "journal.sqlite", read_only=True) as journal:
        return {
            job.name: {block.visit: median(block.samples_ns) / 1e6 for block in journal.attempts.blocks(job.key)}
            for job, stale in journal.jobs.of_sweep(name)
            if not stale
        }


def _p50(medians_ms: Mapping[int, float]) -> float:
    return median(list(medians_ms.values()))


def _apart(one: Mapping[int, float], other: Mapping[int, float]) -> bool:
    ratio = ratio_by_rounds(one, other)
    if ratio is None or ratio.low is None or ratio.high is None:
        return False
    return not ratio.low <= 1 <= ratio.high and max(ratio.value, 1 / ratio.value) >= 1.02


def _tau(
    pairs: list[tuple[str, str]], first: Mapping[str, Mapping[int, float]], second: Mapping[str, Mapping[int, float]]
) -> float:
    agree = sum((_p50(first[a]) < _p50(first[b])) == (_p50(second[a]) < _p50(second[b])) for a, b in pairs)
    return 2 * agree / len(pairs) - 1


if __name__ == "__main__":
    main()
