"""Faults put a device into quarantine, time or a person lets it in again, and neither is forgotten."""

import json
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from sweeps.device_facts import DeviceFacts
from sweeps.errors import StoreError
from sweeps.quarantine import (
    RULE,
    STATE_VARIABLE,
    DeviceRecord,
    Fault,
    Quarantine,
    QuarantineBook,
    Rule,
    after_canary,
    after_fault,
    quarantines_of,
    state_folder,
)

NEW = DeviceRecord(device_id="R58M", name="adb:R58M")


def fault(at_s: float, job: str = "a", kind: str = "offline") -> Fault:
    return Fault(at_s=at_s, kind=kind, message=f"adb:R58M is not attached at {at_s:g}", job_key=job)


def after(*faults: Fault, record: DeviceRecord = NEW, rule: Rule = RULE) -> DeviceRecord:
    for fault in faults:
        record = after_fault(record, fault, rule)
    return record


class Clock:
    """Seconds since 1970 that a test sets."""

    def __init__(self) -> None:
        self.at_s = 1_000_000.0

    def __call__(self) -> float:
        return self.at_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def book(tmp_path: Path, clock: Clock) -> QuarantineBook:
    return QuarantineBook(tmp_path, now_s=clock)


def add(book: QuarantineBook, clock: Clock, *jobs: str, device: str = "R58M") -> list[Quarantine | None]:
    verdicts = []
    for job in jobs:
        clock.at_s += 100
        verdicts.append(book.add_fault(device, f"adb:{device}", "offline", "it is gone", job))
    return verdicts


def test_three_faults_within_an_hour_are_too_many() -> None:
    assert after(fault(0), fault(100, "b")).quarantine is None
    kept_out = after(fault(0), fault(100, "b", "rebooted"), fault(200)).quarantine
    assert kept_out is not None
    assert (kept_out.since_s, kept_out.by) == (200, "edgesweep")
    assert kept_out.reason == (
        "3 faults within 60 min (offline, rebooted, offline), the last: adb:R58M is not attached at 200"
    )


def test_faults_that_lie_further_apart_than_an_hour_are_forgotten() -> None:
    record = after(fault(0), fault(100, "b"), fault(100 + 3601))
    assert record.quarantine is None
    assert [fault.at_s for fault in record.faults] == [3701]


def test_faults_with_one_job_alone_are_that_job_s() -> None:
    assert after(*(fault(100.0 * number, "poison") for number in range(9))).quarantine is None


def test_what_follows_at_once_is_the_same_fault() -> None:
    record = after(fault(0), fault(30, "b", "rebooted"), fault(59, "b"))
    assert [fault.at_s for fault in record.faults] == [0]
    assert after(fault(60, "b"), record=record).faults[-1].at_s == 60


def test_a_clock_that_was_set_back_makes_no_fault_count_twice_or_for_ever() -> None:
    record = after(fault(10_000), fault(10_100, "b"), fault(500))
    assert [fault.at_s for fault in record.faults] == [500]


def test_a_canary_lets_a_device_in_on_probation() -> None:
    let_in = after_canary(after(fault(0), fault(100, "b"), fault(200)))
    assert let_in.quarantine is None
    assert after(fault(400), record=let_in).quarantine is not None, "one more is too many"
    assert after(fault(4000), record=let_in).quarantine is None, "and an hour later it is not"
    strict = Rule(faults=1)
    assert after_canary(replace(let_in, quarantine=None), strict).faults == ()


def test_faults_during_a_quarantine_do_not_begin_another_one() -> None:
    record = after(fault(0), fault(100, "b"), fault(200))
    again = after(fault(300), record=record)
    assert again.quarantine == record.quarantine


def test_a_book_remembers_beyond_the_process_that_wrote_it(book: QuarantineBook, clock: Clock, tmp_path: Path) -> None:
    *before, begun = add(book, clock, "a", "b", "c")
    assert before == [None, None]
    assert begun is not None
    again = QuarantineBook(tmp_path, now_s=clock)
    assert again.quarantine("R58M") == begun
    assert add(again, clock, "d") == [None], "it began once"
    again.pass_canary("R58M")
    assert book.quarantine("R58M") is None
    [once_more] = add(book, clock, "e")
    assert once_more is not None


