"""A part of Ray that is killed in the middle of a run: the run says so, ends, and goes on when it is started again."""

import sqlite3
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from tests.conftest import EDGESWEEP, OWN_NET
from tests.workers.driver_process import GONE_S, words_of

pytestmark = [pytest.mark.system, pytest.mark.ray]

SWEEP = """
name: killed
models:
  - {source: "my_net:make_net", arguments: {classes: 4}, weights: random, input_shape: [1, 3, 16, 16], name: tiny}
data:
  calibration: {source: synthetic, images: 8, seed: 1}
  evaluation: {source: synthetic, images: 8, seed: 2}
grids:
  - {precision: [fp32], layout: [nchw]}
devices: [fake:steady]
protocol: {preset: quick, gate: none, rounds: 3, warmup_seconds: 0.1, min_seconds: 0.5, iterations: 3}
"""
COMMAND = [EDGESWEEP, "run", "sweep.yaml", "--workspace", "results"]
NOTICED_S, START_S = 30.0, 240.0
"""Ray itself notices a lost raylet after 200 s. Of the first, the run's own end is 8 s on an idle machine."""


@pytest.mark.parametrize(("part", "moment"), [("raylet", "Measuring on fake:steady: "), ("gcs_server", "Building ...")])
def test_a_run_whose_ray_loses_a_part_says_which_ends_at_once_and_loses_nothing(
    part: str, moment: str, tmp_path: Path
) -> None:
    (tmp_path / "my_net.py").write_text(OWN_NET)
    (tmp_path / "sweep.yaml").write_text(SWEEP)
    with (tmp_path / "log").open("wb") as log:
        run = subprocess.Popen(COMMAND, cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    deadline = time.monotonic() + START_S
    while moment not in (tmp_path / "log").read_text():
        assert run.poll() is None, (tmp_path / "log").read_text()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    started = psutil.Process(run.pid).children(recursive=True)
    [lost] = [one for one in started if one.name() == part]
    lost.kill()
    try:
        code = run.wait(NOTICED_S)
    finally:
        run.kill()
    assert [words_of(one) for one in psutil.wait_procs(started, timeout=GONE_S)[1]] == []
    said = (tmp_path / "log").read_text()
    assert code == 1, said
    assert f"edgesweep: Ray has ended in the middle of the run: its part {part} is gone\n" in said
    assert "next: run the same command again" in said
    with sqlite3.connect(f"file:{tmp_path / 'results' / 'journal.sqlite'}?mode=ro", uri=True) as journal:
        assert journal.execute("SELECT * FROM attempts WHERE kind = 'failure'").fetchall() == []
    again = subprocess.run([*COMMAND, "--executor", "inline"], cwd=tmp_path, capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
