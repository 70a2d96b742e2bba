"""EdgeSweep installed from its wheel, outside any checkout: an environment of its own with what the wheel asks for."""

import os
import subprocess
import sys
import venv
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from sweeps.pages import PAGES

pytestmark = pytest.mark.system

ROOT = Path(__file__).parents[2]
EXTRAS = {"workers", "dashboard"}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The environment's folder."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (wheel,) = folder.glob("*.whl")
    venv.create(folder / "env", with_pip=False)
    there = folder / "env/lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "--python", str(folder / "env/bin/python"), "install", "--quiet"),
            *("--no-deps", "--no-index", "--ignore-installed", str(wheel)),
        ],
        check=True,
        capture_output=True,
    )
    (own,) = metadata.distributions(name="edgesweep", path=[str(there)])
    for distribution in asked_for(own, EXTRAS):
        for file in distribution.files or ():
            top = file.parts[0]
            if top not in ("..", "__pycache__") and not (there / top).is_symlink():
                (there / top).symlink_to(Path(str(distribution.locate_file(top))))
    return folder / "env"


def asked_for(own: metadata.Distribution, extras: set[str]) -> list[metadata.Distribution]:
    """What pip installs with these extras, each as it is here: not what a developer has besides."""
    found: dict[tuple[str, frozenset[str]], metadata.Distribution] = {}
    waiting = [(own, extras)]
    while waiting:
        asking, its_extras = waiting.pop()
        for need in map(Requirement, asking.requires or ()):
            if need.marker is None or any(need.marker.evaluate({"extra": extra}) for extra in its_extras | {""}):
                key = need.name, frozenset(need.extras)
                if key not in found:
                    found[key] = metadata.distribution(need.name)
                    waiting.append((found[key], need.extras))
    return [*found.values()]


def kept() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def edgesweep(installed: Path, where: Path, *words: str) -> str:
    found = subprocess.run(
        [str(installed / "bin/edgesweep"), *words], cwd=where, env=kept(), capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stderr
    return found.stdout


def test_it_runs_from_the_wheel_s_own_files(installed: Path, tmp_path: Path) -> None:
    asked = "import sweeps, workers, dashboard; print(sweeps.__file__, workers.__file__, dashboard.__file__)"
    found = subprocess.run(
        [str(installed / "bin/python"), "-c", asked], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert all(path.startswith(str(installed)) for path in found.stdout.split())


def test_what_only_developers_have_is_not_there(installed: Path) -> None:
    asked = "import importlib.util; print(*map(importlib.util.find_spec, ('pytest', 'playwright', 'onnxruntime')))"
    found = subprocess.run([str(installed / "bin/python"), "-c", asked], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["None"] * 3


def test_the_wheel_has_every_file_of_the_packages(installed: Path) -> None:
    asked = ["git", "ls-files", "-z", "sweeps", "workers", "dashboard"]
    tracked = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    (there,) = installed.glob("lib/python*/site-packages")
    assert len(tracked) > 300
    assert [name for name in tracked if name and not (there / name).is_file()] == []


def test_the_wheel_carries_the_pins_and_every_page_that_messages_point_to(installed: Path, tmp_path: Path) -> None:
    assert edgesweep(installed, tmp_path, "constraints") == (ROOT / "infra/constraints.txt").read_text("utf-8")
    for name in PAGES:
        assert (
            edgesweep(installed, tmp_path, "explain", name).strip() == (ROOT / f"infra/{name}.md").read_text().strip()
        )


DASHBOARD = """
import sys
from pathlib import Path
from streamlit.testing.v1 import AppTest
from dashboard.launch import APP, serving
with serving(Path("edgesweep-data")):
    sys.argv = [str(APP), "--workspace", "edgesweep-data"]
    shown = AppTest.from_file(str(APP), default_timeout=60).run()
assert not shown.exception, shown.exception
"""


def test_a_sweep_is_planned_measured_and_shown_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "sweep.yaml").write_text(
        "name: tiny\n"
        "models: [{source: mobilenet_v2, weights: random, input_shape: [1, 3, 32, 32]}]\n"
        "data: {calibration: {source: synthetic}, evaluation: {source: synthetic, images: 8}}\n"
        "grids: [{precision: [fp32]}]\n"
        "protocol: {preset: quick, rounds: 2, min_seconds: 0.1}\n"
        "objective: {minimize: latency_p50_ms, constraints: []}\n"
    )
    assert "tiny" in edgesweep(installed, tmp_path, "plan", "sweep.yaml")
    edgesweep(installed, tmp_path, "run", "sweep.yaml", "--executor", "inline")
    edgesweep(installed, tmp_path, "report", "--html", "out.html")
    assert "tiny" in (tmp_path / "out.html").read_text("utf-8")
    shown = subprocess.run(
        [str(installed / "bin/python"), "-c", DASHBOARD], cwd=tmp_path, env=kept(), capture_output=True, text=True
    )
    assert shown.returncode == 0, shown.stderr
    assert "virtual phones" in edgesweep(installed, tmp_path, "doctor")


@pytest.mark.usefixtures("port")
def test_virtual_phones_come_up_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    words = [str(installed / "bin/edgesweep"), "virtual-phone", "up", "--count", "1"]
    with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as up:
        try:
            assert up.stdout is not None
            name = up.stdout.readline().strip()
            assert name.startswith("adb:")
            assert name in edgesweep(installed, tmp_path, "devices", "--json")
        finally:
            up.terminate()
            up.wait(timeout=60)
