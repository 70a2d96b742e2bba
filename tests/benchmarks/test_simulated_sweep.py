from dataclasses import replace

import numpy as np
import pytest

from sweeps.protocol.presets import PRESETS
from sweeps.protocol.screen import MOST_BATCHES
from sweeps.ranking.intervals import latency_intervals
from sweeps.ranking.ties import LATENCY
from sweeps.ranking.two_speeds import two_speeds
from sweeps.ranking.winner import first_place
from tests.benchmarks.noise_forms import NOISE_FORMS
from tests.benchmarks.simulated_sweep import simulate
from workers.devices.fake.phones import PHONES

FULL, RACE = PRESETS["full"], PRESETS["race"]


def _latencies_ms(count: int, seed: int = 0, centre_ms: float = 10.0, sigma: float = 0.35) -> dict[str, float]:
    drawn = centre_ms * np.exp(sigma * np.random.default_rng(seed).standard_normal(count))
    return {f"v{number:02d}": float(value) for number, value in enumerate(drawn)}


def test_nothing_to_simulate_is_refused():
    with pytest.raises(ValueError, match="no variants"):
        simulate(PHONES["cool"], {}, FULL, seed=0)


def test_a_race_names_the_best_at_a_fraction_of_the_cost_and_says_why():
    true_ms = _latencies_ms(12)
    race = simulate(PHONES["correlated"], true_ms, RACE, seed=1)
    full = simulate(PHONES["correlated"], true_ms, FULL, seed=1)
    assert race.named == race.best == full.named == min(true_ms, key=lambda key: true_ms[key])
    assert race.regret == 0.0
    assert race.decided
    assert 2.5 * race.device_s < full.device_s
    assert {elimination.key for elimination in race.eliminations} <= set(true_ms) - {race.best}
    assert full.eliminations == ()


def test_the_same_seed_gives_the_same_sweep():
    sweeps = [simulate(PHONES["spiky"], _latencies_ms(6), RACE, seed=seed) for seed in (5, 5, 6)]
    assert sweeps[0] == sweeps[1]
    assert sweeps[0] != sweeps[2]


def test_every_job_of_a_full_sweep_has_three_to_ten_rounds_until_it_is_stable():
    sweep = simulate(PHONES["noisy"], _latencies_ms(24), FULL, seed=0)
    rounds = [len(job.medians_ms) for job in sweep.jobs.values()]
    assert min(rounds) == 3
    assert 3 < max(rounds) <= 10
    for job in sweep.jobs.values():
        medians = list(job.medians_ms.values())
        for early in range(3, len(medians)):
            last = medians[early - 3 : early]
            assert (max(last) - min(last)) / sorted(last)[1] > 0.05
    assert sweep.blocks == sum(rounds)


def test_cost_is_all_that_the_phone_did():
    sweep = simulate(PHONES["hot"], _latencies_ms(24), FULL, seed=0, artifact_bytes=30_000_000)
    starts_s = sweep.blocks * (PHONES["hot"].start_s + PHONES["hot"].load_s + FULL.warmup_seconds)
    assert sweep.waited_s > 0
    assert sweep.device_s > 24 * 1.0 + starts_s + sweep.waited_s + sweep.timed_s
    assert sweep.measuring_share == pytest.approx(sweep.timed_s / sweep.device_s)


def test_the_gate_keeps_a_hot_phone_from_throttling_and_measures_more_than_a_sleep():
    true_ms = _latencies_ms(12)
    gated = simulate(PHONES["hot"], true_ms, FULL, seed=0)
    fixed = simulate(PHONES["hot"], true_ms, FULL, seed=0, rest=180.0)
    assert gated.throttled_blocks == fixed.throttled_blocks == 0
    assert gated.measuring_share > 3 * fixed.measuring_share
    assert fixed.waited_s == pytest.approx(180.0 * fixed.blocks)


def test_throttled_blocks_are_marked_and_never_count():
    sweep = simulate(PHONES["hot"], _latencies_ms(12), FULL, seed=0, rest="none")
    assert sweep.throttled_blocks > 0
    assert sweep.marked_blocks >= sweep.throttled_blocks
    assert sweep.throttled_unmarked_blocks == 0
    counted = sum(len(job.medians_ms) for job in sweep.jobs.values())
    assert counted == sweep.blocks - sweep.marked_blocks
    for job in sweep.jobs.values():
        assert job.p50_ms.value == pytest.approx(job.true_p50_ms, rel=0.05)


def test_a_phone_that_is_never_cool_enough_is_waited_for_once_and_names_nothing():
    oven = replace(PHONES["cool"], ambient_c=45.0)
    protocol = replace(FULL, max_rounds=3)
    sweep = simulate(oven, _latencies_ms(2), protocol, seed=0)
    assert protocol.gate is not None
    assert sweep.named is None
    assert sweep.regret == np.inf
    assert sweep.jobs == {}
    assert sweep.marked_blocks == sweep.blocks == 6
    assert sweep.waited_s == pytest.approx(protocol.gate.wait_seconds, abs=5.0)


def test_a_race_of_which_no_block_counts_ends_after_its_first_rounds_as_in_a_driver():
    oven = replace(PHONES["cool"], ambient_c=45.0)
    sweep = simulate(oven, _latencies_ms(3), RACE, seed=0)
    assert sweep.named is None
    assert sweep.marked_blocks == sweep.blocks == 3 * (MOST_BATCHES + RACE.rounds)
    assert sweep.eliminations == ()


