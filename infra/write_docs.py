"""Write the parts of the README that come from the code: the axes of a grid, and the tree with each module's sentence.

`make docs` runs it; a test fails where the README is not what it would write.
"""

import ast
import re
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from sweeps.spec import GridSpec

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
_WIDTH = 120


def tree() -> str:
    """The packages with every module's first sentence, as fenced text."""
    lines = []
    for package in ("sweeps", "workers", "dashboard"):
        for folder in sorted({path.parent for path in (ROOT / package).rglob("*.py")}):
            indent = "  " * (len(folder.relative_to(ROOT).parts) - 1)
            lines.append(_line(f"{indent}{folder.name}/", folder / "__init__.py"))
            lines += [_line(f"{indent}  {path.name}", path) for path in sorted(folder.glob("[!_]*.py"))]
            native = sorted([*folder.glob("*.cpp"), *folder.glob("*.h")])
            lines += [_line(f"{indent}  {path.name}", path) for path in native]
    lines += [
        f"{'sweeps/specs/':28}Sweep files that run.",
        f"{'infra/':28}Pinned versions, decisions, documents' writers.",
        f"{'tests/':28}Mirror the packages; tests/benchmarks/ is make bench.",
    ]
    return "```text\n" + "\n".join(lines) + "\n```\n"


def axes() -> str:
    """The axes of a grid as a table: name, values with those of a grid that does not name it in bold, meaning."""
    rows = []
    for name, field in GridSpec.model_fields.items():
        if name == "name":
            continue
        (kind, _) = get_args(field.annotation)
        rows.append(f"| `{name}` | {_values(kind, field.default)} | {field.description} |")
    return "| axis | values | |\n|---|---|---|\n" + "\n".join(rows) + "\n"


def rendered(readme: str) -> str:
    """The README's text with its generated parts made anew."""
    for name, text in (("axes", axes()), ("tree", tree())):
        opened, closed = f"<!-- {name}: written by make docs -->\n", f"<!-- /{name} -->"
        pattern = re.escape(opened) + ".*?" + re.escape(closed)
        readme = re.sub(pattern, lambda _: opened + text + closed, readme, flags=re.DOTALL)  # noqa: B023  # called at once
    return readme


def _values(kind: Any, default: tuple[Any, ...]) -> str:
    kinds = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    words: list[str] = []
    for one in kinds:
        if get_origin(one) is Literal:
            words += [f"**{value}**" if value in default else str(value) for value in get_args(one)]
        elif one is bool:
            words += [f"**{value}**".lower() if value in default else str(value).lower() for value in (True, False)]
        else:
            words += [f"**{value}**" for value in default if value not in words and f"**{value}**" not in words]
            words += ["..."]
    return ", ".join(words)


def _line(name: str, module: Path) -> str:
    text = module.read_text(encoding="utf-8")
    if module.suffix == ".py":
        about = ast.get_docstring(ast.parse(text)) or ""
    else:
        about = re.sub(r"^// ?", "", text.partition("\n\n")[0], flags=re.MULTILINE)
    sentence = re.split(r"(?<=[.!?])\s", " ".join(about.split("\n\n")[0].split()))[0]
    line = f"{name:28}{sentence}".rstrip()
    if len(line) <= _WIDTH:
        return line
    # Too long for one line: as many of its clauses as fit.
    clause = max(line[:_WIDTH].rfind(mark) for mark in (", ", ": ", "; "))
    return line[:clause] + "." if clause > len(name) + 20 else line[: _WIDTH - 2].rsplit(" ", 1)[0] + " …"


if __name__ == "__main__":
    README.write_text(rendered(README.read_text(encoding="utf-8")), encoding="utf-8")
