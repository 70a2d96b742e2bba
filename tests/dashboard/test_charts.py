"""Charts are functions of rows; what they say is read from their Vega-Lite."""

import json
from typing import Any

import pandas as pd
import pytest

from dashboard import charts
from sweeps.ranking.verdict import VERDICTS

EVIL = "<img src=x onerror=alert(1)> datum.x || warn('y')"


def rows(*entries: tuple[str, str, float, float]) -> pd.DataFrame:
    """(label, status, p50, accuracy) each, with intervals around both."""
    return pd.DataFrame(
        {
            "job_key": label,
            "place": str(number),
            "label": label,
            "status": status,
            "latency_p50_ms": p50,
            "latency_ci_low_ms": 0.9 * p50,
            "latency_ci_high_ms": 1.2 * p50,
            "latency_end_ms": 1.2 * p50,
            "accuracy": accuracy,
            "accuracy_low": accuracy - 0.5,
            "accuracy_high": accuracy + 0.5,
            "verdict": "pass",
            **dict.fromkeys(
                ["latency_text", "latency_short", "interval_text", "accuracy_text", "drop_text", "size_text"], "text"
            ),
            "trust_text": "ungated",
        }
        for number, (label, status, p50, accuracy) in enumerate(entries, 1)
    )


THREE = rows(
    ("best", "recommended", 3.0, 97.4), ("slow", "ranked behind", 9.0, 97.6), ("bad", "constraint missed", 12.0, 80.0)
)


def layers(chart: charts.Chart, mark: str) -> list[dict[str, Any]]:
    """All layers with this mark, however deep."""

    def walk(part: dict[str, Any]) -> list[dict[str, Any]]:
        here = [part] if "mark" in part and part["mark"]["type"] == mark else []
        return here + [found for layer in part.get("layer", []) for found in walk(layer)]

    return walk(chart.to_dict())


def without_data(chart: charts.Chart) -> str:
    document = chart.to_dict()
    del document["datasets"]
    return json.dumps(document)


def test_bars_stand_in_order_of_rank_and_start_at_zero() -> None:
    (bar,) = layers(charts.latency(THREE), "bar")
    assert bar["encoding"]["y"]["sort"] == ["best", "slow", "bad"]
    assert bar["encoding"]["x"]["scale"]["zero"] is True


def test_bars_carry_their_intervals_with_the_unit_on_the_axis() -> None:
    edge, whisker = layers(charts.latency(THREE), "rule")
    for rule in (edge, whisker):
        assert rule["encoding"]["x"]["field"] == "latency_ci_low_ms"
        assert rule["encoding"]["x2"]["field"] == "latency_ci_high_ms"
    colours = [rule["mark"]["color"] for rule in (edge, whisker)]
    assert colours[0] != colours[1], "seen on a light background and on a dark one"
    (bar,) = layers(charts.latency(THREE), "bar")
    assert "(ms)" in bar["encoding"]["x"]["title"]


def test_no_interval_of_an_accuracy_leaves_its_axis() -> None:
    chart = charts.tradeoff(
        rows(("a", "recommended", 3.0, 99.9), ("b", "equal to it", 4.0, 99.0)), charts.AccuracyAxis("Top-1 (%)")
    )
    drawn = [row for part in chart.to_dict()["datasets"].values() for row in part if "accuracy_high" in row]
    assert {row["accuracy_high"] for row in drawn} == {99.5, 100.0}


def test_a_variant_without_a_time_has_no_bar() -> None:
    table = THREE.assign(latency_p50_ms=[3.0, None, 12.0])
    (bar,) = layers(charts.latency(table), "bar")
    assert bar["encoding"]["y"]["sort"] == ["best", "bad"]


def test_a_legend_has_room_beside_long_names() -> None:
    """At 1280 pixels a third column was cut off."""
    found = json.dumps(charts.latency(THREE).to_dict())
    assert '"columns": 2' in found
    assert '"columns": 3' not in found


@pytest.mark.parametrize("status", charts.STATUS)
def test_a_status_keeps_its_colour_whatever_else_is_shown(status: str) -> None:
    def colour(table: pd.DataFrame) -> str:
        scale = layers(charts.latency(table), "bar")[0]["encoding"]["color"]["scale"]
        return str(scale["range"][scale["domain"].index(status)])

    everything = rows(*((name, name, 3.0, 97.0) for name in charts.STATUS))
    assert colour(rows(("alone", status, 3.0, 97.0))) == colour(everything)


def test_the_accuracy_axis_holds_every_interval_and_both_lines() -> None:
    axis = charts.AccuracyAxis("Top-1 (%)", eager_percent=99.0, least_percent=75.0)
    (points,) = layers(charts.tradeoff(THREE, axis), "point")
    low, high = points["encoding"]["y"]["scale"]["domain"]
    assert low < 75.0
    assert 99.0 < high <= 100.0
    assert points["encoding"]["y"]["title"] == "Top-1 (%)"


def test_the_lines_say_what_they_are() -> None:
    axis = charts.AccuracyAxis("Top-1 (%)", eager_percent=97.6, least_percent=96.6)
    texts = json.dumps(charts.tradeoff(THREE, axis).to_dict()["datasets"])
    assert "fp32 eager|97.60 %" in texts
    assert "least allowed|96.60 %" in texts


