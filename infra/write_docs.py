"""Write the parts of the documents that come from the code: the axes, the tree, and the protocol page's tables.

`make docs` runs it; a test fails where a document is not what it would write. With `--simulate` it also runs the
simulator for the protocol page, which takes about two minutes.
"""

import ast
import inspect
import platform
import re
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from sweeps import stats
from sweeps.protocol import blocks, racing, sentinel
from sweeps.protocol import presets as protocol
from sweeps.protocol.presets import DEFAULT_GATE, PRESETS, Protocol
from sweeps.ranking import ties
from sweeps.spec import catalog
from sweeps.spec.grid import GridSpec
from sweeps.spec.protocol import GateSpec
from sweeps.trust import TRUST

ROOT = Path(__file__).parents[1]
PROTOCOL = ROOT / "infra" / "protocol.md"
_WIDTH = 120

PACKAGES = ("sweeps", "workers", "dashboard")

STEPS = ("command", "spec", "planning", "build", "measure", "journal", "store", "ranking", "report", "dashboard")
"""The way of the data. A folder of a package names its step in its docstring, in a line `Step: build`."""

OTHER_FOLDERS = {
    "sweeps/specs/": "Sweep files that run.",
    "infra/": "Pinned versions, documents and what writes them, rules for phones.",
    "tests/": "Mirror the packages; tests/benchmarks/ is make bench.",
}
"""Folders without a package's docstring."""

SIMULATIONS = {
    "Builds that lie apart": ("--base-ms", "10", "--sigma", "0.35", "--seeds", "500"),
    "Builds that lie close, and are slow": ("--base-ms", "60", "--sigma", "0.15", "--seeds", "500"),
}
"""Headings of the protocol page, and what `edgesweep simulate` is given for each."""


def folders(root: Path = ROOT) -> list[tuple[Path, str]]:
    """The packages' folders with Python in them, each with its step: the packages themselves, then in the data's order.

    A package needs no step; a folder inside another that has one may leave it out. Raises `ValueError` for a folder
    without a step or with an unknown one.
    """
    found: list[tuple[Path, str]] = []
    steps: dict[Path, str] = {}
    for package in PACKAGES:
        for folder in sorted({path.parent for path in (root / package).rglob("*.py")}):
            told = re.search(r"^Step: (.+)$", _docstring(folder / "__init__.py"), re.MULTILINE)
            step = told[1] if told else steps.get(folder.parent, "")
            if (step or folder.parent != root) and step not in STEPS:
                shown = folder.relative_to(root).as_posix()
                raise ValueError(f"{shown}/__init__.py needs a line `Step: ...` with one of: {', '.join(STEPS)}")
            steps[folder] = step
            found.append((folder, step))
    return sorted(found, key=lambda one: (STEPS.index(one[1]) + 1 if one[1] else 0, one[0].parts))


def tree(root: Path = ROOT) -> str:
    """Every folder in the data's order: its step, what it does, and the names of its modules; as fenced text.

    Raises `ValueError` for a folder whose `__init__.py` does not say what it does.
    """
    lines: list[str] = []
    listed = folders(root)
    last = ""
    for folder, step in listed:
        shown = f"{folder.relative_to(root).as_posix()}/"
        about = sentence(folder / "__init__.py")
        if not about:
            raise ValueError(f"{shown}__init__.py does not say what the folder does")
        above = [one for one, its in listed if one in folder.parents and its == step]
        name = f"{'  ' * len(above)}{folder.name}/" if above else shown
        lines += _entry(step if step != last else "", name, about)
        lines += _entry("", "", _modules(folder), indent="  ")
        last = step
    for shown, about in OTHER_FOLDERS.items():
        lines += _entry("", shown, about)
    return "```text\n" + "\n".join(lines) + "\n```\n"


def _modules(folder: Path) -> str:
    """Their names, after that of the one to begin with, where the folder's docstring has a line `Start: ...`.

    Raises `ValueError` where there is no such module.
    """
    names = [path.stem for path in sorted(folder.glob("[!_]*.py"))]
    names += [path.name for path in sorted(folder.glob("*.cpp"))]
    told = re.search(r"^Start: (.+)$", _docstring(folder / "__init__.py"), re.MULTILINE)
    if told is None:
        return ", ".join(names)
    if told[1] not in names:
        raise ValueError(f"{folder.name}/__init__.py starts at {told[1]}, which is none of its modules")
    others = ", ".join(name for name in names if name != told[1])
    return f"start at {told[1]}" + (f"; {others}" if others else "")


