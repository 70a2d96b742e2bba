"""One total for each device, which does not change."""

from workers.driver.context import DeviceProgress


def test_rounds_that_a_race_adds_are_not_more_to_do() -> None:
    progress = DeviceProgress("local")
    events = [progress.beside("sentinel")]
    active, rounds = 4, 3
    for round_ in range(8):
        total = progress.done + active * max(1, rounds - round_)
        for _ in range(active):
            events.append(progress.measuring(total, "a block"))
            progress.done += 1
        active = 2 if round_ == 2 else active
    events.append(progress.measuring(progress.done, ""))
    first, *later = events
    assert (first.done, first.total) == (0, 0)
    assert {event.total for event in later} == {12}
    done = [event.done for event in later]
    assert done == sorted(done)
    # Whoever is not decided after the expected rounds is what is missing.
    assert (done[0], done[12], done[-2], done[-1]) == (0, 11, 11, 12)


def test_a_run_that_goes_on_counts_what_is_left_of_it() -> None:
    progress = DeviceProgress("local")
    assert progress.measuring(5, "round 3") == progress.measuring(5, "round 3")
    progress.done += 5
    assert (progress.measuring(5, "").done, progress.measuring(5, "").total) == (5, 5)
