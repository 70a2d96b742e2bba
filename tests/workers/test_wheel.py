"""EdgeSweep installed from its wheel, outside any checkout: an environment of its own with what the wheel asks for."""

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
import venv
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from sweeps.pages import PAGES
from tests.demo_weights import demo_weights
from tests.free_port import free_port

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
from dashboard.web_server import APP, serving
with serving(Path("edgesweep-data")):
    sys.argv = [str(APP), "--workspace", "edgesweep-data"]
    shown = AppTest.from_file(str(APP), default_timeout=60).run()
assert not shown.exception, shown.exception
"""


@pytest.mark.compiler
def test_the_demo_is_planned_measured_and_shown_from_the_wheel(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own sweep file with fewer variants, each of another part: PyTorch's two kinds of kernels, and the wheel's
    sources, which are compiled to check NNAPI. `edgesweep demo` is `run` of that file; all of it takes minutes."""
    monkeypatch.setenv("EDGESWEEP_CACHE", str(tmp_path / "compiled"))
    (demo,) = installed.glob("lib/python*/site-packages/sweeps/specs/demo.yaml")
    head, _, _ = demo.read_text("utf-8").partition("grids:\n")
    (tmp_path / "sweep.yaml").write_text(
        head.replace("evaluation: {source: digits}", "evaluation: {source: digits, images: 60}") + "grids:\n"
        "  - {precision: [fp32, int8], layout: [nhwc], capture: [trace]}\n"
        "  - {precision: [fp32], layout: [nhwc], backend: [nnapi]}\n"
        "protocol: {preset: quick, rounds: 2, warmup_seconds: 0.05, min_seconds: 0.1, gate: none}\n"
        "objective: {minimize: latency_p50_ms, constraints: []}\n"
    )
    assert "13 jobs" in edgesweep(installed, tmp_path, "plan", str(demo))
    demo_weights(tmp_path / "edgesweep-data")
    edgesweep(installed, tmp_path, "run", "sweep.yaml", "--executor", "inline")
    (ranked,) = json.loads(edgesweep(installed, tmp_path, "rank", "--json"))["devices"]
    assert [len(ranked[name]) for name in ("ranking", "checked", "not_ranked")] == [2, 1, 0]
    assert list((tmp_path / "compiled").rglob("libneuralnetworks.so"))
    edgesweep(installed, tmp_path, "export")
    assert (tmp_path / "shipped/model.pt").stat().st_size > 100_000
    edgesweep(installed, tmp_path, "report", "--html", "out.html")
    assert "digits-mobilenet" in (tmp_path / "out.html").read_text("utf-8")
    shown = subprocess.run(
        [str(installed / "bin/python"), "-c", DASHBOARD], cwd=tmp_path, env=kept(), capture_output=True, text=True
    )
    assert shown.returncode == 0, shown.stderr
    assert "virtual phones" in edgesweep(installed, tmp_path, "doctor")


def test_the_dashboard_is_served_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    port = free_port()
    words = [str(installed / "bin/edgesweep"), "dashboard", "--port", str(port)]
    with subprocess.Popen(words, cwd=tmp_path, env=kept(), stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            address = next(line for line in server.stderr if "/enter?token=" in line).split()[-1]
            assert served(f"http://127.0.0.1:{port}/_stcore/health") == "ok"
            assert "<title>" in served(address)
        finally:
            server.terminate()
            server.communicate(timeout=60)


def served(address: str) -> str:
    """What is answered there, once it is up. Raises `OSError` if it does not come up."""
    deadline = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(address, timeout=60) as answer:
                return answer.read().decode()
        except urllib.error.HTTPError:
            raise
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


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
