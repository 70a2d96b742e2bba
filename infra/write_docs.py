"""Write the generated parts of the documents: `make docs`. With `--simulate`, also the simulator's tables, in 2
minutes."""

import math
import platform
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import fault_rows
import release_table
import word_tables
from tree_text import tree

from sweeps import metrics, stats
from sweeps.label_kinds import TRUST
from sweeps.protocol import (
    batch_noise,
    block_labels,
    bursts,
    clock,
    mixture,
    racing,
    resolvable_difference,
    screen,
    sentinel_rules,
)
from sweeps.protocol import presets as protocol
from sweeps.protocol.presets import DEFAULT_GATE, PRESETS, Protocol
from sweeps.protocol.rounds_for_noise import MOST_ROUNDS
from sweeps.protocol.sessions import GAP_S, PRIOR_DEGREES, PRIOR_SPREAD
from sweeps.ranking import batch_alarm, moderated_intervals, session_ratio, ties, two_speeds
from sweeps.spec import catalog
from sweeps.spec.grid import GridSpec
from sweeps.spec.protocol import GateSpec

ROOT = Path(__file__).parents[1]
PROTOCOL, MODEL, EVIDENCE = (ROOT / "infra" / f"protocol{part}.md" for part in ("", "-model", "-evidence"))
SIMULATIONS = {
    "Builds that lie apart": ("--base-ms", "10", "--sigma", "0.35", "--seeds", "500"),
    "Builds that lie close, and are slow": ("--base-ms", "60", "--sigma", "0.15", "--seeds", "500"),
}
"""The headings of the simulator's tables, each with the arguments for `tests/benchmarks/simulate.py`."""


def axes() -> str:
    """Return the axes of a grid as a table: name, values, meaning. Bold values are the defaults, which a grid has that
    does not name the axis."""
    rows = []
    for name, field in (item for item in GridSpec.model_fields.items() if item[0] != "name"):
        known, kind = catalog.values(name), get_args(field.annotation)[0]
        values = ", ".join(_marked(known, field.default)) if known else _values(kind, field.default)
        rows.append(f"| `{name}` | {values} | {field.description} |")
    return "| axis | values | |\n|---|---|---|\n" + "\n".join(rows) + "\n"


def presets() -> str:
    """Return a table of the presets of the measurement protocol, with a column for each."""
    rows: dict[str, Callable[[Protocol], str]] = {
        "for": lambda preset: _PURPOSES[preset.preset],
        "rounds of a job": lambda preset: _span(preset.rounds, preset.last_round),
        "at least, after `edgesweep noise`": lambda preset: _span(
            preset.rounds, MOST_ROUNDS.get(preset.preset, preset.rounds)
        ),
        "warm-up, at least": lambda preset: _amount(preset.warmup_iterations, preset.warmup_seconds),
        "then timed, at least": lambda preset: _amount(preset.iterations, preset.in_own_process.min_seconds),
        "a block ends after": lambda preset: f"{preset.max_seconds:g} s",
        "budget": lambda preset: preset.budget,
        "waits for the device": lambda preset: (
            "no" if preset.gate is None else f"up to {preset.gate.wait_seconds:g} s a block"
        ),
        "not ready in time": lambda preset: "no gate" if preset.gate is None else preset.on_not_ready,
        "fixed-performance mode": lambda preset: "asked for" if preset.fixed_performance else "left alone",
        "sentinel": lambda preset: f"every {preset.sentinel_every} blocks" if preset.sentinel_every else "never",
    }
    return _table(
        ("preset", *(f"`{name}`" for name in PRESETS)),
        [(name, *(cell(preset) for preset in PRESETS.values())) for name, cell in rows.items()],
    )


def _span(least: int, most: int) -> str:
    return f"{least}" if least == most else f"{least} to {most}"


def gates() -> str:
    """Return a table of the conditions of a gate, with their defaults."""
    return _table(
        ("`protocol.gate`", "default", "meaning"),
        [
            (f"`{name}`", f"{getattr(DEFAULT_GATE, name):g}", str(field.description))
            for name, field in GateSpec.model_fields.items()
        ],
    )


def labels() -> str:
    """Return a table of the trust labels, each with its advice."""
    return _table(
        ("label", "may win", "what it says, and what to do"),
        [(f"`{label.name}`", "no" if label.disqualifying else "yes", label.advice) for label in TRUST.values()],
    )


