"""Write the parts of the README that come from the code: the tree, from the first sentence of each module.

`make docs` runs it; a test fails where the README is not what it would write.
"""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
_OPEN, _CLOSE = "<!-- tree: written by make docs -->\n", "<!-- /tree -->"
_WIDTH = 120


def tree() -> str:
    """The packages with every module's first sentence, as fenced text."""
    lines = []
    for package in ("sweeps", "workers", "dashboard"):
        for folder in sorted({path.parent for path in (ROOT / package).rglob("*.py")}):
            indent = "  " * (len(folder.relative_to(ROOT).parts) - 1)
            lines.append(_line(f"{indent}{folder.name}/", folder / "__init__.py"))
            lines += [_line(f"{indent}  {path.name}", path) for path in sorted(folder.glob("[!_]*.py"))]
            lines += [f"{indent}  {path.name}" for path in sorted(folder.glob("*.yaml"))]
    lines += [
        f"{'sweeps/specs/':28}Sweep files that run.",
        f"{'infra/':28}Pinned versions, decisions, documents' writers.",
        f"{'tests/':28}Mirror the packages; tests/benchmarks/ is make bench.",
    ]
    return "```text\n" + "\n".join(lines) + "\n```\n"


def rendered(readme: str) -> str:
    """The README's text with its generated parts made anew."""
    return re.sub(
        re.escape(_OPEN) + ".*?" + re.escape(_CLOSE), lambda _: _OPEN + tree() + _CLOSE, readme, flags=re.DOTALL
    )


def _line(name: str, module: Path) -> str:
    docstring = ast.get_docstring(ast.parse(module.read_text(encoding="utf-8"))) or ""
    sentence = re.split(r"(?<=[.!?])\s", " ".join(docstring.split("\n\n")[0].split()))[0]
    line = f"{name:28}{sentence}".rstrip()
    if len(line) <= _WIDTH:
        return line
    # Too long for one line: as many of its clauses as fit.
    clause = max(line[:_WIDTH].rfind(mark) for mark in (", ", ": ", "; "))
    return line[:clause] + "." if clause > len(name) + 20 else line[: _WIDTH - 2].rsplit(" ", 1)[0] + " …"


if __name__ == "__main__":
    README.write_text(rendered(README.read_text(encoding="utf-8")), encoding="utf-8")