def test_devices_do_not_share_faults(book: QuarantineBook, clock: Clock) -> None:
    for device in ("one", "two/../one", "three"):
        assert add(book, clock, "a", "b", device=device) == [None, None]
    assert [record.device_id for record in book.records()] == ["one", "three", "two/../one"]


def test_what_a_person_put_there_only_a_person_takes_out(book: QuarantineBook, clock: Clock) -> None:
    add(book, clock, "a", "b", "c")
    put = book.put("R58M", "adb:R58M", "battery swells")
    assert put.text == "since 1970-01-12 13:51 UTC by a person: battery swells"
    assert "readmit" in put.way_out
    book.pass_canary("R58M")
    assert book.quarantine("R58M") == put
    assert book.readmit("R58M") == put
    assert book.readmit("R58M") is None
    assert add(book, clock, "a", "b") == [None, None], "its faults are forgotten too"


def test_a_quarantine_says_who_and_how_it_ends(book: QuarantineBook, clock: Clock) -> None:
    *_, begun = add(book, clock, "a", "b", "c")
    assert begun is not None
    assert "by EdgeSweep: 3 faults" in begun.text
    assert "canary" in begun.way_out
    assert begun.document == {"since": "1970-01-12T13:51:40+00:00", "by": "edgesweep", "reason": begun.reason}


def test_writers_at_the_same_time_lose_no_fault(tmp_path: Path) -> None:
    rule = Rule(faults=100, apart_s=0.0)
    errors: list[BaseException] = []

    def write(job: int) -> None:
        try:
            for _ in range(5):
                QuarantineBook(tmp_path, rule=rule).add_fault("R58M", "adb:R58M", "offline", "gone", str(job))
        except BaseException as error:  # noqa: BLE001  # told below
            errors.append(error)

    threads = [threading.Thread(target=write, args=(job,)) for job in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    record = QuarantineBook(tmp_path).record("R58M")
    assert record is not None
    assert len(record.faults) == 40


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"device_id": "R58M"}', b"\xff\xfe"])
def test_a_damaged_file_is_named_with_what_to_do(
    book: QuarantineBook, clock: Clock, tmp_path: Path, content: bytes
) -> None:
    add(book, clock, "a")
    [path] = (tmp_path / "devices").glob("*.json")
    path.write_bytes(content)
    with pytest.raises(StoreError) as caught:
        book.quarantine("R58M")
    assert str(path) in caught.value.message
    assert caught.value.next_step == "delete it"


def test_a_folder_that_is_none_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "devices").write_text("in the way")
    book = QuarantineBook(tmp_path)
    with pytest.raises(StoreError, match="devices") as caught:
        book.put("R58M", "adb:R58M", "")
    assert STATE_VARIABLE in caught.value.next_step
    assert book.records() == []


def test_the_state_lies_where_the_user_s_state_lies(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path / "named"))
    assert state_folder() == tmp_path / "named"
    monkeypatch.delenv(STATE_VARIABLE)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    assert state_folder() == tmp_path / "xdg" / "edgesweep"
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert state_folder() == tmp_path / "home" / ".local" / "state" / "edgesweep"


def test_who_only_shows_quarantines_stumbles_over_no_file() -> None:
    facts = DeviceFacts(
        device_id="R58M", name="adb:R58M", maker="", model="", soc="", os_build="", abi="", cores=1, ram_bytes=None
    )
    other = replace(facts, device_id="other")
    put = QuarantineBook().put("R58M", "adb:R58M", "")
    QuarantineBook().put("other", "adb:other", "")
    assert quarantines_of([facts, other]).keys() == {"R58M", "other"}
    for path in (state_folder() / "devices").glob("*.json"):
        if json.loads(path.read_text())["device_id"] == "other":
            path.write_text("{")
    assert quarantines_of([facts, other]) == {"R58M": put}
