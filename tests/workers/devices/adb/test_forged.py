"""Processes on a phone whose words look like lines of the list that they are found in."""

import re

import pytest

from sweeps.errors import DeviceError
from tests.workers.devices.adb.scripted_phone import scripted
from workers.devices.adb.attempt import ATTEMPTS
from workers.devices.adb.phone_connection import PhoneConnection

LEADER = f"sh\0-c\0trap '' HUP; d={ATTEMPTS}/0f-1; true\0"
RUNNER = "/data/local/tmp/edgesweep/run/runner-0f0f0f0f0f0f0f0f\0--model\0m.pt\0"


class Phone:
    """`kills` are the targets of what was sent to it."""

    def __init__(self, processes: dict[int, str]) -> None:
        self._processes = processes
        self.kills: list[str] = []

    def __call__(self, command: str) -> bytes | int:
        self.kills += re.findall(r"kill -s KILL -- (-?\d+)", command)
        if match := re.search(r"cat /proc/(\d+)/cmdline", command):
            return self._processes.get(int(match[1]), "").encode()
        if "/proc/[0-9]*/cmdline" in command:
            return "".join(f"/proc/{pid}/cmdline:{words}\n" for pid, words in self._processes.items()).encode()
        return b""


@pytest.mark.parametrize("words", [LEADER, RUNNER])
@pytest.mark.parametrize("pid", [0, 1, 2, 300, 999])
def test_a_line_within_a_word_ends_no_process(words: str, pid: int) -> None:
    phone = Phone({2: "adbd\0", 300: "sh\0", 400: f"evil\0\n/proc/{pid}/cmdline:{words}\n\0"})
    assert scripted(phone).end_orphans() == ()
    assert phone.kills == []


def test_what_leads_an_attempt_or_was_brought_is_ended() -> None:
    phone = Phone({300: "sh\0", 400: LEADER, 500: RUNNER, 600: f"evil\0\n/proc/300/cmdline:{LEADER}"})
    assert len(scripted(phone).end_orphans()) == 2
    assert phone.kills == ["-400", "500"]


def test_a_thousand_forged_lines_take_few_exchanges(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    sections = PhoneConnection.sections

    def counted(link: PhoneConnection, *commands: str) -> list[str]:
        sizes.append(len(commands))
        return sections(link, *commands)

    monkeypatch.setattr(PhoneConnection, "sections", counted)
    lines = "".join(f"/proc/{pid}/cmdline:{RUNNER}\n" for pid in range(1000, 2000))
    assert scripted(Phone({400: f"evil\0\n{lines}\0"})).end_orphans() == ()
    assert sum(sizes) > 1000
    assert len(sizes) <= 12


@pytest.mark.parametrize("words", [LEADER, RUNNER])
def test_the_first_process_is_never_ended_whatever_it_is_called(words: str) -> None:
    phone = Phone({1: words})
    with pytest.raises(DeviceError) as caught:
        scripted(phone).end_orphans()
    assert caught.value.kind == "orphan"
    assert phone.kills == []


@pytest.mark.parametrize("pid", ["0", "1", "00", "01", "9" * 10, "٣", "-1"])
def test_what_was_lost_is_ended_by_no_id_that_names_others(pid: str) -> None:
    class Lost(Phone):
        def __call__(self, command: str) -> bytes | int | None:
            if "exec " in command:
                return None
            if "/started" in command:
                return f"{pid} boot\n".encode()
            return b"boot\n" if "boot_id" in command else super().__call__(command)

    phone = Lost({})
    with pytest.raises(DeviceError):
        scripted(phone).run(["runner"], 0.2)
    assert phone.kills == []
