"""Units of one class are compared to see whether they are alike."""

import pytest

from sweeps.protocol.units import differing, slightly_different

USUAL = [10.0, 10.1, 9.9]


def times(factor: float) -> list[float]:
    return [factor * value for value in USUAL]


def test_units_within_the_spread_of_processes_are_alike():
    assert differing({"a": USUAL, "b": [10.1, 10.0, 10.2], "c": [9.9, 10.2, 10.0]}) == {}


def test_the_unit_that_differs_is_found_with_its_ratio_and_interval():
    ratio_of = differing({"a": USUAL, "b": times(1.3), "c": times(1.001)})
    assert list(ratio_of) == ["b"]
    assert ratio_of["b"].value == pytest.approx(1.3, rel=0.001)
    assert 1.2 < ratio_of["b"].low < 1.3 < ratio_of["b"].high < 1.4


def test_a_faster_unit_differs_too():
    assert list(differing({"a": times(0.8), "b": USUAL, "c": times(1.001)})) == ["a"]


def test_two_units_that_differ_are_found_the_farther_one_first():
    assert list(differing({"a": USUAL, "b": times(1.2), "c": times(2.0), "d": USUAL, "e": USUAL})) == ["c", "b"]


def test_of_two_units_that_differ_the_later_one_is_left_out():
    assert list(differing({"a": times(1.5), "b": USUAL})) == ["b"]
    assert list(differing({"b": USUAL, "a": times(1.5)})) == ["a"]


def test_a_difference_below_two_percent_is_none_however_sure_it_is():
    exact = {"a": [10.0, 10.0001, 9.9999], "b": [10.15, 10.1501, 10.1499]}
    assert differing(exact) == {}
    assert list(differing(exact | {"b": [10.25, 10.2501, 10.2499]})) == ["b"]
    for medians_ms, named in ((exact, ["b"]), (exact | {"c": exact["a"]}, ["b"]), (exact | {"b": times(1.5)}, [])):
        assert list(slightly_different(medians_ms)) == named
    assert slightly_different(exact)["b"].value == pytest.approx(1.015, rel=1e-4)
    assert slightly_different({"a": USUAL, "b": times(1.001)}) == slightly_different({"a": USUAL}) == {}


def test_a_difference_within_a_wide_interval_is_none():
    assert differing({"a": [8.0, 10.0, 12.0], "b": [9.0, 11.0, 13.0]}) == {}


def test_one_unit_and_none_are_alike():
    assert differing({"a": USUAL}) == differing({}) == {}
