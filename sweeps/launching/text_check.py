"""The check of a sweep file's text before it is started from a browser. Each problem has a line number; no code that
the file names is run."""

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sweeps.errors import SpecError
from sweeps.spec.model_inputs import TAKEN_MODULES
from sweeps.spec.sweep import SweepSpec, validated
from sweeps.spec.yaml_source import MAX_BYTES, Document, parsed
from sweeps.workspace import Workspace

NEW = "sweep.yaml"


@dataclass(frozen=True, slots=True)
class Problem:
    """Fault of a sweep file. `line`: from 1; `None` if the fault concerns the whole file."""

    line: int | None
    message: str

    @property
    def text(self) -> str:
        return self.message if self.line is None else f"line {self.line}: {self.message}"


@dataclass(frozen=True, slots=True)
class Checked:
    """Result of the check: the sweep, or `None` and the problems of its file."""

    spec: SweepSpec | None
    problems: tuple[Problem, ...] = ()


def check(workspace: Workspace, text: str, models: Sequence[Path] = ()) -> Checked:
    """Check a sweep file, whose relative paths start at the workspace's folder `launches`. `models`: the only folders
    that a model's own code (`module:function`) may come from; a file there must define the function, not import it."""
    path = workspace.launches / NEW
    if len(text.encode("utf-8", "replace")) > MAX_BYTES:
        return Checked(None, (Problem(None, "larger than 1 MiB: a sweep file has only a few lines"),))
    try:
        document = parsed(text, path)
        spec = validated(document)
    except SpecError as error:
        problems = tuple(Problem(line, text) for line, text in error.problems)
        return Checked(None, problems or (Problem(None, error.message),))
    refused = (*_foreign_code(spec, document, models), *_end_messages(spec, document))
    return Checked(None if refused else spec, refused)


def _foreign_code(spec: SweepSpec, document: Document, models: Sequence[Path]) -> list[Problem]:
    problems = []
    for position, model in enumerate(spec.models):
        why = _refused(model.source, models) if ":" in model.source else ""
        if why:
            problems.append(
                Problem(
                    document.line(("models", position, "source")),
                    f"the code of {model.source} may not be run from here: {why} (edgesweep dashboard --models DIR)",
                )
            )
    return problems


def _end_messages(spec: SweepSpec, document: Document) -> list[Problem]:
    """Return a problem if the file has `on_end`, which runs any program or sends a request from this computer: only
    people with a shell here may do that."""
    if not spec.on_end:
        return []
    return [
        Problem(document.line(("on_end",)), "on_end may not be used from here: start the sweep on the command line")
    ]


def _refused(source: str, models: Sequence[Path]) -> str:
    """Return the reason why a model's code may not be run; empty if it may, because the first of the folders with its
    module defines the function."""
    module, _, name = source.partition(":")
    names = module.split(".")
    if not models:
        return "no folder of models is listed"
    if names[0] in TAKEN_MODULES:
        return f"{names[0]} is a module of Python or EdgeSweep, wherever a file is called like it"
    file = next((file for folder in models if (file := _file_of(folder, names)) is not None), None)
    if file is None:
        return f"it is in none of the folders {', '.join(map(str, models))}"
    if name not in _defined_in(file):
        return f"{file} defines no function or class {name} at its top level"
    return ""


def _file_of(folder: Path, names: Sequence[str]) -> Path | None:
    base, home = folder.joinpath(*names), folder.resolve()
    module_file = next(
        (file for file in (base / "__init__.py", base.parent / f"{base.name}.py") if file.is_file()), None
    )
    return module_file if module_file is not None and module_file.resolve().is_relative_to(home) else None


def _defined_in(file: Path) -> set[str]:
    """Return the names of the functions and classes that a file defines, without imported names, which could be any
    function of a library. Empty if the file cannot be read."""
    try:
        body = ast.parse(file.read_bytes()).body
    except (OSError, SyntaxError, ValueError):
        return set()
    return {node.name for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