def test_the_recommended_point_is_drawn_over_the_others() -> None:
    chart = charts.tradeoff(THREE, charts.AccuracyAxis("Top-1 (%)")).to_dict()
    names = [
        [row["label"] for row in data] for data in chart["datasets"].values() if len(data) == 3 and "label" in data[0]
    ]
    assert ["bad", "slow", "best"] in names


def test_text_of_the_store_reaches_vega_only_as_data() -> None:
    evil = rows((EVIL, "recommended", 3.0, 97.4), ("other", "not told apart", 3.1, 97.0))
    (bar,) = layers(charts.latency(evil), "bar")
    assert bar["encoding"]["y"].pop("sort") == [EVIL, "other"]
    assert "onerror" not in without_data(charts.tradeoff(evil, charts.AccuracyAxis("Top-1 (%)")))


def test_the_front_leaves_out_what_is_slower_and_no_more_accurate() -> None:
    table = rows(("a", "recommended", 3.0, 97.0), ("b", "equal to it", 4.0, 97.0), ("c", "not told apart", 5.0, 98.0))
    assert charts.front_keys(table) == {"a", "c"}


@pytest.mark.parametrize("verdict", [*(one for one in VERDICTS if one != "pass"), "eliminated"])
def test_the_line_of_best_trade_offs_joins_only_what_may_win(verdict: str) -> None:
    table = rows(
        ("a", "recommended", 3.0, 97.0),
        ("c", "ranked behind", 5.0, 98.0),
        ("fast and right", "disqualified", 2.0, 99.0),
    ).assign(verdict=["pass", "pass", verdict])
    assert charts.front_keys(table) == {"a", "c"}
    chart = charts.tradeoff(table, charts.AccuracyAxis("Top-1 (%)"))
    (line,) = layers(chart, "line")
    joined = chart.to_dict()["datasets"][line["data"]["name"]]
    assert {row["label"] for row in joined} == {"a", "c"}
    (points,) = layers(chart, "point")
    assert points["encoding"]["shape"]["scale"]["domain"] == ["recommended", "ranked behind", "disqualified"]


def test_ranks_of_points_that_would_cover_each_other_stand_together() -> None:
    table = rows(
        ("a", "recommended", 3.0, 97.0), ("b", "equal to it", 3.1, 97.0), ("c", "ranked behind", 9.0, 97.0)
    ).assign(place=["1=", "1=", "3"])
    assert charts.places_beside(table) == ["1=", "", "3"]
    assert charts.places_beside(table.assign(place=["1", "1?", "3"])) == ["1, 1?", "", "3"]
    assert charts.places_beside(table.assign(place=["1?", "1", "3"])) == ["1, 1?", "", "3"], "drawn the other way round"
    assert charts.places_beside(table.assign(place=["2", "1", ""])) == ["1, 2", "", ""]


def checks(*entries: tuple[str, str, float | None]) -> pd.DataFrame:
    """(variant, status, drop) each, with an interval around it."""
    return pd.DataFrame(
        {
            "variant": variant,
            "status": status,
            "drop_points": drop,
            "drop_low_points": None if drop is None else drop - 0.5,
            "drop_high_points": None if drop is None else drop + 0.5,
            "executor": "reference:nnapi@1",
            **dict.fromkeys(["accuracy_text", "drop_text", "drop_interval_text", "sqnr_text"], "text"),
        }
        for variant, status, drop in entries
    )


CHECKED = checks(("a", "constraints kept", 0.1), ("b", "constraint missed", 9.0), ("c", "unresolved", None))


def test_checked_variants_stand_in_order_with_their_drops_and_intervals() -> None:
    chart = charts.drops(CHECKED, None)
    (point,) = layers(chart, "point")
    assert point["encoding"]["y"]["sort"] == ["a", "b"]
    assert point["encoding"]["x"]["field"] == "drop_points"
    assert "points of top-1" in point["encoding"]["x"]["title"]
    (interval,) = layers(chart, "rule")
    assert (interval["encoding"]["x"]["field"], interval["encoding"]["x2"]["field"]) == (
        "drop_low_points",
        "drop_high_points",
    )


def test_the_most_that_the_objective_allows_is_a_line_with_its_name() -> None:
    document = charts.drops(CHECKED, 1.0).to_dict()
    assert [{"drop_points": 1.0, "text": "most allowed"}] in document["datasets"].values()


def test_a_check_keeps_its_colour_whatever_else_is_shown() -> None:
    def colour(table: pd.DataFrame, status: str) -> str:
        scale = layers(charts.drops(table, None), "point")[0]["encoding"]["color"]["scale"]
        return str(scale["range"][scale["domain"].index(status)])

    everything = checks(*((name, name, 0.1) for name in charts.CHECKS))
    assert len({colour(everything, status) for status in charts.CHECKS}) == len(charts.CHECKS)
    for status in charts.CHECKS:
        assert colour(checks(("alone", status, 0.1)), status) == colour(everything, status)


def test_text_of_the_store_reaches_the_chart_of_checks_only_as_data() -> None:
    chart = charts.drops(checks((EVIL, "constraints kept", 0.1)).assign(executor=EVIL), 1.0)
    (point,) = layers(chart, "point")
    assert point["encoding"]["y"]["sort"] == [EVIL]
    assert without_data(chart).count("onerror") == without_data(chart).count("sort")
