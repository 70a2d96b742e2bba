from collections.abc import Mapping

import pytest

from sweeps.json_records import from_json, to_json
from sweeps.protocol.presets import PRESETS, Protocol, resolve
from sweeps.protocol.resolvable_difference import Calibration, rounds_for
from sweeps.protocol.rounds_for_noise import MOST_ROUNDS, rounds_by_device
from sweeps.spec.protocol import ProtocolSpec

QUICK, FULL = ProtocolSpec(preset="quick"), ProtocolSpec(preset="full")


def noise(process: float, sampling: float = 0.0) -> Calibration:
    """The noise by blocks of 0.5 s, as those of `quick`."""
    block = (process**2 + sampling**2) ** 0.5
    return Calibration(
        blocks=40,
        left_out=0,
        sessions=1,
        p50_ms=10.0,
        block=block,
        block_low=0.8 * block,
        block_high=1.3 * block,
        sampling=sampling,
        process=process,
        slow=None,
        session=0.025,
        block_s=3.0,
        warm_up_s=0.2,
        timed_s=0.5,
    )


def rounds(spec: ProtocolSpec, process: float, before: int = 0, sampling: float = 0.0) -> int | None:
    had: Mapping[str, int] = {"phone": before} if before else {}
    return dict(rounds_by_device(spec, resolve(spec), {"phone": noise(process, sampling)}, had)).get("phone")


@pytest.mark.parametrize(("spec", "name"), [(QUICK, "quick"), (ProtocolSpec(), "quick"), (FULL, "full")])
def test_a_preset_has_the_rounds_that_tell_5_percent_apart_within_its_limits(spec: ProtocolSpec, name: str) -> None:
    assert rounds(spec, 0.002) is None, "three are enough"
    needed = rounds_for(0.02)
    assert needed is not None
    assert 3 < needed < MOST_ROUNDS[name]
    assert rounds(spec, 0.02) == needed
    assert rounds(spec, 0.2) == MOST_ROUNDS[name]
    assert rounds(spec, 20.0) == MOST_ROUNDS[name], "no number of rounds is enough"


def test_blocks_that_measure_longer_need_fewer_rounds() -> None:
    quick, full = rounds(QUICK, 0.002, sampling=0.02), rounds(FULL, 0.002, sampling=0.02)
    assert quick is not None
    assert full is None, "four times as long"


@pytest.mark.parametrize(
    "spec",
    [
        ProtocolSpec(preset="quick", rounds=3),
        ProtocolSpec(preset="full", rounds=2),
        ProtocolSpec(preset="recipe"),
    ],
)
def test_the_sweep_file_and_presets_of_another_kind_keep_their_rounds(spec: ProtocolSpec) -> None:
    assert rounds(spec, 0.2, before=5) is None


def test_a_race_has_no_fixed_rounds() -> None:
    for spec in (ProtocolSpec(), FULL):
        assert rounds_by_device(spec, resolve(spec, "race"), {"phone": noise(0.2)}, {}) == ()


def test_max_rounds_of_the_sweep_file_limits_them() -> None:
    assert rounds(ProtocolSpec(preset="full", max_rounds=7), 0.2) == 7
    assert rounds(ProtocolSpec(preset="quick", max_rounds=5), 0.2) == 5
    assert rounds(ProtocolSpec(preset="quick", max_rounds=20), 0.2) == MOST_ROUNDS["quick"]


def test_they_become_more_and_never_fewer() -> None:
    assert rounds(QUICK, 0.002, before=5) == 5
    assert rounds(QUICK, 0.2, before=5) == MOST_ROUNDS["quick"]
    assert rounds_by_device(QUICK, resolve(QUICK), {}, {"phone": 4}) == (("phone", 4),), "its calibration is gone"


def test_the_protocol_of_a_device_has_its_rounds_and_is_stored_as_before_without_any() -> None:
    quick = PRESETS["quick"]
    assert "rounds_on" not in to_json(quick)
    several = Protocol(**{name: getattr(quick, name) for name in quick.__slots__} | {"rounds_on": (("phone", 5),)})
    assert from_json(Protocol, to_json(several)) == several
    assert (several.on("phone").rounds, several.on("phone").last_round) == (5, 5)
    assert several.on("other") == quick
    assert several.comparable() == quick.comparable()