def sentence(source: Path) -> str:
    """The first sentence of a module's docstring, or of a C++ file's first comment; empty where there is none."""
    if source.suffix == ".py":
        about = _docstring(source)
    else:
        text = source.read_text(encoding="utf-8")
        about = re.sub(r"^// ?", "", text.partition("\n\n")[0], flags=re.MULTILINE)
    return re.split(r"(?<=[.!?])\s", " ".join(about.split("\n\n")[0].split()))[0]


def axes() -> str:
    """The axes of a grid as a table: name, values with those of a grid that does not name it in bold, meaning."""
    rows = []
    for name, field in GridSpec.model_fields.items():
        if name == "name":
            continue
        (kind, _) = get_args(field.annotation)
        known = catalog.values(name)
        values = ", ".join(_marked(known, field.default)) if known else _values(kind, field.default)
        rows.append(f"| `{name}` | {values} | {field.description} |")
    return "| axis | values | |\n|---|---|---|\n" + "\n".join(rows) + "\n"


def presets() -> str:
    """Every preset of the measurement protocol, a column each."""
    rows: dict[str, Callable[[Protocol], str]] = {
        "for": lambda one: _PURPOSES[one.preset],
        "rounds of a job": lambda one: (
            f"{one.rounds}" if one.last_round == one.rounds else f"{one.rounds} to {one.last_round}"
        ),
        "warm-up, at least": lambda one: _amount(one.warmup_iterations, one.warmup_seconds),
        "then timed, at least": lambda one: _amount(one.iterations, one.min_seconds),
        "a block ends after": lambda one: f"{one.max_seconds:g} s",
        "budget": lambda one: one.budget,
        "waits for the device": lambda one: "no" if one.gate is None else f"up to {one.gate.wait_seconds:g} s a block",
        "not ready in time": lambda one: "no gate" if one.gate is None else one.on_not_ready,
        "fixed-performance mode": lambda one: "asked for" if one.fixed_performance else "left alone",
        "sentinel": lambda one: f"every {one.sentinel_every} blocks" if one.sentinel_every else "never",
    }
    return _table(
        ("preset", *(f"`{name}`" for name in PRESETS)),
        [(name, *(cell(one) for one in PRESETS.values())) for name, cell in rows.items()],
    )


def gates() -> str:
    """What a gate asks for, with its defaults."""
    return _table(
        ("`protocol.gate`", "default", "meaning"),
        [
            (f"`{name}`", f"{getattr(DEFAULT_GATE, name):g}", str(field.description))
            for name, field in GateSpec.model_fields.items()
        ],
    )


def labels() -> str:
    """The trust labels, each with its advice."""
    return _table(
        ("label", "may win", "what it says, and what to do"),
        [(f"`{one.name}`", "no" if one.disqualifying else "yes", one.advice) for one in TRUST.values()],
    )


def figures() -> str:
    """The figures that rules decide by, as the code has them."""
    looks = ", ".join(map(str, racing.LOOKS))
    error = inspect.signature(racing.Race).parameters["error"].default
    rows = [
        ("Interval and ties: confidence", f"{100 * stats.CONFIDENCE:g} %", "convention"),
        ("Not worth a difference, in latency", f"{100 * stats.NEGLIGIBLE:g} %", "judged"),
        (
            "Stable: the last 3 medians agree within",
            f"{100 * protocol.STABLE_WITHIN:g} %",
            "judged; what it does to intervals: `sweeps.stats.stable`",
        ),
        ("A race: error of all pairs and looks together", f"{100 * error:g} %", "judged"),
        ("A race looks after these rounds", looks, "judged: fixed, so that the same rounds decide the same"),
        ("Outlier: modified z-score above", f"{stats.OUTLIER_SCORE:g}", "[Iglewicz 1993]"),
        ("`outliers`: share of a block", f"{100 * blocks.OUTLIER_SHARE:g} %", "from a tenth on, p90 is one itself"),
        (
            "`busy_host`: CPU time that others take",
            f"{100 * blocks.BUSY_LOAD:g} %",
            "judged; an idle host shows 1 to 3 %",
        ),
        ("`busy_host`: CPU time that the hypervisor takes", f"{100 * blocks.STEAL_SHARE:g} %", "judged"),
        (
            "p90 from so many samples",
            f"{blocks.P90_FROM_SAMPLES}",
            "0.9^64 = 0.12 %: the chance that none lies above it",
        ),
        ("p99 from so many samples", f"{blocks.P99_FROM_SAMPLES}", "0.99^662 = 0.13 %"),
        ("`device_changed`: the sentinel moved by", f"{100 * sentinel.MOVED:g} %", "judged"),
        (
            "Processes of one look at the sentinel",
            f"{sentinel.LOOK_BLOCKS}",
            "judged: one alone differs by more than is looked for",
        ),
        (
            "Unrepeated times are tied within a factor of",
            f"{ties.UNREPEATED_SPREAD:g}",
            "seen: 17 to 25 ms, one file in fresh processes",
        ),
        ("Rounds that a tie may ask for, at most", f"{ties.MOST_ROUNDS:,}", "judged"),
    ]
    return _table(("figure", "value", "source"), rows)


