"""The repository keeps what it promises about itself."""

import ast
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.source_code import PACKAGES, ROOT, files_of, nodes_of

pytestmark = pytest.mark.xdist_group("sources")


def _tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in listed.split("\0") if name]


def test_every_dependency_is_pinned_to_one_version() -> None:
    pins = (ROOT / "infra" / "constraints.txt").read_text().splitlines()
    assert [line for line in pins if not re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.+!]+", line)] == []
    names = {re.sub(r"[-_.]+", "-", line.split("==")[0]).lower() for line in pins}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    requirements = [
        *project["dependencies"],
        *(w for extra in project["optional-dependencies"].values() for w in extra),
    ]
    wanted_names = {re.sub(r"[-_.]+", "-", re.split(r"[\[<>=! ]", line)[0]).lower() for line in requirements}
    assert wanted_names - names == set()


def test_no_file_names_a_package_registry() -> None:
    hosts = re.compile(
        rb"pypi\.o" rb"rg|python" rb"hosted|registry\.npm" rb"js|deb\.deb" rb"ian|download\.pyt" rb"orch", re.IGNORECASE
    )
    assert [str(path) for path in _tracked() if path.is_file() and hosts.search(path.read_bytes())] == []


def test_every_dependency_has_its_reason() -> None:
    decisions = (ROOT / "infra" / "DECISIONS.md").read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    requirements = [
        *project["dependencies"],
        *(w for extra in project["optional-dependencies"].values() for w in extra),
    ]
    names = {re.split(r"[\[<>=! ]", line)[0] for line in requirements}
    assert {name for name in names if name not in decisions and not name.startswith("types-")} == set()


def test_every_module_of_sweeps_has_its_layer_in_the_import_contract() -> None:
    # The contract of `workers` is `exhaustive`; this one holds two packages, which import-linter allows no exhaustive
    # one.
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]
    layered = [name for layer in contract["layers"] for name in layer.split(" | ")]
    modules = {path.stem for path in (ROOT / "sweeps").glob("[!_]*.py")}
    modules |= {path.parent.name for path in (ROOT / "sweeps").glob("*/__init__.py")}
    assert sorted(layered) == sorted({f"sweeps.{name}" for name in modules} | {"workers", "dashboard"})


def test_decisions_name_only_modules_that_there_are() -> None:
    decisions = (ROOT / "infra" / "DECISIONS.md").read_text()
    tracked = {path.relative_to(ROOT).as_posix() for path in _tracked()}
    modules = {path.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for path in tracked}
    missing = []
    for named in re.findall(r"`((?:sweeps|workers|dashboard|tests|infra)[./][\w./]+)`", decisions):
        path = named.rstrip("/")
        is_file = path in tracked or any(file.startswith(f"{path}/") for file in tracked)
        # The last part of a dotted name may stand in the module: `sweeps.stats.stable`.
        if not is_file and not modules & {named, named.rpartition(".")[0]}:
            missing.append(named)
    assert missing == []


def test_only_the_shared_modules_lock_files_and_open_databases() -> None:
    # Lint says so too, but not in modules that may import mlflow or another package of one adapter.
    users = {
        path.relative_to(ROOT).as_posix()
        for path in files_of(*PACKAGES)
        for node in nodes_of(path)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and (node.value.id, node.attr) in (("fcntl", "flock"), ("sqlite3", "connect"))
    }
    assert users == {"sweeps/locks.py", "sweeps/sqlite_file.py"}


def _first_party(statement: ast.AST) -> bool:
    match statement:
        case ast.Import(names=names):
            return any(name.name.partition(".")[0] in PACKAGES for name in names)
        case ast.ImportFrom(module=str(module)):
            return module.partition(".")[0] in PACKAGES
    return False


def test_first_party_imports_stand_at_the_top_of_their_module_with_few_exceptions() -> None:
    inside = []
    for path in files_of(*PACKAGES):
        functions = [node for node in nodes_of(path) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        # Lines are counted once: an import in a function of a function is found twice.
        lines = {node.lineno for function in functions for node in ast.walk(function) if _first_party(node)}
        inside += [f"{path.relative_to(ROOT)}:{line}" for line in sorted(lines)]
    assert len(inside) <= 30, "\n".join(inside)


def test_modules_are_imported_by_name_only_in_registries_and_for_the_user_s_models() -> None:
    naming = {
        path.relative_to(ROOT).as_posix()
        for path in files_of(*PACKAGES)
        if "import_module" in path.read_text(encoding="utf-8")
    }
    assert {name for name in naming if Path(name).name != "registry.py"} == {
        "sweeps/cli/main.py",
        "workers/forks/server.py",  # imports what a user's model needs, before the process is forked
        "workers/models/model_code.py",
    }


def test_the_name_of_a_test_has_at_most_80_letters() -> None:
    sources = {path: path.read_text(encoding="utf-8") for path in files_of("tests")}
    names = {
        f"{path.relative_to(ROOT)}: {name}"
        for path, source in sources.items()
        for name in re.findall(r"^ *(?:async )?def (test_\w+)\(", source, re.MULTILINE)
        if len(name) > 80
    }
    assert names == set()
