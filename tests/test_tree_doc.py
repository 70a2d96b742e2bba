"""infra/tree.md has every folder in the order of the data, and every module says what it is."""

import re
import runpy
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def tree_text() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "infra" / "tree_text.py"))


def test_every_module_says_what_it_is(tree_text: dict[str, Any]) -> None:
    modules = [path for package in tree_text["PACKAGES"] for path in (ROOT / package).rglob("[!_]*.py")]
    modules += [path for kind in ("*.cpp", "*.h") for path in (ROOT / "workers").rglob(kind)]
    assert len(modules) > 150
    assert [str(path) for path in modules if not re.fullmatch(r"\S.*[.:?]", tree_text["sentence"](path))] == []


def test_the_tree_has_every_folder_of_the_repository(tree_text: dict[str, Any]) -> None:
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    top = {f"{name.partition('/')[0]}/" for name in tracked.split("\0") if "/" in name and not name.startswith(".")}
    assert top <= {f"{package}/" for package in tree_text["PACKAGES"]} | tree_text["OTHER_FOLDERS"].keys()
    assert all((ROOT / folder).is_dir() for folder in tree_text["OTHER_FOLDERS"])


def write_packages(root: Path, docstrings: dict[str, str]) -> None:
    for folder in ("sweeps", "workers", "dashboard"):
        docstrings = {folder: f"All of {folder}.", **docstrings}
    for folder, text in docstrings.items():
        (root / folder).mkdir(parents=True, exist_ok=True)
        (root / folder / "__init__.py").write_text(f'"""{text}"""\n' if text else "")
        (root / folder / "some_module.py").write_text('"""Something."""\n')


def test_the_tree_has_the_folders_in_the_order_of_the_data(tree_text: dict[str, Any], tmp_path: Path) -> None:
    docstrings = {
        "dashboard": "Draws.\n\nStep: dashboard\n",
        "sweeps/journal": "Keeps. And more.\n\nStep: journal\n",
        "sweeps/spec": "Reads.\n\nStep: spec\nStart: some_module\n",
        "workers/runtimes": "Builds.\n\nStep: build\n",
        "workers/runtimes/inner": "Builds a part.",
    }
    write_packages(tmp_path, docstrings)
    lines = [line for line in tree_text["tree"](tmp_path).splitlines() if "/" in line]
    assert [line.split() for line in lines if "infra" not in line and "tests" not in line] == [
        ["sweeps/", "All", "of", "sweeps."],
        ["workers/", "All", "of", "workers."],
        ["spec", "sweeps/spec/", "Reads."],
        ["build", "workers/runtimes/", "Builds."],
        ["inner/", "Builds", "a", "part."],
        ["journal", "sweeps/journal/", "Keeps."],
        ["dashboard", "dashboard/", "Draws."],
        ["sweeps/specs/", "Sweep", "files", "that", "run."],
    ]
    assert tree_text["tree"](tmp_path).count("some_module\n") == 7


@pytest.mark.parametrize("text", ["", "Reads.", "Reads.\n\nStep: nowhere\n"])
def test_a_folder_without_a_description_or_a_step_is_refused(
    tree_text: dict[str, Any], tmp_path: Path, text: str
) -> None:
    write_packages(tmp_path, {"sweeps/spec": text})
    with pytest.raises(ValueError, match=r"sweeps/spec/__init__\.py needs a line `Step"):
        tree_text["tree"](tmp_path)


def test_a_folder_inside_another_needs_a_description(tree_text: dict[str, Any], tmp_path: Path) -> None:
    write_packages(tmp_path, {"workers/runtimes": "Builds.\n\nStep: build\n", "workers/runtimes/inner": ""})
    with pytest.raises(ValueError, match=r"inner/__init__\.py does not say what the folder does"):
        tree_text["tree"](tmp_path)