def simulator() -> str:
    """The tables of `edgesweep simulate`, each under the command that prints the same figures."""
    from sweeps.cli.main import main
    from sweeps.cli.simulate import PHONES, VARIANTS, simulation, standard_methods
    from sweeps.report import simulation as simulation_text
    from sweeps.report.progress import RunProgress

    command = main.commands["simulate"]
    versions = ", ".join(f"{name} {version(name)}" for name in ("edgesweep", "numpy", "scipy"))
    parts = [f"Written {time.strftime('%Y-%m-%d')} with {versions}, Python {platform.python_version()}.\n"]
    with RunProgress() as progress:
        for title, words in SIMULATIONS.items():
            given = command.make_context("simulate", list(words)).params
            found = simulation(
                PHONES,
                standard_methods(),
                variants=VARIANTS,
                base_ms=given["base_ms"],
                sigma=given["sigma"],
                seeds=given["seeds"],
                progress=partial(progress.step, title),
            )
            shown = f"```console\n.venv/bin/edgesweep simulate {' '.join(words)}\n```\n"
            parts.append(f"### {title}\n\n{shown}\n{simulation_text.markdown(found)}")
    return "\n".join([*parts, simulation_text.legend(found)])


GENERATED: dict[Path, dict[str, Callable[[], str]]] = {
    ROOT / "infra" / "axes.md": {"axes": axes},
    ROOT / "infra" / "tree.md": {"tree": tree},
    PROTOCOL: {"presets": presets, "gates": gates, "labels": labels, "figures": figures},
}
"""By page, its generated parts."""


def rendered(page: Path, text: str) -> str:
    """The text of a page with its generated parts made anew, all but the simulator's."""
    return _filled(text, {name: write() for name, write in GENERATED[page].items()})


def _filled(document: str, parts: Mapping[str, str], by: str = "make docs") -> str:
    """Raises `ValueError` where a part's markers are missing."""
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
    for one in kinds:
        if get_origin(one) is Literal:
            words += _marked(get_args(one), default)
        elif one is bool:
            words += [f"**{value}**".lower() if value in default else str(value).lower() for value in (True, False)]
        else:
            words += [f"**{value}**" for value in default if value not in words and f"**{value}**" not in words]
            words += ["..."]
    return ", ".join(words)


def _marked(values: Iterable[object], default: tuple[Any, ...]) -> list[str]:
    return [f"**{value}**" if value in default else str(value) for value in values]


def _docstring(module: Path) -> str:
    return (ast.get_docstring(ast.parse(module.read_text(encoding="utf-8"))) or "") if module.exists() else ""


def _entry(step: str, name: str, text: str, indent: str = "") -> list[str]:
    """A step, a folder and a text of as many lines as it takes, in three columns."""
    parts = textwrap.wrap(text, _WIDTH - 32 - len(indent), break_on_hyphens=False)
    starts = [f"{step:10}{name:22}", *[" " * 32] * len(parts)]
    return [f"{start}{indent}{part}" for start, part in zip(starts, parts, strict=False)]


if __name__ == "__main__":
    for page in GENERATED:
        written = rendered(page, page.read_text(encoding="utf-8"))
        if page == PROTOCOL and "--simulate" in sys.argv[1:]:
            written = _filled(written, {"simulator": simulator()}, by="python infra/write_docs.py --simulate")
        page.write_text(written, encoding="utf-8")
