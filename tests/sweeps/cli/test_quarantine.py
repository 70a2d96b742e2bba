"""`edgesweep devices quarantine` and `readmit`, and where a quarantine is shown."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from sweeps.quarantine import QuarantineBook
from tests.fresh_mlflow import fresh_mlflow

SWEEP = """
name: kept-out
models:
  - {source: "my_net:make_net", weights: random, input_shape: [1, 3, 32, 32], arguments: {classes: 10}}
data:
  calibration: {source: synthetic, images: 8}
  evaluation: {source: synthetic, images: 8}
grids:
  - {precision: [fp32], layout: [nchw, nhwc]}
devices: ["fake:steady"]
objective: {constraints: []}
"""

Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def folder(own_folder: Path) -> Path:
    (own_folder / "sweep.yaml").write_text(SWEEP)
    return own_folder


def output(ended: subprocess.CompletedProcess[str]) -> str:
    return " ".join(f"{ended.stdout} {ended.stderr}".split())


def test_a_device_is_kept_out_and_let_in_again(folder: Path, edgesweep: Command) -> None:
    put = edgesweep("devices", "quarantine", "fake:steady", "--reason", "battery swells")
    assert put.returncode == 0, put.stderr
    assert "fake:steady is quarantined since" in output(put)
    assert "by a person: battery swells; edgesweep devices readmit lets it in again" in output(put)
    kept_out = QuarantineBook().quarantine("fake-steady")
    assert kept_out is not None
    assert (kept_out.by, kept_out.reason) == ("person", "battery swells")
    back = edgesweep("devices", "readmit", "fake:steady")
    assert "it is let in again" in output(back)
    assert QuarantineBook().quarantine("fake-steady") is None
    again = edgesweep("devices", "readmit", "fake:steady")
    assert (again.returncode, output(again)) == (0, "fake:steady was not quarantined")


def test_an_id_does_as_well_as_a_name_for_a_device_that_is_known(folder: Path, edgesweep: Command) -> None:
    edgesweep("devices", "quarantine", "fake:steady")
    assert "fake:steady was quarantined" in output(edgesweep("devices", "readmit", "fake-steady"))


def test_a_phone_that_is_away_is_let_in_by_its_name(folder: Path, edgesweep: Command) -> None:
    QuarantineBook().put("R58M", "adb:10.0.0.7:5555", "")
    assert "it is let in again" in output(edgesweep("devices", "readmit", "R58M"))


@pytest.mark.parametrize("name", ["fake:nobody", "adb:*", "R58M", "pixel", ""])
def test_a_name_without_a_device_is_refused_with_where_to_look(folder: Path, edgesweep: Command, name: str) -> None:
    for verb in ("quarantine", "readmit"):
        ended = edgesweep("devices", verb, name)
        assert ended.returncode == 1
        assert "next: " in ended.stderr
    assert QuarantineBook().records() == []


def test_who_is_in_quarantine_is_shown_by_plan_status_and_run(folder: Path, edgesweep: Command) -> None:
    fresh_mlflow(folder / "edgesweep-data")
    assert json.loads(edgesweep("plan", "sweep.yaml", "--json").stdout)["quarantined"] == {}
    edgesweep("devices", "quarantine", "fake:steady", "--reason", "hub \x1b[31m")
    ran = edgesweep("run", "sweep.yaml", "--executor", "inline")
    assert ran.returncode == 1, "nothing was measured"
    assert "fake:steady is away (quarantined)" in output(ran)
    assert "Building" not in output(ran)
    for command in (["plan", "sweep.yaml"], ["status"]):
        document = json.loads(edgesweep(*command, "--json").stdout)
        entry = document["quarantined"]["fake-steady"]
        assert (entry["by"], entry["reason"]) == ("person", "hub \x1b[31m")
        shown = edgesweep(*command)
        assert "fake:steady is quarantined since" in output(shown)
        assert "\x1b[31m" not in shown.stdout
    edgesweep("devices", "readmit", "fake:steady")
    assert "quarantined" not in output(edgesweep("status"))
    assert json.loads(edgesweep("status", "--json").stdout)["quarantined"] == {}


def test_the_list_of_devices_says_who_is_in_quarantine_even_if_it_is_not_here(
    folder: Path, edgesweep: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sweeps.cli.devices.registry.units", lambda: ([], []))
    edgesweep("devices", "quarantine", "local", "--reason", "a fan broke")
    QuarantineBook().put("R58M", "adb:R58M", "battery swells")
    document = json.loads(edgesweep("devices", "--json").stdout)
    [local] = document["devices"]
    assert local["quarantine"]["reason"] == "a fan broke"
    [away] = document["quarantined_and_away"]
    assert (away["name"], away["device_id"]) == ("adb:R58M", "R58M")
    shown = output(edgesweep("devices"))
    assert "local is quarantined since" in shown
    assert "adb:R58M, which is not here, is quarantined since" in shown
