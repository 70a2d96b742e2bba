"""Metrics of a runner's own: which names and figures are taken."""

import math

import pytest

from sweeps.metrics import METRICS, checked_extra
from sweeps.ranking.amounts import amount


def test_a_figure_of_a_runner_s_own_is_kept_as_a_float() -> None:
    assert checked_extra({"tokens_per_s": 12, "energy_mj": 0.5}) == {"tokens_per_s": 12.0, "energy_mj": 0.5}


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 10**400, True, "12", None])
def test_what_is_no_finite_number_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="tokens_per_s is no finite number"):
        checked_extra({"tokens_per_s": value})


@pytest.mark.parametrize("name", ["latency_p50_ms", "block_median_ms", "Tokens", "a b", "", "x" * 65])
def test_a_name_that_a_metric_has_or_that_is_no_plain_word_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="cannot be the name of an extra metric"):
        checked_extra({name: 1.0})


@pytest.mark.parametrize(
    ("mb", "shown", "short"),
    [
        (0.0042, "4.2 kB", "4.20 kB"),
        (0.0999, "99.9 kB", "99.9 kB"),
        (0.1, "0.10 MB", "0.100 MB"),
        (0.0, "0.00 MB", "0.00 MB"),
    ],
)
def test_sizes_below_a_tenth_of_a_megabyte_are_in_kilobytes(mb: float, shown: str, short: str) -> None:
    assert METRICS["artifact_mb"].format(mb) == shown
    assert amount({"artifact_mb": mb}, "artifact_mb") == short
