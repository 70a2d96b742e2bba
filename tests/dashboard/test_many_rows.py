"""The pages and `edgesweep rank` over 100,000 results."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from sweeps.workspace import Workspace
from tests.benchmarks.many_results import MODELS, SWEEP, VARIANTS, make

ROWS = 100_000
DEVICES = ROWS // (VARIANTS * MODELS)


@pytest.mark.suite
@pytest.mark.timeout(3600)  # making them takes six minutes, on a busy machine many more
@pytest.mark.fault(53, "100,000 results of one sweep, 200 devices", "Fleet and Decide open, `rank` answers")
def test_100_000_results_open(
    tmp_path: Path,
    page: Callable[..., AppTest],
    edgesweep: Callable[..., "subprocess.CompletedProcess[str]"],
) -> None:
    make(Workspace(tmp_path), ROWS)
    fleet = page(tmp_path, "fleet")
    assert not fleet.exception
    [sweeps] = fleet.dataframe
    places = DEVICES * MODELS
    [decided] = sweeps.value["Decided"]
    count, of_all = decided.split(" of ")
    assert (0 < int(count) <= places, of_all) == (True, str(places)), "ties and provisional winners are not decided"
    decide = page(tmp_path, "decide", sweep=SWEEP, device="phone-0001", model="net1")
    assert not decide.exception
    assert decide.header[0].value.startswith("fp32 · NCHW · ")
    summary = edgesweep("rank", "--workspace", str(tmp_path))
    assert summary.returncode == 0
    assert f"phone-{DEVICES - 1:04}" in summary.stdout
    result = edgesweep("rank", "--workspace", str(tmp_path), "--device", f"phone-{DEVICES - 1:04}")
    assert result.returncode == 0
    assert f"net{MODELS - 1}" in result.stdout
