"""A phone that adb lists as ready and that answers nothing, or too slowly."""

from collections.abc import Callable
from pathlib import Path

import pytest

from sweeps.errors import ABSENT_KINDS, DeviceError
from tests.workers.devices.adb.scripted_phone import ScriptedHost, scripted
from workers.devices.adb import phone_connection
from workers.devices.adb.device import AdbDevice

ROOMY = b"/dev/x 100 50 99999999 50% /data\n"


def silent(command: str) -> None:
    """Whatever it is asked."""


def breaking(command: str) -> bytes:
    raise ConnectionResetError


def kind_of(call: Callable[[], object]) -> str:
    with pytest.raises(DeviceError, match="R58M") as caught:
        call()
    return caught.value.kind


@pytest.mark.parametrize(
    "call",
    [
        lambda device, file: device.facts(),
        lambda device, file: device.sensors(),
        lambda device, file: device.boot_id(),
        lambda device, file: device.end_orphans(),
        lambda device, file: device.push(file, "model"),
        lambda device, file: device.pull("/data/local/tmp/edgesweep/run/logits", file.with_name("logits"), 1000),
        lambda device, file: device.remove("/data/local/tmp/edgesweep/run/model"),
        lambda device, file: device.run(["true"], 5),
    ],
    ids=["facts", "sensors", "boot", "orphans", "push", "pull", "remove", "first contact"],
)
def test_a_phone_that_answers_no_question_is_away(call: Callable[[AdbDevice, Path], object], tmp_path: Path) -> None:
    file = tmp_path / "model"
    file.write_bytes(b"any")
    kind = kind_of(lambda: call(scripted(silent, answer_s=0.2), file))
    assert kind == "unresponsive"
    assert kind in ABSENT_KINDS


def test_a_connection_that_breaks_in_a_question_is_no_job_s_failure() -> None:
    assert kind_of(scripted(breaking).sensors) == "unresponsive"


def test_a_phone_that_is_unplugged_in_a_question_is_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ScriptedHost, "devices", lambda self: ())
    assert kind_of(scripted(breaking).sensors) == "offline"


def test_a_program_that_takes_too_long_is_the_job_s_own() -> None:
    kind = kind_of(lambda: scripted(lambda command: None if "exec " in command else b"", answer_s=2.0).run(["x"], 0.2))
    assert kind == "timeout"
    assert kind not in ABSENT_KINDS


@pytest.mark.parametrize(("hangs", "kind"), [(True, "unresponsive"), (False, "timeout")])
def test_a_file_that_takes_too_long_is_told_apart_from_a_phone_that_hangs(
    hangs: bool, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(phone_connection, "_SLOWEST_BYTES_PER_S", 1e9)
    commands: list[str] = []

    def answer(command: str) -> bytes | None:
        commands.append(command)
        if "df -k" in command:
            return ROOMY
        return None if hangs and any(not sent_command for sent_command in commands) else b""

    file = tmp_path / "model"
    file.write_bytes(b"any")
    assert kind_of(lambda: scripted(answer, answer_s=1.0).push(file, "model")) == kind
