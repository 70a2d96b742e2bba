from dataclasses import asdict, replace
from itertools import pairwise

import numpy as np
import pytest

from tests.benchmarks.noise_forms import NOISE_FORMS
from workers.devices.fake.noise_factors import spread_factor
from workers.devices.fake.phones import PHONES, Phone
from workers.devices.fake.physics import SimulatedBlock, SimulatedPhone

FORMS = [name.removeprefix("judge_") for name in NOISE_FORMS if name.startswith("judge_")]


def block(phone: SimulatedPhone, true_ms: float = 10.0) -> SimulatedBlock:
    return phone.block(
        true_ms, warmup_iterations=0, warmup_seconds=0.2, iterations=5, min_seconds=0.2, max_seconds=60.0
    )


def seconds_between_changes(name: str) -> float:
    """The time for which the phone stays fast, or slow, on average."""
    phone = SimulatedPhone(NOISE_FORMS[name], 0)
    blocks = [block(phone) for _ in range(4000)]
    slow = [block.median_ms > 11.0 for block in blocks]
    return phone.now_s / sum(speed != next_ for speed, next_ in pairwise(slow))


def test_what_a_method_is_judged_by_is_nothing_that_it_was_tuned_on() -> None:
    assert NOISE_FORMS.keys() == {f"{purpose}_{form}" for purpose in ("tune", "judge") for form in FORMS}
    assert not NOISE_FORMS.keys() & PHONES.keys()
    common = asdict(replace(PHONES["cool"], sample_cv=0.03, process_cv=0.01))
    for form in FORMS:
        tuned, judged = asdict(NOISE_FORMS[f"tune_{form}"]), asdict(NOISE_FORMS[f"judge_{form}"])
        own = {field for field in common if {tuned[field], judged[field]} != {common[field]}}
        assert own > {"name"}, form
        assert [field for field in own if tuned[field] == judged[field]] == [], form


def test_clocks_of_two_states_stay_in_one_for_tens_of_seconds_and_bursts_are_short() -> None:
    assert seconds_between_changes("judge_two_states") > 15
    assert seconds_between_changes("judge_bursts") < 10


def test_processes_of_some_variants_differ_more() -> None:
    phone = Phone(name="unequal", sample_cv=0.001, process_cv=0.01, wild_share=0.3, wild_factor=5.0)
    device = SimulatedPhone(phone, 3)
    spreads: dict[float, list[float]] = {1.0: [], 5.0: []}
    for number in range(40):
        true_ms = 5.0 + 0.1 * number
        logs = np.log([block(device, true_ms).median_ms for _ in range(40)])
        spreads[spread_factor(phone, true_ms)].append(float(logs.std(ddof=1)))
    assert 6 <= len(spreads[5.0]) <= 18
    assert np.mean(spreads[5.0]) == pytest.approx(0.05, rel=0.1)
    assert np.mean(spreads[1.0]) == pytest.approx(0.01, rel=0.1)
    assert min(spreads[5.0]) > max(spreads[1.0])


@pytest.mark.parametrize("form", FORMS)
def test_a_phone_that_judges_knows_its_truth(form: str) -> None:
    phone = NOISE_FORMS[f"judge_{form}"]
    device = SimulatedPhone(phone, 2)
    ratios = []
    for _ in range(1500):
        measured = block(device)
        ratios += (measured.samples_ns[:10] / 1e6 / measured.true_p50_ms).tolist()
        device.rest(10.0)
    assert np.median(ratios) == pytest.approx(1.0, rel=0.01)
