"""Jobs stay in the rounds or leave them, each with its reason."""

import math
from dataclasses import replace

import pytest

from sweeps.protocol.device_time import full_seconds
from sweeps.protocol.presets import Protocol, resolve
from sweeps.protocol.settled_check import settles
from sweeps.protocol.stopping import Contest
from sweeps.records import Block
from sweeps.spec.protocol import MinutesBudget, ProtocolSpec

FULL = resolve(ProtocolSpec(preset="full"))
RACE = resolve(ProtocolSpec(), "race")


def blocks(records, round_, **ms_by_key) -> list[Block]:
    return [
        replace(records.block(records.job(0), round_, ms=ms), job_key=key, labels=("ungated",))
        for key, ms in ms_by_key.items()
    ]


def contest(protocol: Protocol, *keys: str, precedence: dict[str, float] | None = None) -> Contest:
    return Contest({key: f"net {key}" for key in keys}, protocol, precedence or dict.fromkeys(keys, 2.0))


def test_a_job_leaves_once_its_last_three_rounds_agree(records):
    rounds = contest(FULL, "a", "b")
    assert rounds.take(blocks(records, 0, a=10.0, b=10.0)) == []
    assert rounds.take(blocks(records, 1, a=10.1, b=12.0)) == []
    [settled] = rounds.take(blocks(records, 2, a=10.2, b=10.0))
    assert (settled.job_key, settled.reason, settled.rounds) == ("a", "stable", 3)
    assert rounds.contending == ("b",)


def test_a_job_that_never_agrees_keeps_its_number_after_the_last_round(records):
    rounds = contest(FULL, "a")
    ends = [end for n in range(10) for end in rounds.take(blocks(records, n, a=10.0 + 2 * (n % 2)))]
    assert [(end.reason, end.rounds) for end in ends] == [("unstable", 10)]
    assert not rounds.contending
    assert settles(ends[0], FULL)
    assert not settles(ends[0], replace(FULL, max_rounds=20)), "more rounds are allowed now"


def test_a_block_with_a_disqualifying_label_is_no_reason_to_stop(records):
    rounds = contest(FULL, "a")
    for number in range(3):
        throttled = [replace(block, labels=("throttled",)) for block in blocks(records, number, a=10.0)]
        assert rounds.take(throttled) == []
    assert rounds.contending == ("a",)


@pytest.mark.parametrize(
    ("sound", "reason", "message"),
    [(0, "disqualified", "none of its blocks counts"), (2, "unstable", "only 2 of its 10 blocks count")],
)
def test_a_job_whose_blocks_do_not_count_is_not_said_to_be_unsteady(records, sound, reason, message):
    rounds = contest(FULL, "a")
    ends = []
    for number in range(10):
        labels = () if number < sound else ("gate_timeout",)
        ends += rounds.take([replace(block, labels=labels) for block in blocks(records, number, a=10.0)])
    assert [end.reason for end in ends] == [reason]
    assert ends[0].message.startswith(message)


def race(records, rounds, slow=12.0, count=6):
    """`count` equal variants and one that is slower; block medians differ by up to 1 %."""
    left = []
    for number in range(rounds):
        keys = {"slow": slow} | {f"k{n}": 10.0 for n in range(count)}
        medians_ms = {
            key: ms * (1 + 0.01 * math.sin(7 * number + 3 * place)) for place, (key, ms) in enumerate(keys.items())
        }
        yield number, blocks(records, number, **medians_ms), left


def test_a_race_says_who_lost_to_whom_and_by_how_much(records):
    rounds = contest(RACE, "slow", *(f"k{n}" for n in range(6)))
    ends = [end for _, visit, _ in race(records, 8) for end in rounds.take(visit)]
    lost = next(end for end in ends if end.job_key == "slow")
    assert lost.reason == "slower"
    assert lost.eliminated
    assert lost.by.startswith("net k")
    assert lost.ratio is not None
    assert lost.ratio_low is not None
    assert 1.0 < lost.ratio_low < lost.ratio < 1.3
    assert lost.by in lost.message
    best = [end for end in ends if end.reason == "best"]
    assert {end.job_key for end in best} <= {f"k{n}" for n in range(6)}
    assert best, "equal ones are within 2 % of each other"
    assert not rounds.contending


def test_whoever_cannot_win_has_ended_however_few_rounds_it_had(records):
    rounds = contest(RACE, "late", "good", precedence={"late": 0.0, "good": 2.0})
    assert rounds.take(blocks(records, 0, good=10.0)) == []
    end_of = {end.job_key: end for end in rounds.take(blocks(records, 1, late=1.0, good=10.0))}
    assert (end_of["late"].reason, end_of["late"].rounds) == ("constraint", 1)
    assert settles(end_of["late"], RACE)


def test_more_rounds_are_for_a_job_too_of_which_no_block_counted(records):
    rounds = contest(FULL, "a")
    throttled = [[replace(block, labels=("throttled",)) for block in blocks(records, n, a=10.0)] for n in range(10)]
    [end] = [settled for visit in throttled for settled in rounds.take(visit)]
    assert settles(end, FULL)
    assert not settles(end, replace(FULL, max_rounds=20))
    assert end.text_after(10) == end.message
    assert end.text_after(12) == f"{end.message} (as decided after 10 rounds)"


def test_the_recorded_rounds_shown_again_settle_the_same(records):
    def play():
        rounds = contest(RACE, "slow", *(f"k{n}" for n in range(6)))
        return [end for _, visit, _ in race(records, 8) for end in rounds.take(visit)]

    assert play() == play()


