"""infra/architecture.md lists the modules of each flow in the order in which a sweep, or a block, goes through them."""

import ast
import re
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "infra" / "architecture.md"

Stage = tuple[str, ...]


def flows_of(text: str) -> dict[str, list[Stage]]:
    """The stages of each flow: the first path of each numbered line under a heading of the third level."""
    flows: dict[str, list[Stage]] = {}
    for part in re.split(r"^## ", text, flags=re.MULTILINE):
        title, _, body = part.partition("\n")
        if title.startswith("The flow of"):
            stages = re.split(r"^### ", body, flags=re.MULTILINE)[1:]
            flows[title] = [tuple(re.findall(r"^\d+\. `([\w./]+)`", stage, re.MULTILINE)) for stage in stages]
    return flows


FLOWS = flows_of(PAGE.read_text(encoding="utf-8"))


def names_in(module: str, root: Path = ROOT) -> frozenset[str]:
    """The modules and C++ files that a Python module imports, or names in a string where it starts or compiles them."""
    if not module.endswith(".py"):
        return frozenset()
    named: set[str] = set()
    for node in ast.walk(ast.parse((root / module).read_text(encoding="utf-8"))):
        match node:
            case ast.Import(names=names):
                named |= {alias.name for alias in names}
            case ast.ImportFrom(module=str(package), names=names):
                named |= {package, *(f"{package}.{alias.name}" for alias in names)}
            case ast.Constant(value=str(text)) if re.fullmatch(r"[\w.]+(:\w+)?", text):
                named.add(text.partition(":")[0])
    files = {f"{name.replace('.', '/')}.py" for name in named} | {f"workers/native/{name}" for name in named}
    return frozenset(name for name in files if (root / name).is_file()) - {module}


def leads_to(module: str, other: str, root: Path = ROOT) -> bool:
    """Tell whether a module imports or names another one, directly or through one between them."""
    direct = _names_in(module, root)
    return other in direct or any(other in _names_in(between, root) for between in direct)


_names_in = cache(names_in)


def tied(module: str, other: str, root: Path = ROOT) -> bool:
    return leads_to(module, other, root) or leads_to(other, module, root)


STEPS = [
    (flow, above, module)
    for flow, stages in FLOWS.items()
    for number, stage in enumerate(stages)
    for above, module in (
        # The first of a stage may be tied to any module above it.
        *([([path for earlier in stages[:number] for path in earlier], stage[0])] if number else []),
        *(([before], after) for before, after in pairwise(stage)),
    )
]


def test_the_page_has_both_flows() -> None:
    assert list(FLOWS) == ["The flow of a sweep", "The flow of a block"]
    assert all(stage for stages in FLOWS.values() for stage in stages)
    assert len(STEPS) > 40


@pytest.mark.parametrize(("flow", "above", "module"), STEPS, ids=[module for _, _, module in STEPS])
def test_each_module_of_a_flow_is_there_and_tied_to_the_one_before_it(flow: str, above: list[str], module: str) -> None:
    where = f"In infra/architecture.md, '{flow}', the line of {module}"
    for path in (*above, module):
        assert (ROOT / path).is_file(), f"{where}: there is no {path}. Name the module that took its place."
    assert any(tied(path, module) for path in above), (
        f"{where}: it and {' or '.join(above)} do not import each other, not through one module either. Put the "
        "modules that the way goes through now into the list."
    )


def test_a_module_that_is_no_longer_imported_on_the_way_is_found(tmp_path: Path) -> None:
    (tmp_path / "sweeps").mkdir()
    texts = {"a": "import sweeps.b", "b": "from sweeps import c", "c": "START = 'sweeps.d:main'", "d": "", "e": ""}
    for name, text in texts.items():
        (tmp_path / "sweeps" / f"{name}.py").write_text(text)
    near = {
        (name, other): tied(f"sweeps/{name}.py", f"sweeps/{other}.py", tmp_path)
        for name in "abcde"
        for other in "abcde"
    }
    assert near[("a", "b")]
    assert near[("b", "a")]
    assert near[("a", "c")]
    assert near[("c", "d")]
    assert not near[("a", "d")]
    assert not any(near[(name, "e")] for name in "abcd")


def test_the_first_path_of_each_numbered_line_is_the_module() -> None:
    lines = "### One\n\n1. `a/b.py` uses `c/d.py`.\n   (`e.py`)\n2. `f.py` is last.\n"
    page = f"## The flow of x\n\n{lines}\n## Other\n\n1. `g.py`\n"
    assert flows_of(page) == {"The flow of x": [("a/b.py", "f.py")]}
