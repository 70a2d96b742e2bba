"""Parsed sources of this repository, for tests of what its code says: each file is parsed once in a process."""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("sweeps", "workers", "dashboard")


@cache
def files_of(*packages: str) -> tuple[Path, ...]:
    """All Python files of these packages, sorted within each."""
    return tuple(path for package in packages for path in sorted((ROOT / package).rglob("*.py")))


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """All nodes of a file, in the order of `ast.walk`."""
    return tuple(ast.walk(tree_of(path)))


@cache
def calls_of(path: Path) -> tuple[tuple[ast.FunctionDef | None, ast.Call], ...]:
    """Each call of a file with the innermost function that it stands in."""
    calls: list[tuple[ast.FunctionDef | None, ast.Call]] = []
    stack: list[tuple[ast.AST, ast.FunctionDef | None]] = [(tree_of(path), None)]
    while stack:
        node, function = stack.pop()
        if isinstance(node, ast.FunctionDef):
            function = node
        if isinstance(node, ast.Call):
            calls.append((function, node))
        stack += [(child, function) for child in ast.iter_child_nodes(node)]
    return tuple(calls)
