"""Checks the text of a sweep file before it is started from a browser: each problem with its line. Pure but for files'
existence."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sweeps.errors import SpecError
from sweeps.spec.sweep import SweepSpec, validated
from sweeps.spec.yaml_source import MAX_BYTES, Document, parsed
from sweeps.workspace import Workspace

NEW = "sweep.yaml"


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that is wrong in the file."""

    line: int | None
    message: str

    @property
    def text(self) -> str:
        return self.message if self.line is None else f"line {self.line}: {self.message}"


@dataclass(frozen=True, slots=True)
class Checked:
    """A sweep file that may be started, or what is wrong with it."""

    spec: SweepSpec | None
    problems: tuple[Problem, ...] = ()


def check(workspace: Workspace, text: str, models: Sequence[Path] = ()) -> Checked:
    """Relative paths in the file start at the workspace's folder `launches`. `models`: the only folders that a model's
    own code (`module:function`) may come from."""
    path = workspace.launches / NEW
    if len(text.encode("utf-8", "replace")) > MAX_BYTES:
        return Checked(None, (Problem(None, "larger than 1 MiB: a sweep file has only a few lines"),))
    try:
        document = parsed(text, path)
        spec = validated(document)
    except SpecError as error:
        return Checked(None, tuple(_problem(line, path) for line in error.message.splitlines()))
    problems = tuple(_foreign_code(spec, document, models))
    return Checked(None if problems else spec, problems)


def _problem(line: str, path: Path) -> Problem:
    found = re.fullmatch(re.escape(str(path)) + r":(\d+): (.*)", line)
    return Problem(None, line) if found is None else Problem(int(found[1]), found[2])


def _foreign_code(spec: SweepSpec, document: Document, models: Sequence[Path]) -> list[Problem]:
    found = []
    for position, model in enumerate(spec.models):
        module, colon, _ = model.source.partition(":")
        if not colon or any(_has_module(folder, module) for folder in models):
            continue
        listed = ", ".join(map(str, models))
        why = f"it is in none of the folders {listed}" if models else "no folder of models is listed"
        found.append(
            Problem(
                document.line(("models", position, "source")),
                f"the code of {model.source} may not be run from here: {why} (edgesweep dashboard --models DIR)",
            )
        )
    return found


def _has_module(folder: Path, module: str) -> bool:
    base = folder.joinpath(*module.split("."))
    home = folder.resolve()
    files = (base / "__init__.py", base.with_name(f"{base.name}.py"))
    return any(file.is_file() and file.resolve().is_relative_to(home) for file in files)
