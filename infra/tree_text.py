"""The tree of the repository's folders, as infra/tree.md shows it: written from the docstrings of the code."""

import ast
import re
import textwrap
from pathlib import Path

ROOT = Path(__file__).parents[1]
_WIDTH = 120

PACKAGES = ("sweeps", "workers", "dashboard")

_FIRST = ("command", "spec", "planning", "build", "measure")
STEPS = (*_FIRST, "journal", "ranking", "report", "dashboard", "launch", "store")
"""The steps in the order in which data passes through them; sweeps that the browser starts, and the copy of results for
other programs, come last.

A folder of a package names its step in the docstring of `__init__.py`, in a line `Step: build`."""

OTHER_FOLDERS = {
    "sweeps/specs/": "Sweep files that run.",
    "infra/": "Pinned versions, documents and the programs that write them, rules for phones.",
    "tests/": "Mirror the packages; tests/benchmarks/ is make bench.",
}
"""Folders that have no package docstring."""


def folders(root: Path = ROOT) -> list[tuple[Path, str]]:
    """Return the packages' folders that contain Python, each with its step: the packages themselves, then the folders
    in the order of the steps.

    A package needs no step; a folder inside a folder with a step may leave it out. Raises `ValueError` for a folder
    without a step or with an unknown one.
    """
    listed: list[tuple[Path, str]] = []
    steps: dict[Path, str] = {}
    for package in PACKAGES:
        for folder in sorted({path.parent for path in (root / package).rglob("*.py")}):
            step_line = re.search(r"^Step: (.+)$", _docstring(folder / "__init__.py"), re.MULTILINE)
            step = step_line[1] if step_line else steps.get(folder.parent, "")
            if (step or folder.parent != root) and step not in STEPS:
                shown = folder.relative_to(root).as_posix()
                raise ValueError(f"{shown}/__init__.py needs a line `Step: ...` with one of: {', '.join(STEPS)}")
            steps[folder] = step
            listed.append((folder, step))
    return sorted(listed, key=lambda entry: (STEPS.index(entry[1]) + 1 if entry[1] else 0, entry[0].parts))


def tree(root: Path = ROOT) -> str:
    """Return every folder in the order of the steps: its step, what it does, and the names of its modules; as fenced
    text.

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
        above = [other for other, other_step in listed if other in folder.parents and other_step == step]
        name = f"{'  ' * len(above)}{folder.name}/" if above else shown
        lines += _entry(step if step != last else "", name, about)
        lines += _entry("", "", _modules(folder), indent="  ")
        last = step
    for shown, about in OTHER_FOLDERS.items():
        lines += _entry("", shown, about)
    return "```text\n" + "\n".join(lines) + "\n```\n"


def _modules(folder: Path) -> str:
    """Return the names of a folder's modules. A module that the folder's docstring names in a line `Start: ...` comes
    first.

    Raises `ValueError` if there is no such module.
    """
    names = [path.stem for path in sorted(folder.glob("[!_]*.py"))]
    names += [path.name for path in sorted(folder.glob("*.cpp"))]
    start_line = re.search(r"^Start: (.+)$", _docstring(folder / "__init__.py"), re.MULTILINE)
    if start_line is None:
        return ", ".join(names)
    if start_line[1] not in names:
        raise ValueError(f"{folder.name}/__init__.py starts at {start_line[1]}, which is none of its modules")
    rest = ", ".join(name for name in names if name != start_line[1])
    return f"start at {start_line[1]}" + (f"; {rest}" if rest else "")


def sentence(source: Path) -> str:
    """Return the first sentence of a module's docstring, or of a C++ file's first comment; empty if there is none."""
    if source.suffix == ".py":
        about = _docstring(source)
    else:
        text = source.read_text(encoding="utf-8")
        about = re.sub(r"^// ?", "", text.partition("\n\n")[0], flags=re.MULTILINE)
    return re.split(r"(?<=[.!?])\s", " ".join(about.split("\n\n")[0].split()))[0]


def _docstring(module: Path) -> str:
    return (ast.get_docstring(ast.parse(module.read_text(encoding="utf-8"))) or "") if module.exists() else ""


def _entry(step: str, name: str, text: str, indent: str = "") -> list[str]:
    """Return the lines of one entry in three columns: a step, a folder, and a text of as many lines as it takes."""
    parts = textwrap.wrap(text, _WIDTH - 32 - len(indent), break_on_hyphens=False)
    starts = [f"{step:10}{name:22}", *[" " * 32] * len(parts)]
    return [f"{start}{indent}{part}" for start, part in zip(starts, parts, strict=False)]
