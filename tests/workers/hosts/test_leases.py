"""One driver at a time per device, whoever asks."""

from itertools import count

import pytest

from sweeps.errors import DeviceError
from workers.hosts.interface import TIME_TO_LIVE_S, Granted, Queued, left_of
from workers.hosts.leases import PATIENCE_S, Leases

PHONE = "phone-1"


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s

    def pass_(self, seconds: float) -> None:
        self.now_s += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def leases(clock: Clock) -> Leases:
    return Leases(clock, count(1).__next__)


def granted(leases: Leases, who: str) -> int:
    answer = leases.acquire(PHONE, who)
    assert isinstance(answer, Granted), answer
    return answer.epoch


def queued(leases: Leases, who: str) -> Queued:
    answer = leases.acquire(PHONE, who)
    assert isinstance(answer, Queued), answer
    return answer


def test_a_device_has_one_driver_and_the_others_are_told_for_whom_they_wait(leases: Leases, clock: Clock) -> None:
    epoch = granted(leases, "ann")
    leases.begin(PHONE, epoch, "mobilenet int8")
    clock.pass_(2)
    assert queued(leases, "bob") == Queued("ann", "mobilenet int8", 0, 2.0)
    assert queued(leases, "cid").ahead == 1
    assert granted(leases, "ann") == epoch, "who has it keeps it"
    use = leases.use(PHONE)
    assert use is not None
    assert (use.who, use.running, use.waiting) == ("ann", "mobilenet int8", ("bob", "cid"))


def test_a_renewed_lease_lasts_and_any_other_goes_to_the_first_in_the_queue(leases: Leases, clock: Clock) -> None:
    epoch = granted(leases, "ann")
    for _ in range(5):
        clock.pass_(TIME_TO_LIVE_S - 1)
        assert not leases.beat("ann", {PHONE: epoch})
        queued(leases, "bob")
        queued(leases, "cid")
    clock.pass_(TIME_TO_LIVE_S)
    assert queued(leases, "cid").ahead == 1, "bob came first"
    assert granted(leases, "bob") > epoch
    assert leases.beat("ann", {PHONE: epoch}) == {PHONE}


def test_who_waits_is_told_for_how_long_as_far_as_the_holder_knows(leases: Leases, clock: Clock) -> None:
    epoch = granted(leases, "ann")
    leases.begin(PHONE, epoch, "mobilenet int8", 100.0)
    leases.end(PHONE)
    clock.pass_(4)
    assert queued(leases, "bob").left_s == 96.0
    use = leases.use(PHONE)
    assert use is not None
    assert use.left_s == 96.0
    leases.beat("ann", {PHONE: epoch})
    leases.begin(PHONE, epoch, "mobilenet int8", 3.0)
    leases.end(PHONE)
    clock.pass_(4)
    assert queued(leases, "bob").left_s == 0.0, "it was wrong: nothing is known"
    leases.begin(PHONE, epoch, "mobilenet int8", 7.0)
    leases.end(PHONE)
    leases.begin(PHONE, epoch, "recover", 0.0)
    leases.end(PHONE)
    assert queued(leases, "bob").left_s == 7.0, "who does not know takes nothing back"
    leases.release(PHONE, epoch)
    leases.begin(PHONE, granted(leases, "bob"), "mobilenet int8", 9.0)
    assert queued(leases, "cid").left_s == 9.0
    leases.end(PHONE)
    clock.pass_(TIME_TO_LIVE_S)
    leases.begin(PHONE, granted(leases, "cid"), "race", 300.0, at_least=True)
    waits = queued(leases, "ann")
    use = leases.use(PHONE)
    assert use is not None
    assert left_of(waits) == left_of(use) == "at least 5 min"
    leases.end(PHONE)
    clock.pass_(TIME_TO_LIVE_S)
    assert granted(leases, "ann")
    assert left_of(queued(leases, "bob")) == "", "of the next driver nothing is known yet"


def test_who_asks_no_more_loses_its_place(leases: Leases, clock: Clock) -> None:
    epoch = granted(leases, "ann")
    queued(leases, "bob")
    clock.pass_(TIME_TO_LIVE_S * 3)
    leases.beat("ann", {PHONE: epoch})
    assert queued(leases, "cid").ahead == 0
    leases.release(PHONE, epoch)
    assert granted(leases, "cid")


def test_a_lower_epoch_starts_nothing(leases: Leases, clock: Clock) -> None:
    old = granted(leases, "ann")
    clock.pass_(TIME_TO_LIVE_S)
    new = granted(leases, "bob")
    for epoch in (old, new + 1):
        with pytest.raises(DeviceError) as caught:
            leases.begin(PHONE, epoch, "late")
        assert caught.value.kind == "lease_lost"
    leases.begin(PHONE, new, "in time")
    assert leases.release(PHONE, old) is False, "it ends no other driver's lease"
    assert leases.is_live(PHONE, new)


def test_a_driver_that_was_cut_off_has_its_lease_again_if_nobody_else_asked(leases: Leases, clock: Clock) -> None:
    epoch = granted(leases, "ann")
    clock.pass_(60)
    assert not leases.is_live(PHONE, epoch)
    with pytest.raises(DeviceError, match="has ended"):
        leases.begin(PHONE, epoch, "before it was renewed")
    assert granted(leases, "ann") == epoch
    leases.begin(PHONE, epoch, "after it was renewed")


def test_a_later_grant_waits_for_the_block_that_runs(leases: Leases, clock: Clock) -> None:
    epoch = granted(leases, "ann")
    leases.begin(PHONE, epoch, "a long block")
    clock.pass_(TIME_TO_LIVE_S + 1)
    assert queued(leases, "bob").running == "a long block"
    assert leases.overdue() == ()
    leases.end(PHONE)
    assert granted(leases, "bob") > epoch


def test_a_block_of_a_lapsed_lease_is_to_be_ended_only_if_another_driver_waits(leases: Leases, clock: Clock) -> None:
    epoch = granted(leases, "ann")
    leases.begin(PHONE, epoch, "a block without an end")
    clock.pass_(TIME_TO_LIVE_S + PATIENCE_S + 1)
    assert leases.overdue() == ()
    queued(leases, "bob")
    assert leases.overdue() == (PHONE,)
    clock.pass_(60)
    assert leases.overdue() == (), "bob is gone"


def test_a_person_ends_a_lease_for_good(leases: Leases) -> None:
    epoch = granted(leases, "ann")
    assert leases.free(PHONE) == "ann"
    assert leases.free(PHONE) == ""
    assert leases.beat("ann", {PHONE: epoch}) == {PHONE}
    with pytest.raises(DeviceError, match="a person at the host") as caught:
        leases.acquire(PHONE, "ann")
    assert caught.value.kind == "leased"
    assert granted(leases, "bob") > epoch


def test_nobody_is_shown_where_nobody_has_a_device(leases: Leases) -> None:
    assert leases.use(PHONE) is None
    leases.release(PHONE, granted(leases, "ann"))
    assert leases.use(PHONE) is None
