"""EdgeSweep installed from its wheel, outside any checkout: an environment of its own that has the dependencies."""

import os
import subprocess
import sys
import venv
from pathlib import Path

import click
import pytest

from sweeps.pages import PAGES

pytestmark = pytest.mark.system

ROOT = Path(__file__).parents[2]


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
    # Everything else is as in this environment: after the wheel's own packages, and without following its links back.
    (there / "others.pth").write_text(f"{Path(click.__file__).parents[1]}\n")
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "--python", str(folder / "env/bin/python"), "install", "--quiet"),
            *("--no-deps", "--no-index", "--ignore-installed", str(wheel)),
        ],
        check=True,
        capture_output=True,
    )
    return folder / "env"


def edgesweep(installed: Path, where: Path, *words: str) -> str:
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    found = subprocess.run(
        [str(installed / "bin/edgesweep"), *words], cwd=where, env=kept, capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stderr
    return found.stdout


def test_it_runs_from_the_wheel_s_own_files(installed: Path, tmp_path: Path) -> None:
    asked = "import sweeps, workers, dashboard; print(sweeps.__file__, workers.__file__, dashboard.__file__)"
    found = subprocess.run(
        [str(installed / "bin/python"), "-c", asked], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert all(path.startswith(str(installed)) for path in found.stdout.split())


def test_the_wheel_carries_the_pins_and_every_page_that_messages_point_to(installed: Path, tmp_path: Path) -> None:
    assert edgesweep(installed, tmp_path, "constraints") == (ROOT / "infra/constraints.txt").read_text("utf-8")
    for name in PAGES:
        assert (
            edgesweep(installed, tmp_path, "explain", name).strip() == (ROOT / f"infra/{name}.md").read_text().strip()
        )


def test_a_sweep_is_planned_measured_and_reported_from_the_wheel(installed: Path, tmp_path: Path) -> None:
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