def figures() -> str:
    """Return a table of the thresholds of the rules, read from the code."""
    rows = [
        ("Interval and ties: confidence", f"{100 * stats.CONFIDENCE:g} %", "convention"),
        ("Negligible difference in latency", f"{100 * stats.NEGLIGIBLE:g} %", "judged"),
        (
            "Stable: the last 3 medians agree within",
            f"{100 * protocol.STABLE_WITHIN:g} %",
            "judged; its effect on intervals: `sweeps.stats.stable`",
        ),
        (
            "A race ends: probability that its leader is within 2 % of the best",
            f"{100 * (1 - racing.ERROR):g} %",
            "judged; how often that is wrong: `tests/benchmarks/bench_policy.py`",
        ),
        (
            "A race rests: summed probability of being faster than the leader by more than 2 %",
            f"{100 * racing.RESTING:g} %",
            "simulated",
        ),
        (
            "A race eliminates: summed probability of not being slower than the leader",
            f"{100 * racing.ELIMINATED:g} %",
            "simulated: at 0.4 % one of 8 equal builds was eliminated in 5 % of races",
        ),
        ("Prior spread of a block in a race", f"{100 * mixture.SPREAD:g} %", "judged; 3 degrees of freedom"),
        ("Screen: most batches", f"{screen.MOST_BATCHES}", "simulated"),
        ("Batches that decide: most", f"{PRESETS['race'].last_round}", "simulated: 24 leave many open at 4 %"),
        ("Batches are contradicted if shown to be off by", f"{100 * batch_alarm.MOST:g} %", "judged, see above"),
        ("Screen: enough at a probability of", f"{100 * screen.ENOUGH:g} %", "simulated"),
        ("Screen: in the finals is everything within", f"{100 * (screen.NEAR - 1):.0f} %", "simulated"),
        ("Screen: half a block for who is behind by", f"{100 * (screen.FAR - 1):.0f} %", "simulated"),
        ("Blocks that confirm a race's winner", f"{PRESETS['race'].confirmations}", "judged"),
        (
            "A race for a front decides after these rounds",
            ", ".join(map(str, protocol.DECISION_ROUNDS)),
            "judged: fixed, so that the same rounds always give the same decisions",
        ),
        ("Outlier: modified z-score above", f"{stats.OUTLIER_SCORE:g}", "[Iglewicz 1993]"),
        (
            "`outliers`: share of a block",
            f"{100 * block_labels.OUTLIER_SHARE:g} %",
            "from 10 % on, p90 itself is an outlier",
        ),
        (
            "`busy_host`: CPU time used by other programs",
            f"{100 * block_labels.BUSY_LOAD:g} %",
            "judged; an idle host shows 1 to 3 %",
        ),
        ("`busy_host`: CPU time used by the hypervisor", f"{100 * block_labels.STEAL_SHARE:g} %", "judged"),
        (
            "Samples needed for p90",
            f"{metrics.P90_FROM_SAMPLES}",
            "0.9^64 = 0.12 %: the chance that no sample lies above it",
        ),
        ("Samples needed for p99", f"{metrics.P99_FROM_SAMPLES}", "0.99^662 = 0.13 %"),
        ("`device_changed`: the sentinel moved by", f"{100 * sentinel_rules.MOVED:g} %", "judged"),
        (
            "Processes of one sentinel check",
            f"{sentinel_rules.CHECK_BLOCKS}",
            "judged: single processes differ by more than the change to detect",
        ),
        (
            "Unrepeated times are unresolved within a factor of",
            f"{ties.UNREPEATED_SPREAD:g}",
            "seen: 17 to 25 ms for one file in different processes",
        ),
        (
            "`coarse_clock`: a tick of more than this share of a sample",
            f"{100 * clock.COARSE:g} %",
            "judged: half of the negligible difference",
        ),
        ("`invalid_timing`: samples fill less of their block than", f"{100 * block_labels.FILLED_SHARE:g} %", "judged"),
        (
            "Variants whose spreads an interval needs to borrow from them",
            f"{moderated_intervals.FEWEST_VARIANTS}",
            "judged; fewer spreads do not show how alike they are",
        ),
        (
            "Batches decide: the upper bound of what they change is at most",
            f"{100 * batch_noise.DECIDE_UP_TO:g} %",
            "judged: half of the negligible difference",
        ),
        (
            "`two_speeds`: the speeds differ by at least",
            f"{100 * math.expm1(two_speeds.LEAST_STEP):.0f} %, and {two_speeds.SEPARATION:g} standard deviations",
            "judged; the halves of evenly spread noise lie 3.5 apart",
        ),
        (
            "`two_speeds`: blocks on the rarer side of their variant",
            f"{100 * two_speeds.LEAST_SHARE:g} %",
            "judged: outliers are rarer",
        ),
        ("`bursts`: a slow sample is above the block's median by", f"{100 * bursts.SLOW - 100:.0f} %", "judged"),
        (
            "`bursts`: share of a block's time",
            f"{100 * bursts.BURST_SHARE:g} %",
            "judged; only runs that chance makes in 1 of 100,000 blocks",
        ),
        (
            "`edgesweep noise`: told apart in this share of sweeps",
            f"{100 * resolvable_difference.POWER:g} %",
            "convention",
        ),
        ("Most further rounds suggested to settle a tie", f"{ties.MOST_ROUNDS:,}", "judged"),
        (
            "Spread between sessions, without evidence",
            f"{100 * PRIOR_SPREAD:g} %, {PRIOR_DEGREES:g} degrees of freedom",
            "judged; then what the device shows",
        ),
        ("A session begins, after the last block", f"{GAP_S // 60} minutes", "judged: `sweeps.protocol.sessions`"),
        ("Most sessions suggested to settle a comparison", f"{session_ratio.MOST_SESSIONS}", "judged"),
    ]
    return _table(("figure", "value", "source"), rows)


