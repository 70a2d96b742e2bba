"""A device that stopped answering is brought back in steps: their order, their times, and their end."""

import pytest

from sweeps.errors import ABSENT_KINDS, HOST_KINDS, LAB_KINDS, OWN_KINDS
from workers.driver.ladder import RUNGS, Ladder, Step

MENDED = frozenset().union(*(rule.kinds for rule in RUNGS))
"""The kinds of failure that a rung may end."""


def ladder(*, has_rungs: bool = True, may_reboot: bool = True) -> Ladder:
    return Ladder(60.0, has_rungs=has_rungs, may_reboot=may_reboot)


def climbed(rungs: Ladder, kind: str, seconds: float = 400.0, every_s: float = 2.0) -> list[tuple[float, Step]]:
    """List the steps of one outage, without the waits, each with its time."""
    steps: list[tuple[float, Step]] = []
    waited_s = 0.0
    while waited_s <= seconds:
        step = rungs.next(kind, waited_s)
        if step == "wait":
            waited_s += every_s
            continue
        steps.append((waited_s, step))
        if step == "give_up":
            break
    return steps


def test_a_phone_that_hangs_is_connected_anew_its_server_and_last_itself_restarted() -> None:
    assert climbed(ladder(), "unresponsive") == [
        (6.0, "reconnect"),
        (20.0, "restart_adb"),
        (30.0, "reboot"),
        (210.0, "give_up"),
    ]


def test_a_phone_is_only_restarted_where_the_sweep_file_allows_it() -> None:
    steps = climbed(ladder(may_reboot=False), "unresponsive")
    assert steps == [(6.0, "reconnect"), (20.0, "restart_adb"), (60.0, "give_up")]
    assert climbed(ladder(may_reboot=False), "orphan") == [(60.0, "give_up")]


def test_a_phone_that_is_not_there_cannot_be_restarted() -> None:
    assert climbed(ladder(), "offline") == [(6.0, "reconnect"), (20.0, "restart_adb"), (60.0, "give_up")]


@pytest.mark.parametrize("kind", ["orphan", "mode_stays"])
def test_what_only_a_restart_ends_is_not_tried_otherwise(kind: str) -> None:
    assert climbed(ladder(), kind) == [(30.0, "reboot"), (210.0, "give_up")]


@pytest.mark.parametrize("kind", sorted(ABSENT_KINDS - MENDED - LAB_KINDS))
def test_what_a_person_or_another_process_ends_is_waited_for(kind: str) -> None:
    assert climbed(ladder(), kind) == [(60.0, "give_up")]


def test_a_labs_head_is_waited_for_no_longer_than_ray_lets_the_run_end_in_order() -> None:
    assert climbed(ladder(), "head_away") == [(120.0, "give_up")]


@pytest.mark.parametrize("kind", sorted(LAB_KINDS - {"head_away"}))
def test_a_host_of_a_lab_is_waited_for_longer_and_then_its_device_has_its_time(kind: str) -> None:
    assert climbed(ladder(), kind) == [(240.0, "give_up")]
    rungs = ladder()
    assert rungs.next(kind, 100.0) == "wait"
    assert rungs.next("offline", 102.0) == "reconnect"
    assert rungs.next("offline", 104.0) == "restart_adb"
    assert rungs.next("offline", 158.0) == "wait"
    assert rungs.next("offline", 160.0) == "give_up"


def test_every_rung_is_for_a_fault_of_the_device_and_none_for_one_of_its_host() -> None:
    assert MENDED <= OWN_KINDS & ABSENT_KINDS
    assert not MENDED & (HOST_KINDS | LAB_KINDS)


def test_a_transport_without_rungs_is_waited_for() -> None:
    assert climbed(ladder(has_rungs=False), "unresponsive") == [(60.0, "give_up")]


def test_a_look_that_takes_long_skips_no_rung() -> None:
    rungs = ladder()
    assert [rungs.next("unresponsive", 70.0) for _ in range(4)] == ["reconnect", "restart_adb", "reboot", "wait"]
    assert rungs.next("unresponsive", 249.0) == "wait"
    assert rungs.next("unresponsive", 250.0) == "give_up"


def test_the_kind_may_change_on_the_way() -> None:
    rungs = ladder()
    assert rungs.next("unresponsive", 6.0) == "reconnect"
    assert rungs.next("offline", 20.0) == "restart_adb"
    assert rungs.next("adb_server", 21.0) == "wait"
    assert rungs.next("unresponsive", 31.0) == "reboot"
    assert rungs.next("offline", 120.0) == "wait", "it restarts"


def test_each_outage_begins_at_the_bottom_until_the_budget_of_the_run_is_spent() -> None:
    rungs = ladder()
    steps = []
    for _ in range(20):
        steps += [step for _, step in climbed(rungs, "unresponsive")]
        rungs.answered()
    assert [steps.count(rule.rung) for rule in RUNGS] == [rule.budget for rule in RUNGS]


def test_a_step_that_was_refused_costs_nothing_and_is_not_tried_again_at_once() -> None:
    rungs = ladder()
    for _ in range(2 * RUNGS[1].budget):
        assert rungs.next("offline", 20.0) == "reconnect"
        assert rungs.next("offline", 20.0) == "restart_adb"
        rungs.refused("restart_adb")
        assert rungs.next("offline", 30.0) == "wait"
        rungs.answered()


def test_a_restart_that_was_refused_is_not_waited_for() -> None:
    rungs = ladder()
    assert rungs.next("orphan", 30.0) == "reboot"
    rungs.refused("reboot")
    assert rungs.next("orphan", 59.0) == "wait"
    assert rungs.next("orphan", 60.0) == "give_up"


def test_rungs_come_due_gentle_ones_first_and_before_a_device_is_given_up() -> None:
    shares = [rule.due_share for rule in RUNGS]
    assert shares == sorted(shares)
    assert shares[-1] < 1
