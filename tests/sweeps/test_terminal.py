"""Tables as a person gets them on stdout."""

import math

import pandas as pd
import pytest

from sweeps.metrics import METRICS
from sweeps.protocol import TRUST
from sweeps.rank import rank
from sweeps.spec import ObjectiveSpec
from sweeps.terminal import print_ranking


def test_a_trust_label_of_another_version_is_shown_and_called_so(capsys: pytest.CaptureFixture[str]) -> None:
    row = {
        "sweep": "s",
        "job_key": "k",
        "build_key": "b",
        "name": "net · fp32",
        "variant": "cpu fp32",
        "model": "net",
        "device_id": "unit-1",
        "device": "Maker Phone (SoC)",
        "fingerprint": "f1",
        "preset": "quick",
        "runtime_version": "2.12.1",
        "exec_context": "shell",
        "outcome": "measured",
        "stage": None,
        "kind": None,
        "reason": None,
        "emulated": False,
        "stale": False,
        "trust": ("ungated", "haunted"),
        "block_medians_ms": ((0, 10.0), (1, 10.1), (2, 9.9)),
        **dict.fromkeys(METRICS, math.nan),
        "latency_p50_ms": 10.0,
    }
    print_ranking(rank(pd.DataFrame([row]), ObjectiveSpec(constraints=()), "s"))
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert "haunted (1 of 1): not a label of this version" in lines
    assert any(line.startswith(f"ungated (1 of 1): {TRUST['ungated'].advice[:40]}") for line in lines)
    assert any("disqualified" in line for line in lines)