def test_what_fails_a_constraint_never_beats_what_passes(records):
    precedence = {"slow": 2.0} | {f"k{n}": 0.0 for n in range(6)}
    rounds = contest(RACE, *precedence, precedence=precedence)
    ends = [end for _, visit, _ in race(records, 8) for end in rounds.take(visit)]
    assert {end.reason for end in ends if end.job_key != "slow"} == {"constraint"}
    assert [end.reason for end in ends if end.job_key == "slow"] == ["best"]


def test_a_race_that_is_not_decided_ends_at_its_last_round(records):
    rounds = contest(replace(RACE, max_rounds=3), "a", "b")
    ends = []
    for number, (a, b) in enumerate([(10, 14), (14, 10), (10, 14)]):
        ends += rounds.take(blocks(records, number, a=float(a), b=float(b)))
    assert {end.reason for end in ends} == {"undecided"}
    assert [end.job_key for end in ends if end.leads] == ["a"], "it was faster in two of three rounds"


def test_an_open_race_has_ended_for_who_rested_too(records):
    protocol = replace(RACE, max_rounds=6)
    rounds = contest(protocol, "a", "b", "rests")
    ends = []
    for number, (a, b) in enumerate([(10, 14), (14, 10)] * 3):
        ends += rounds.take(blocks(records, number, a=float(a), b=float(b), **{"rests": 60.0} if number < 3 else {}))
    ended = {end.job_key: end for end in ends}
    assert (ended["a"].reason, ended["a"].rounds) == ("undecided", 6)
    rested = replace(ended["a"], job_key="rests", rounds=3)
    assert settles(rested, protocol)
    assert not settles(rested, replace(protocol, max_rounds=7)), "more rounds are allowed now"
    assert not settles(replace(rested, last_round=0), protocol), (
        "of an early journal: it is not known what it could have"
    )


@pytest.mark.parametrize(("protocol", "counts"), [(RACE, True), (FULL, False)])
def test_a_block_in_which_a_shift_of_the_device_fell_counts_only_in_a_race(records, protocol, counts):
    rounds = contest(protocol, "a", "b")
    for number in range(3):
        visit = [replace(block, labels=("device_changed",)) for block in blocks(records, number, a=10.0, b=20.0)]
        rounds.take(visit)
    assert (rounds.contending == ()) is counts


def test_time_that_is_used_up_settles_all_that_is_left_until_more_is_given(records):
    protocol = resolve(ProtocolSpec(), MinutesBudget(device_minutes=2.0))
    rounds = contest(protocol, "a", "b")
    rounds.take(blocks(records, 0, a=10.0, b=11.0))
    ends = rounds.expire()
    assert [(end.reason, end.device_minutes) for end in ends] == [("out_of_time", 2.0)] * 2
    assert settles(ends[0], protocol)
    assert not settles(ends[0], resolve(ProtocolSpec(), MinutesBudget(device_minutes=3.0)))
    assert not settles(ends[0], RACE)


def test_a_withdrawn_job_is_no_contender_in_a_race_either(records):
    rounds = contest(RACE, "a", "b", "c")
    rounds.withdraw("c")
    assert rounds.contending == ("a", "b")
    ends = [
        end
        for number in range(6)
        for end in rounds.take(blocks(records, number, a=10.0 + 0.01 * number, b=15.0 - 0.01 * number, c=1.0))
    ]
    assert {end.job_key: end.reason for end in ends} == {"a": "best", "b": "slower"}


def test_a_job_of_which_no_block_counts_does_not_keep_a_race_open(records):
    rounds = contest(RACE, "a", "b", "bad")
    ends = []
    for number in range(6):
        sound = blocks(records, number, a=10.0 + 0.01 * number, b=15.0 - 0.01 * number)
        fallen = [replace(block, labels=("backend_fell_back",)) for block in blocks(records, number, bad=1.0)]
        ends += rounds.take([*sound, *fallen])
    assert {end.job_key: end.reason for end in ends} == {"a": "best", "b": "slower", "bad": "disqualified"}


def test_who_comes_later_has_all_rounds_beside_those_that_were_there(records):
    rounds = contest(replace(RACE, max_rounds=3), "a", "late")
    assert not [end for number in range(3) for end in rounds.take(blocks(records, number, a=10.0))]
    ends = []
    for number, (a, late) in enumerate([(10, 14), (14, 10), (10, 14)]):
        ends += rounds.take(blocks(records, 3 + number, a=float(a), late=float(late)))
    assert {end.job_key: (end.reason, end.rounds) for end in ends} == {"a": ("undecided", 6), "late": ("undecided", 3)}


def test_what_a_full_measurement_costs_follows_from_starts_and_latency(records):
    [block] = blocks(records, 0, a=10.0)
    timed_s = (sum(block.samples_ns) + sum(block.warmup_ns)) / 1e9
    block = replace(block, device_seconds=timed_s + 1.0)
    assert full_seconds([block]) == pytest.approx(3 * (1.0 + 0.5 + 2.0), rel=1e-3)
    slow = replace(block, samples_ns=(100_000_000,) * 5, device_seconds=0.5 + block.warmup_ns[0] / 1e9 + 1.0)
    assert full_seconds([slow]) == pytest.approx(3 * (1.0 + 1.0 + 5.0), rel=1e-3)


@pytest.mark.parametrize(("lost", "rounds"), [(0, 3), (1, 4), (3, 6), (4, 6)])
def test_rounds_that_a_shift_spoiled_are_measured_again_up_to_twice_the_rounds(records, lost, rounds):
    one_job = contest(resolve(ProtocolSpec(preset="quick")), "a")
    number = 0
    while one_job.active:
        [block] = blocks(records, number, a=10.0)
        one_job.take([replace(block, labels=("device_changed",) if number < lost else ())])
        number += 1
    assert number == rounds
