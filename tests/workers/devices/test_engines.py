"""The engines of this machine's torch are known without importing it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from workers.devices.engines import torch_and_engines

SPECS = Path(__file__).parents[3] / "sweeps/specs"
PLAN = """
import sys
from sweeps.cli.main import main
try:
    main()
finally:
    print([name for name in ("torch", "sklearn", "scipy", "pandas", "mlflow", "ray") if name in sys.modules])
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EDGESWEEP_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def plan(tmp_path: Path, spec: Path) -> tuple[dict[str, object], list[str]]:
    """The plan as a document, and the slow libraries that it took."""
    argv = [sys.executable, "-c", PLAN, "plan", "--json", "--workspace", str(tmp_path / "workspace"), str(spec)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, cwd=tmp_path, check=True)
    *document, imported = done.stdout.strip().splitlines()
    planned = json.loads("\n".join(document))
    del planned["machine"]  # this is its load just now
    return planned, json.loads(imported.replace("'", '"'))


def test_what_torch_says_of_itself_is_kept_for_the_next_process(cache: Path) -> None:
    engines = tuple(sorted(set(torch.backends.quantized.supported_engines) - {"none"}))
    assert torch_and_engines("a CPU") == (torch.__version__, engines)
    [cached] = (cache / "torch").iterdir()
    assert json.loads(cached.read_text()) == {"version": torch.__version__, "engines": list(engines)}
    torch_and_engines("another CPU")
    assert len(list((cache / "torch").iterdir())) == 2


def test_a_damaged_cache_is_written_again(cache: Path) -> None:
    before = torch_and_engines("a CPU")
    [cached] = (cache / "torch").iterdir()
    cached.write_text('{"version": 1, "engines": "x86"}')
    assert torch_and_engines("a CPU") == before
    assert json.loads(cached.read_text())["version"] == torch.__version__


def test_the_second_plan_imports_no_torch_and_is_the_first_one_s(cache: Path, tmp_path: Path) -> None:
    first, imported = plan(tmp_path, SPECS / "demo.yaml")
    assert imported == ["torch"]
    assert plan(tmp_path, SPECS / "demo.yaml") == (first, [])