def simulator() -> str:
    """Return the tables of `tests/benchmarks/simulate.py`, each under the command that prints the same figures."""
    from sweeps.report.progress import RunProgress
    from tests.benchmarks import simulation_report
    from tests.benchmarks.simulate import PHONES, VARIANTS, simulate, simulation, standard_methods

    versions = ", ".join(f"{name} {version(name)}" for name in ("edgesweep", "numpy", "scipy"))
    parts = [f"Written {time.strftime('%Y-%m-%d')} with {versions}, Python {platform.python_version()}.\n"]
    with RunProgress() as progress:
        for title, words in SIMULATIONS.items():
            options = simulate.make_context("simulate.py", list(words)).params
            simulated = simulation(
                PHONES,
                standard_methods(),
                variants=VARIANTS,
                base_ms=options["base_ms"],
                sigma=options["sigma"],
                seeds=options["seeds"],
                progress=partial(progress.step, title),
            )
            shown = f"```console\n.venv/bin/python tests/benchmarks/simulate.py {' '.join(words)}\n```\n\n"
            parts.append(f"### {title}\n\n{shown}{simulation_report.markdown(simulated)}")
    return "\n".join([*parts, simulation_report.legend(simulated)])


GENERATED: dict[Path, dict[str, Callable[[], str]]] = {
    ROOT / "infra" / "axes.md": {"axes": axes},
    ROOT / "infra" / "runtimes.md": {"toolchains": release_table.table},
    ROOT / "infra" / "tree.md": {"tree": tree},
    ROOT / "infra" / "faults.md": {"faults": fault_rows.table},
    ROOT / "infra" / "words.md": {"words": word_tables.tables},
    PROTOCOL: {"presets": presets, "gates": gates, "labels": labels},
    MODEL: {"figures": figures},
}
"""The functions that write the generated parts of each page. The simulator's tables are written only with
`--simulate`."""


def rendered(page: Path, text: str) -> str:
    """Return the text of a page with its generated parts written anew, except the simulator's tables."""
    return _filled(text, {name: write() for name, write in GENERATED[page].items()})


def _filled(document: str, parts: Mapping[str, str], by: str = "make docs") -> str:
    """Return a document with its generated parts replaced. Raises `ValueError` if a part's markers are missing."""
    for name, text in parts.items():
        opened, closed = f"<!-- {name}: written by {by} -->\n", f"<!-- /{name} -->"
        before, begins, rest = document.partition(opened)
        _, ends, after = rest.partition(closed)
        if not (begins and ends):
            raise ValueError(f"the document has no part called {name}")
        document = before + opened + text + closed + after
    return document


_PURPOSES = {
    "quick": "the demo, a first look",
    "full": "figures that each have to hold",
    "race": "the winner among many",
    "recipe": "figures beside those of the recipes; no interval",
}


def _amount(iterations: int, seconds: float) -> str:
    counted = f"{iterations} iteration{'s' * (iterations > 1)}" if iterations else ""
    return " and ".join(filter(None, (counted, f"{seconds:g} s" if seconds else ""))) or "nothing"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def _values(kind: Any, default: tuple[Any, ...]) -> str:
    kinds = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    words: list[str] = []
    for part in kinds:
        if get_origin(part) is Literal:
            words += _marked(get_args(part), default)
        elif part is bool:
            words += [f"**{value}**".lower() if value in default else str(value).lower() for value in (True, False)]
        else:
            words += [f"**{value}**" for value in default if value not in words and f"**{value}**" not in words]
            words += ["..."]
    return ", ".join(words)


def _marked(values: Iterable[object], default: tuple[Any, ...]) -> list[str]:
    return [f"**{value}**" if value in default else str(value) for value in values]


if __name__ == "__main__":
    for page in GENERATED:
        page.write_text(rendered(page, page.read_text("utf-8")), "utf-8")
    if "--simulate" in sys.argv[1:]:
        parts, by = {"simulator": simulator()}, "python infra/write_docs.py --simulate"
        EVIDENCE.write_text(_filled(EVIDENCE.read_text("utf-8"), parts, by), "utf-8")
