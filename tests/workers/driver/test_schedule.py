"""Durations are learned, and by them the next build is chosen."""

from statistics import mean

import pytest

from tests.workers.driver.schedule_traces import ratios
from workers.driver.schedule import Durations, Schedule


def test_what_was_seen_is_expected_again_and_nothing_else_is_known() -> None:
    durations = Durations()
    assert durations.expected("phone", "net", "block", guess_s=4.0) == 4.0
    durations.learn("phone", "net", "block", 6.0, guess_s=4.0)
    durations.learn("phone", "net", "block", 12.0, guess_s=4.0, times=2)
    assert durations.expected("phone", "net", "block", guess_s=4.0) == pytest.approx(10.0)


def test_a_device_slow_with_one_artifact_is_expected_to_be_slow_with_another() -> None:
    durations = Durations()
    for artifact, size in (("small", 1.0), ("large", 3.0)):
        durations.learn("quick", artifact, "block", 2.0 * size, guess_s=2.0)
    durations.learn("slow", "small", "block", 8.0, guess_s=2.0)
    assert durations.expected("slow", "large", "block", guess_s=2.0) == pytest.approx(24.0, rel=0.05)


def test_an_evaluation_tells_of_blocks_on_the_same_device() -> None:
    durations = Durations()
    durations.learn("quick", "net", "evaluation", 5.0, guess_s=5.0)
    durations.learn("slow", "net", "evaluation", 20.0, guess_s=5.0)
    slow, quick = (durations.expected(device, "net", "block", guess_s=3.0) for device in ("slow", "quick"))
    assert slow == pytest.approx(4 * quick, rel=0.01)


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan"), float("inf")])
def test_a_time_that_cannot_be_teaches_nothing(seconds: float) -> None:
    durations = Durations()
    durations.learn("phone", "net", "block", seconds)
    assert durations.expected("phone", "net", "block", guess_s=4.0) == 4.0


def two_devices(**blocks: int) -> Schedule:
    """Each waits for `both` and for an artifact of its own name, and times each of the two so many times."""
    schedule = Schedule()
    for device, times in blocks.items():
        for artifact in ("both", device):
            schedule.expect(device, artifact, "block", times)
            schedule.wait(device, artifact)
    return schedule


def order(schedule: Schedule, *artifacts: str) -> list[str]:
    """Without those that are not built."""
    ranks = {artifact: rank for artifact in artifacts if (rank := schedule.rank(artifact)) is not None}
    return sorted(ranks, key=lambda artifact: ranks[artifact], reverse=True)


def test_what_the_device_with_the_most_work_left_waits_for_is_built_first() -> None:
    schedule = two_devices(short=2, long=5)
    assert order(schedule, "short", "long", "both") == ["both", "long", "short"]
    for _ in range(4):
        schedule.done("long", "both", "block", 1.0)
        schedule.done("long", "long", "block", 1.0)
    assert schedule.remaining_s("long") == 2.0
    assert order(schedule, "long", "short") == ["short", "long"]


def test_the_order_follows_what_is_learned_while_the_sweep_runs() -> None:
    schedule = two_devices(one=3, other=3)
    schedule.done("other", "both", "evaluation", 9.0)
    schedule.done("one", "both", "evaluation", 1.0)
    assert order(schedule, "one", "other") == ["other", "one"]


def test_of_equally_urgent_builds_the_one_that_lets_a_device_begin_comes_first() -> None:
    schedule = Schedule()
    for device, artifacts in (("one", ("a", "b")), ("other", ("c",))):
        schedule.expect(device, artifacts[0], "block", 4)
        for artifact in artifacts:
            schedule.wait(device, artifact)
    assert order(schedule, "a", "b", "c")[0] == "c"


def test_what_no_device_waits_for_comes_last_or_is_not_built() -> None:
    schedule = two_devices(one=1, other=1)
    schedule.want("local")
    assert order(schedule, "local", "one", "nobody's") == ["one", "local"]
    schedule.leave("one")
    assert order(schedule, "one", "both", "other", "local") == ["both", "other", "local"]
    schedule.want("one")
    assert schedule.rank("one") is not None, "another one needs it, too"
    schedule.drop("one")
    assert schedule.rank("one") is None


def test_builds_that_take_long_are_known_after_the_first_one() -> None:
    schedule = two_devices(one=1)
    schedule.built("one", "int8", 20.0)
    schedule.built("both", "fp32", 5.0)
    assert schedule.build_s("int8") == pytest.approx(20.0)
    assert schedule.build_s("fp32") == pytest.approx(5.0)
    assert 5.0 < schedule.build_s("another kind") < 20.0


@pytest.mark.parametrize(("dies", "most"), [(False, 1.04), (True, 1.12)])
def test_sweeps_of_unknown_durations_end_close_to_a_bound_that_knows_them(dies: bool, most: float) -> None:
    all_ratios = [*ratios(range(30), dies=dies)]
    assert min(all_ratios) > 1 - 1e-9, "nothing ends before the bound"
    assert mean(all_ratios) <= most


def test_what_is_left_is_estimated_by_the_devices_own_pace() -> None:
    schedule = Schedule()
    assert schedule.about_s("phone") == 0.0
    schedule.expect("phone", "net", "block", times=4, guess_s=5.0)
    schedule.expect("phone", "net", "evaluation", guess_s=10.0)
    assert schedule.about_s("phone") == 30.0
    schedule.done("phone", "net", "block", 15.0)
    assert schedule.about_s("phone") == pytest.approx(75.0), "three times as slow as was guessed"
    schedule.learn("other", "net", "block", 500.0, 5.0)
    assert schedule.about_s("phone") == pytest.approx(75.0)
    for _ in range(6):
        schedule.done("phone", "net", "block", 15.0)
    assert schedule.about_s("phone") == pytest.approx(30.0), "more rounds than were expected are nobody's guess"
