"""Captures, by what stands in for perfetto, simpleperf and gatord: on this machine, which is enough for the script."""

import os
from pathlib import Path

import psutil
import pytest

from sweeps.errors import DeviceError, EdgeSweepError, RunnerError
from workers.devices.local import LocalDevice
from workers.devices.virtual_phone.adbd import PARTS
from workers.measure import device_capture
from workers.measure.device_capture import CAPTURES, SCRIPT

HOSTILE = ("it's", "$(touch /tmp/evil)", "a  b")
SAYS = ["sh", "-c", 'printf "%s|" "$@"; echo err >&2; exit 3', "_", *HOSTILE]
# Stands in for Arm's gatord, which records into a folder what the program does that it starts: records nothing.
GATORD = """#!/bin/sh
[ "$1 $3 $5" = "-o -t -A" ] || exit 1
made=$2
shift 5
mkdir "$made"
echo "a stand-in for gatord wrote this: nothing was recorded" >"$made/captured.xml"
echo "what it says goes nowhere"
"$@"
"""


@pytest.fixture
def device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalDevice:
    monkeypatch.setenv("PATH", f"{PARTS / 'bin'}:{os.environ['PATH']}")
    return LocalDevice(tmp_path)


def left(tmp_path: Path) -> set[str]:
    return {path.name.partition("-")[0] for path in (tmp_path / "run").iterdir()}


@pytest.mark.parametrize("name", [*CAPTURES])
def test_a_program_tells_the_same_with_a_capture_and_the_recording_is_pulled(
    device: LocalDevice, tmp_path: Path, name: str
) -> None:
    own = None
    if name == "gatord":
        own = tmp_path / "gatord"
        own.write_text(GATORD)
        own.chmod(0o755)
    program = device_capture.prepared(device, CAPTURES[name], own)
    target = tmp_path / "recorded"
    done = device_capture.run(device, CAPTURES[name], program, SAYS, 30.0, target)
    assert done.stdout == "".join(f"{word}|" for word in HOSTILE).encode()
    assert (done.exit_code, done.stderr) == (3, b"err\n")
    assert b"nothing was recorded" in target.read_bytes()
    assert left(tmp_path) == {"captured.sh"} | ({"gatord"} if own else set())


@pytest.mark.parametrize(("name", "program"), [("perfetto", "false"), ("simpleperf", "true"), ("simpleperf", "nosuch")])
def test_a_capture_that_records_nothing_is_an_error(
    device: LocalDevice, tmp_path: Path, name: str, program: str
) -> None:
    with pytest.raises(RunnerError, match=f"{name} recorded nothing") as caught:
        device_capture.run(device, CAPTURES[name], program, SAYS, 30.0, tmp_path / "recorded")
    assert caught.value.kind == "no_profile"
    assert left(tmp_path) == {"captured.sh"}


@pytest.mark.parametrize("name", ["perfetto", "simpleperf"])
def test_nothing_of_a_capture_outlives_its_deadline(device: LocalDevice, tmp_path: Path, name: str) -> None:
    with pytest.raises(DeviceError) as caught:
        device_capture.run(device, CAPTURES[name], name, ["sleep", "77777"], 0.7, tmp_path / "recorded")
    assert caught.value.kind == "timeout"
    assert left(tmp_path) == {"captured.sh"}
    lines = {process: " ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"])}
    own = [process for process, line in lines.items() if str(tmp_path) in line or line == "sleep 77777"]
    assert not psutil.wait_procs(own, timeout=10)[1]


def test_a_phone_without_the_program_says_what_to_give(
    device: LocalDevice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(EdgeSweepError) as caught:
        device_capture.prepared(device, CAPTURES["gatord"], None)
    assert "--capture gatord=PATH" in caught.value.next_step
    with pytest.raises(EdgeSweepError, match="is no file"):
        device_capture.prepared(device, CAPTURES["gatord"], tmp_path / "none")
    # A shell on a phone says it by this exit code.
    monkeypatch.setattr(LocalDevice, "run", lambda *_: device_capture.Completed(exit_code=127, stdout=b"", stderr=b""))
    with pytest.raises(EdgeSweepError, match="has no perfetto") as caught:
        device_capture.prepared(device, CAPTURES["perfetto"], None)
    assert "Android 9" in caught.value.next_step


def test_the_script_is_sent_with_the_package() -> None:
    assert SCRIPT.is_file()
