"""The public surface that one has to know before using a module, a class or a function is bounded; its length is not.

A class shows what it inherits too: split into a chain of parents it is as large as before. A module that one other
module imports is no fault. One that nobody imports is: it is dead.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.source_code import PACKAGES, ROOT, files_of, nodes_of, tree_of

pytestmark = pytest.mark.xdist_group("sources")

MOST_NAMES, MOST_MEMBERS, MOST_PARENTS, MOST_PARAMETERS = 24, 22, 3, 9
"""Names of a module, members of a class and classes above it that are ours, parameters of a function."""

LARGE_CLASSES = {
    "workers/runtimes/torchscript/nnapi/serializer.py: Serializer",  # extends torch's own, method by method
}
LONG_CALLS = {
    "sweeps/imported.py: describe",  # one figure that people took by hand, field by field
    "workers/driver/sweep_driver.py: __init__",  # all that a run is made of is handed in there, once
}
UNUSED = {
    "workers.runtimes.torchscript.nnapi.multi_tensor",  # for models of several inputs, which a later issue brings
}


def place(path: Path, name: str) -> str:
    return f"{path.relative_to(ROOT)}: {name}"


def module_name(path: Path) -> str:
    return path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".").removesuffix(".__init__")


def public_names(tree: ast.Module) -> Iterator[str]:
    """The names that a module defines for others, without those that it imports."""
    for node in tree.body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names = [name]
            case ast.Assign(targets=targets):
                names = [target.id for target in targets if isinstance(target, ast.Name)]
            case ast.AnnAssign(target=ast.Name(id=name)):
                names = [name]
            case _:
                names = []
        yield from (name for name in names if not name.startswith("_"))


Classes = dict[str, list[ast.ClassDef]]


def classes_of(nodes: Iterator[ast.AST]) -> Classes:
    by_name: Classes = defaultdict(list)
    for node in nodes:
        if isinstance(node, ast.ClassDef):
            by_name[node.name].append(node)
    return by_name


@cache
def our_classes() -> Classes:
    return classes_of(node for path in files_of(*PACKAGES) for node in nodes_of(path))


def own_members(class_: ast.ClassDef) -> set[str]:
    """Public methods, and what is assigned on `self`. The fields of a record are its content, and no members."""
    methods = {node.name for node in class_.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    attributes = {
        node.attr
        for node in ast.walk(class_)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    }
    return {name for name in methods | attributes if not name.startswith("_")}


def parents(class_: ast.ClassDef) -> Iterator[str]:
    for base in class_.bases:
        match base:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.Subscript(value=ast.Name(id=name)):
                yield name


def lineages(class_: ast.ClassDef, classes: Classes, below: tuple[str, ...] = ()) -> Iterator[list[ast.ClassDef]]:
    """The class with what stands above it, along each way up. A name that the way has had is another class's."""
    way = (*below, class_.name)
    known = [classes[name][0] for name in parents(class_) if name in classes and name not in way]
    yield [class_]
    for above in known:
        yield from ([class_, *line] for line in lineages(above, classes, way))


def is_large(class_: ast.ClassDef, classes: Classes) -> bool:
    lines = [*lineages(class_, classes)]
    members = {name for line in lines for node in line for name in own_members(node)}
    return len(members) > MOST_MEMBERS or max(map(len, lines)) > MOST_PARENTS + 1


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    arguments = function.args
    names = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    return len(names) - (names[:1] in (["self"], ["cls"]))


def is_command(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Tell whether a function's parameters are the options of a command."""
    return any("click" in ast.unparse(decorator) for decorator in function.decorator_list)


def test_a_module_defines_few_names_for_others() -> None:
    counts = {path: len([*public_names(tree_of(path))]) for path in files_of(*PACKAGES)}
    assert [place(path, str(count)) for path, count in counts.items() if count > MOST_NAMES] == []


def test_a_class_has_few_members_with_those_that_it_inherits() -> None:
    large = {
        place(path, node.name)
        for path in files_of(*PACKAGES)
        for node in nodes_of(path)
        if isinstance(node, ast.ClassDef) and is_large(node, our_classes())
    }
    assert large == LARGE_CLASSES


def test_a_function_has_few_parameters() -> None:
    long = {
        place(path, node.name)
        for path in files_of(*PACKAGES)
        for node in nodes_of(path)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if parameters(node) > MOST_PARAMETERS and not is_command(node)
    }
    assert long == LONG_CALLS


def test_every_module_is_imported_or_started_by_its_name() -> None:
    used: set[str] = set(re.findall(r"[\w.]+", (ROOT / "pyproject.toml").read_text(encoding="utf-8")))
    for path in files_of(*PACKAGES):
        prose = {id(node.value) for node in nodes_of(path) if isinstance(node, ast.Expr)}
        for node in nodes_of(path):
            match node:
                case ast.Constant() if id(node) in prose:
                    continue  # a docstring uses nothing
                case ast.ImportFrom(module=str(module), names=names):
                    used |= {module, *(f"{module}.{name.name}" for name in names)}
                case ast.Import(names=names):
                    used |= {name.name for name in names}
                case ast.Constant(value=str(text)):
                    # A registry may name what stands beside it by its last part.
                    used |= {*re.findall(r"[\w.]+", text), f"{module_name(path.parent)}.{text}"}
    named = {path: {module_name(path), path.name} for path in files_of(*PACKAGES) if path.name[:2] != "__"}
    assert {module_name(path) for path, names in named.items() if not names & used} == UNUSED


MANY = "\n".join(f"    def part_{number}(self): ..." for number in range(12))
MORE = MANY.replace("part", "piece")


@pytest.mark.parametrize(
    ("source", "large"),
    [
        (f"class Small:\n{MANY}", []),
        (f"class Above:\n{MANY}\nclass Whole(Above):\n{MORE}", ["Whole"]),
        ("class Wide:\n    def __init__(self):\n" + "        self.a = self.b%d = 0\n" * 23 % (*range(23),), ["Wide"]),
        ("class A: ...\nclass B(A): ...\nclass C(B): ...\nclass D(C): ...\nclass E(D): ...", ["E"]),
        ("class Record:\n" + "".join(f"    field_{number}: int\n" for number in range(300)), []),
    ],
    ids=["small", "by inheritance", "by attributes", "by depth", "record"],
)
def test_a_class_is_as_large_as_what_it_shows(source: str, large: list[str]) -> None:
    classes = classes_of(ast.walk(ast.parse(source)))
    assert [name for name, (node,) in classes.items() if is_large(node, classes)] == large
