"""Nothing of a run that EdgeSweep starts for itself can be reached from other computers or reaches them, and it needs
little of its own one."""

import json
import os
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.conftest import EDGESWEEP, OWN_NET
from tests.outside import sent_outside, traced
from tests.sockets import listening
from workers.executors.loopback import AUTH_MODE, TOKEN, TOKEN_PATH

RUNTIMES = ("torchscript", "executorch", "onnxruntime")
pytestmark = [pytest.mark.system, pytest.mark.ray, pytest.mark.strace, pytest.mark.runtime(*RUNTIMES)]

SWEEP = f"""
name: quiet
models:
  - {{source: "my_net:make_net", arguments: {{classes: 4}}, weights: random, input_shape: [1, 3, 16, 16], name: tiny}}
data:
  calibration: {{source: synthetic, images: 8, seed: 1}}
  evaluation: {{source: synthetic, images: 8, seed: 2}}
grids:
  - {{precision: [fp32], layout: [nchw], threads: [1], runtime: [{", ".join(RUNTIMES)}]}}
devices: [fake:steady]
protocol: {{preset: quick, gate: none, rounds: 3, warmup_seconds: 0.1, min_seconds: 0.1, iterations: 3}}
"""
BARE = {"PATH": os.environ["PATH"], "LC_ALL": "C", "TERM": "dumb"}
"""No home, no letters beyond ASCII, no terminal that draws."""


def test_a_default_run_stays_on_loopback_needs_no_home_and_its_ray_wants_a_token(
    tmp_path: Path,
) -> None:
    (tmp_path / "my_net.py").write_text(OWN_NET)
    (tmp_path / "sweep.yaml").write_text(SWEEP)
    found: set[tuple[str, str]] = set()
    tokens: set[tuple[str | None, int]] = set()
    with (tmp_path / "log").open("wb") as log, (tmp_path / "ranked").open("wb") as ranked:
        run = subprocess.Popen(
            [*traced(tmp_path / "calls"), EDGESWEEP, "run", "sweep.yaml", "--workspace", "results", "--json"],
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            stdout=ranked,
            stderr=log,
            env=BARE | {AUTH_MODE: "disabled"},  # nobody switches the token off
        )
        while run.poll() is None:
            with suppress(psutil.Error):  # a process may end while it is looked at
                for process in psutil.Process(run.pid).children(recursive=True):
                    found |= {(process.name(), address) for address in listening(process)}
                    if process.name() == "raylet":
                        about = process.environ()
                        tokens.add((about.get(AUTH_MODE), Path(about[TOKEN_PATH]).stat().st_mode & 0o777))
                        assert TOKEN not in about
            time.sleep(0.1)
    assert run.returncode == 0, (tmp_path / "log").read_text()
    assert len(json.loads((tmp_path / "ranked").read_text())["devices"][0]["ranking"]) == len(RUNTIMES)
    assert sent_outside(tmp_path / "calls") == []
    assert {"gcs_server", "raylet"} <= {name for name, _ in found}, "it was looked at while Ray ran"
    assert {address for _, address in found} <= {"127.0.0.1", "::ffff:127.0.0.1", "::1"}, found
    assert tokens == {("token", 0o600)}