def test_rounds_that_do_not_count_make_no_job_stable():
    protocol = replace(FULL, rounds=5, max_rounds=8)
    sweep = simulate(PHONES["hot"], _latencies_ms(12), protocol, seed=0, rest="none")
    counted = [len(job.medians_ms) for job in sweep.jobs.values()]
    assert 3 <= max(counted) < protocol.rounds, "three that agree, and too few"
    assert sweep.blocks == 12 * protocol.max_rounds


def test_where_the_phone_has_the_mode_fixed_performance_is_used():
    true_ms = {"only": 10.0}
    steady = simulate(PHONES["steady"], true_ms, FULL, seed=0)
    free = simulate(PHONES["steady"], true_ms, replace(FULL, fixed_performance=False), seed=0)
    assert steady.jobs["only"].p50_ms.value == pytest.approx(1.25 * free.jobs["only"].p50_ms.value, rel=0.02)


def test_intervals_of_a_full_sweep_hold_the_truth_as_often_as_they_say():
    jobs = [
        job
        for seed in range(60)
        for job in simulate(PHONES["spiky"], _latencies_ms(24, seed), FULL, seed=seed).jobs.values()
    ]
    assert np.mean([job.covered for job in jobs]) == pytest.approx(0.95, abs=0.02)


def test_intervals_are_those_of_a_ranking_also_with_two_speeds_and_for_the_winner():
    phone = replace(PHONES["cool"], process_cv=0.01, daemon_every_s=20.0, daemon_s=20.0, daemon_slower=1.2)
    true_ms = _latencies_ms(24, sigma=0.02)
    sweep = simulate(phone, true_ms, FULL, seed=0)
    assert sweep.named is not None
    medians = [job.medians_ms for job in sweep.jobs.values()]
    speeds = two_speeds(medians)
    assert speeds is not None
    first = first_place(list(sweep.jobs.values()), LATENCY, smaller=True)
    assert first.winner.name == sweep.named
    assert first.candidates > 2
    place = list(sweep.jobs).index(sweep.named)
    expected = latency_intervals(medians, speeds, {place: first.candidates})
    assert [job.p50_ms for job in sweep.jobs.values()] == expected


@pytest.mark.parametrize("batches_decide", [False, True])
def test_a_race_winners_interval_holds_what_it_says_under_clocks_of_two_states(batches_decide: bool):
    phone = replace(NOISE_FORMS["judge_two_states"], start_s=2.45)
    winners = []
    for seed in range(16):
        true_ms = _latencies_ms(10, seed, sigma=0.1)
        groups = dict.fromkeys(true_ms, "")
        sweep = simulate(phone, true_ms, RACE, seed=seed, groups=groups, batches_decide=batches_decide)
        assert sweep.named is not None
        winners.append(sweep.jobs[sweep.named])
    assert np.mean([job.holds_what_it_says for job in winners]) >= 0.9
    assert {job.interval_of for job in winners} == {"one_state", "both_states"}, "no race is long enough for no words"
    assert all(job.covered for job in winners if job.interval_of == "both_states")
    assert not all(job.covered for job in winners if job.interval_of == "one_state"), "otherwise it needs no words"


def test_the_interval_of_a_winner_without_a_race_is_of_no_state():
    sweep = simulate(PHONES["steady"], _latencies_ms(6), FULL, seed=0)
    assert {job.interval_of for job in sweep.jobs.values()} == {""}
    assert all(job.holds_what_it_says == job.covered for job in sweep.jobs.values())


def test_where_batches_decide_only_the_winner_has_a_time_and_its_rival_costs_a_block():
    phone = replace(PHONES["steady"], start_s=2.45)
    near = {f"v{number}": 10.0 * 1.01**number for number in range(8)}
    finals, decided = (
        simulate(phone, near, PRESETS["race"], seed=1, batches_decide=decide) for decide in (False, True)
    )
    assert decided.regret <= 0.02
    assert decided.decided
    assert decided.device_s < 0.8 * finals.device_s
    assert set(decided.jobs) == {decided.named}, "what checks batches is no result"
    winner = decided.jobs[decided.named]
    assert (winner.settled.leads, winner.settled.confirmations, len(winner.medians_ms)) == (True, 3, 0)
    assert winner.p50_ms.low is not None
    assert (finals.checked, decided.checked, decided.alarm) == (False, True, False)


def test_a_shared_process_that_misleads_about_the_winner_raises_an_alarm():
    phone = replace(PHONES["steady"], start_s=2.45)
    near = {f"v{number}": 10.0 for number in range(8)}
    sweep = simulate(
        phone, near, PRESETS["race"], seed=1, batches_decide=True, noise=0.01, shared_slower={"v3": 1 / 1.3}
    )
    assert sweep.named == "v3"
    assert sweep.checked is False, "all others left: there is nothing to hold against it"
    near |= {"v4": 13.0}
    misled = {"v3": 0.77, "v4": 0.6}
    sweep = simulate(phone, near, PRESETS["race"], seed=1, batches_decide=True, noise=0.01, shared_slower=misled)
    assert (sweep.checked, sweep.alarm) == (True, True)
