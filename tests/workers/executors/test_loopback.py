"""Nothing of a run that EdgeSweep starts for itself can be reached from other computers."""

import os
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.conftest import EDGESWEEP, OWN_NET
from tests.sockets import listening
from workers.executors.loopback import AUTH_MODE, TOKEN, TOKEN_PATH

pytestmark = [pytest.mark.system, pytest.mark.ray]

SWEEP = """
name: quiet
models:
  - {source: "my_net:make_net", arguments: {classes: 4}, weights: random, input_shape: [1, 3, 16, 16], name: tiny}
data:
  calibration: {source: synthetic, images: 8, seed: 1}
  evaluation: {source: synthetic, images: 8, seed: 2}
grids:
  - {precision: [fp32], layout: [nchw]}
devices: [fake:steady]
protocol: {preset: quick, gate: none, rounds: 3, warmup_seconds: 0.1, min_seconds: 0.1, iterations: 3}
"""


def test_all_sockets_of_a_default_run_listen_on_loopback_and_its_ray_wants_a_token(tmp_path: Path) -> None:
    (tmp_path / "my_net.py").write_text(OWN_NET)
    (tmp_path / "sweep.yaml").write_text(SWEEP)
    found: set[tuple[str, str]] = set()
    tokens: set[tuple[str | None, int]] = set()
    with (tmp_path / "log").open("wb") as log:
        run = subprocess.Popen(
            [EDGESWEEP, "run", "sweep.yaml", "--workspace", "results"],
            cwd=tmp_path,
            stdout=log,
            stderr=log,
            env={name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
            | {AUTH_MODE: "disabled"},  # nobody switches the token off
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
    assert {"gcs_server", "raylet"} <= {name for name, _ in found}, "it was looked at while Ray ran"
    assert {address for _, address in found} <= {"127.0.0.1", "::ffff:127.0.0.1", "::1"}, found
    assert tokens == {("token", 0o600)}
