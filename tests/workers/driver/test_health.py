"""An outage is the device's own fault, or that of something that devices share."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from sweeps.device_facts import DeviceFacts
from sweeps.quarantine import QuarantineBook, Rule
from sweeps.records import Failed
from tests.builders import job_of, phone_facts
from workers.driver.health import TOGETHER_S, Health

EVERY_FAULT = Rule(faults=1, apart_s=0.0)


def failed(kind: str) -> Failed:
    return Failed(stage="run", kind=kind, message=f"it is {kind}")


ONE, TWO = phone_facts("ONE"), phone_facts("TWO")


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def book(tmp_path: Path) -> QuarantineBook:
    return QuarantineBook(tmp_path, rule=EVERY_FAULT)


@pytest.fixture
def health(book: QuarantineBook, clock: Clock) -> Health:
    return Health(book, now_s=clock)


def out(health: Health, facts: DeviceFacts, kinds: Iterable[str], key: str = "a") -> None:
    outage = health.began(facts, job_of(key))
    for kind in kinds:
        outage.add(failed(kind))
    health.ended(facts, outage)


def faults(book: QuarantineBook, facts: DeviceFacts = ONE) -> list[str]:
    record = book.record(facts.device_id)
    return [] if record is None else [fault.kind for fault in record.faults]


def test_an_outage_of_one_phone_is_its_own(health: Health, book: QuarantineBook) -> None:
    out(health, ONE, ["offline", "unresponsive", "offline"])
    assert faults(book) == ["offline"], "one outage is one fault"
    assert faults(book, TWO) == []


@pytest.mark.parametrize(
    "kinds",
    [
        ["adb_server"],
        ["offline", "adb_server"],
        ["offline", "host_away"],
        ["lease_lost", "offline"],
        ["adb_version", "offline", "offline"],
    ],
)
def test_an_outage_that_the_host_had_part_in_is_no_phone_s(
    health: Health, book: QuarantineBook, kinds: list[str]
) -> None:
    out(health, ONE, kinds)
    assert faults(book) == []


@pytest.mark.parametrize("kind", ["leased", "unauthorized", "another_device", "no_permissions", "ambiguous_serial"])
def test_what_others_did_to_a_phone_is_not_its_fault(health: Health, book: QuarantineBook, kind: str) -> None:
    out(health, ONE, [kind])
    assert faults(book) == []


def test_phones_that_go_away_together_lost_what_they_share(health: Health, book: QuarantineBook, clock: Clock) -> None:
    first = health.began(ONE, job_of("a"))
    clock.now_s += TOGETHER_S
    second = health.began(TWO, job_of("b"))
    for outage, facts in ((first, ONE), (second, TWO)):
        outage.add(failed("offline"))
        clock.now_s += 100
        health.ended(facts, outage)
    assert (faults(book), faults(book, TWO)) == ([], [])


def test_phones_that_go_away_one_after_the_other_do_so_by_themselves(
    health: Health, book: QuarantineBook, clock: Clock
) -> None:
    for facts in (ONE, TWO, ONE):
        out(health, facts, ["offline"])
        clock.now_s += TOGETHER_S + 1
    assert (faults(book), faults(book, TWO)) == (["offline"] * 2, ["offline"])


def test_a_failed_block_counts_where_the_phone_is_to_blame(health: Health, book: QuarantineBook) -> None:
    for kind in ("rebooted", "crashed", "disconnected", "truncated", "timeout"):
        health.failed(ONE, failed(kind), job_of("a"))
    assert faults(book) == ["rebooted", "disconnected"]


def test_the_quarantine_is_told_once_when_it_begins(tmp_path: Path, clock: Clock) -> None:
    book = QuarantineBook(tmp_path, rule=Rule(apart_s=0.0))
    health = Health(book, now_s=clock)
    quarantines = []
    for key in "abcd":
        quarantines.append(health.failed(ONE, failed("rebooted"), job_of(key)))
    assert [quarantine is not None for quarantine in quarantines] == [False, False, True, False]
    assert health.quarantine(ONE) == quarantines[2]
    health.pass_canary(ONE)
    assert health.quarantine(ONE) is None


def test_a_state_that_cannot_be_kept_ends_no_sweep(tmp_path: Path) -> None:
    (tmp_path / "devices").write_text("in the way")
    health = Health(QuarantineBook(tmp_path))
    assert health.failed(ONE, failed("rebooted"), job_of("a")) is None
    assert health.quarantine(ONE) is None
    health.pass_canary(ONE)
