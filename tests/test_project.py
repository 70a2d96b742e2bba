"""What the repository promises about itself."""

import re
import subprocess
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def _tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in listed.split("\0") if name]


def test_every_dependency_is_pinned_to_one_version() -> None:
    pins = (ROOT / "infra" / "constraints.txt").read_text().splitlines()
    assert [line for line in pins if not re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.+!]+", line)] == []
    names = {re.sub(r"[-_.]+", "-", line.split("==")[0]).lower() for line in pins}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *(w for extra in project["optional-dependencies"].values() for w in extra)]
    wanted_names = {re.sub(r"[-_.]+", "-", re.split(r"[\[<>=! ]", line)[0]).lower() for line in wanted}
    assert wanted_names - names == set()


def test_no_file_names_a_package_registry() -> None:
    hosts = re.compile(
        rb"pypi\.o" rb"rg|python" rb"hosted|registry\.npm" rb"js|deb\.deb" rb"ian|download\.pyt" rb"orch", re.IGNORECASE
    )
    assert [str(path) for path in _tracked() if path.is_file() and hosts.search(path.read_bytes())] == []


def test_every_dependency_has_its_reason() -> None:
    decisions = (ROOT / "infra" / "DECISIONS.md").read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *(w for extra in project["optional-dependencies"].values() for w in extra)]
    names = {re.split(r"[\[<>=! ]", line)[0] for line in wanted}
    assert {name for name in names if name not in decisions and not name.startswith("types-")} == set()


def test_a_module_above_500_lines_is_explained() -> None:
    decisions = (ROOT / "infra" / "DECISIONS.md").read_text()
    for package in ("sweeps", "workers", "dashboard"):
        for path in (ROOT / package).rglob("*.py"):
            if len(path.read_text().splitlines()) > 500:
                assert path.relative_to(ROOT).as_posix() in decisions, path
