"""Charts are functions of rows; what they say is read from their Vega-Lite."""

import itertools
import json
import random
from typing import Any

import pandas as pd
import pytest

from dashboard.charts import dots, drawing, labels, tradeoff_chart
from dashboard.charts.drawing import STATUS, Spec
from dashboard.charts.heat import HeatCell, HeatRow, heat_map
from dashboard.style import DARK, LIGHT
from sweeps.ranking.eligibility import VERDICTS
from sweeps.spec.objective import ObjectiveSpec

EVIL = "<img src=x onerror=alert(1)> datum.x || warn('y')"


def rows(*entries: tuple[str, str, float, float]) -> pd.DataFrame:
    """(variant, status, p50, accuracy) each, with intervals around both."""
    return pd.DataFrame(
        {
            "job_key": name,
            "variant": name,
            "status": status,
            "latency_p50_ms": p50,
            "latency_ci_low_ms": 0.9 * p50,
            "latency_ci_high_ms": 1.2 * p50,
            "accuracy": accuracy,
            "accuracy_low": accuracy - 0.5,
            "accuracy_high": accuracy + 0.5,
            "verdict": "pass",
            **dict.fromkeys(
                ["latency_text", "latency_short", "interval_text", "accuracy_text", "drop_text", "size_text"], "text"
            ),
        }
        for name, status, p50, accuracy in entries
    )


THREE = rows(("best", "winner", 3.0, 97.4), ("slow", "may ship", 9.0, 97.6), ("bad", "may not ship", 12.0, 80.0))
AXIS = tradeoff_chart.AccuracyAxis("Top-1 (%)")


def layers(chart: Spec, mark: str) -> list[dict[str, Any]]:
    """All layers with this mark, however deep."""
    own = [chart] if isinstance(chart.get("mark"), dict) and chart["mark"]["type"] == mark else []
    return own + [match for layer in chart.get("layer", []) for match in layers(layer, mark)]


def data(chart: Spec) -> list[dict[str, Any]]:
    """The rows of the largest data set."""
    tables = [layer["data"]["values"] for layer in chart["layer"] if "data" in layer]
    return list(max(tables, key=lambda values: (len(values), len(values[0]))))


def without_data(chart: Spec) -> str:
    return json.dumps({**chart, "layer": [{**layer, "data": None} for layer in chart["layer"]]})


def test_dots_stand_in_order_of_rank_below_their_names_and_the_axis_starts_at_zero() -> None:
    chart = dots.latency(THREE, LIGHT)
    rows = data(chart)
    assert [row["name"] for row in rows] == ["best", "slow", "bad"]
    places = [place for row in rows for place in (row["top"], row["dot"])]
    assert places == sorted(places)
    assert places[-1] < chart["height"]
    (dot,) = layers(chart, "point")
    assert dot["encoding"]["x"]["scale"]["zero"] is True
    assert "(ms)" in dot["encoding"]["x"]["axis"]["title"]


def test_a_long_name_is_whole_on_lines_that_a_phone_has_room_for() -> None:
    name = "NNAPI · int8 · NHWC · QNNPACK · 4 threads · partly traced · per channel · calibrated on 100"
    (row,) = data(dots.latency(rows((name, "winner", 3.0, 97.0)), LIGHT))
    assert row["name"].replace("\n", "").replace(" · ", "") == name.replace(" · ", "")
    assert max(map(len, row["name"].split("\n"))) <= drawing.NAME_WIDTH
    (text,) = [
        layer for layer in layers(dots.latency(THREE, LIGHT), "text") if layer["encoding"]["text"]["field"] == "name"
    ]
    assert text["mark"]["limit"] == 0, "Vega cuts nothing"


def test_dots_carry_their_intervals_and_none_begins_at_zero_without_one() -> None:
    table = THREE.assign(latency_ci_low_ms=[2.7, None, 11.0])
    chart = dots.latency(table, LIGHT)
    (spread,) = [rule for rule in layers(chart, "rule") if "x2" in rule["encoding"]]
    assert (spread["encoding"]["x"]["field"], spread["encoding"]["x2"]["field"]) == ("low", "high")
    assert "isValid(datum.low)" in spread["transform"][0]["filter"]
    assert [row["low"] for row in data(chart)] == [2.7, None, 11.0]


def test_a_variant_without_a_time_has_no_dot() -> None:
    assert [row["name"] for row in data(dots.latency(THREE.assign(latency_p50_ms=[3.0, None, 12.0]), LIGHT))] == [
        "best",
        "bad",
    ]


@pytest.mark.parametrize("look", [LIGHT, DARK])
@pytest.mark.parametrize("status", STATUS)
def test_a_status_keeps_its_colour_whatever_else_is_shown(status: str, look: Any) -> None:
    def colour(table: pd.DataFrame) -> str:
        scale = layers(dots.latency(table, look), "point")[0]["encoding"]["color"]["scale"]
        return str(scale["range"][scale["domain"].index(status)])

    everything = rows(*((name, name, 3.0, 97.0) for name in STATUS))
    assert colour(rows(("alone", status, 3.0, 97.0))) == colour(everything)


def test_no_interval_of_an_accuracy_leaves_its_axis() -> None:
    chart = tradeoff_chart.tradeoff(rows(("a", "winner", 3.0, 99.9), ("b", "tied with it", 4.0, 99.0)), AXIS, LIGHT)
    assert {row["most"] for row in data(chart)} == {99.5, 100.0}


def test_a_least_accuracy_below_zero_is_no_line() -> None:
    rows = pd.DataFrame({"accuracy": [0.5], "drop_points": [0.0]})
    objective = ObjectiveSpec()
    most = tradeoff_chart.most_drop(objective)
    assert most == 1.0
    assert tradeoff_chart.AccuracyAxis.of(objective, rows, "top1_percent").least_percent is None
    rows["accuracy"] = [97.0]
    assert tradeoff_chart.AccuracyAxis.of(objective, rows, "top1_percent").least_percent == 96.0


def test_the_accuracy_axis_holds_every_interval_and_both_lines() -> None:
    axis = tradeoff_chart.AccuracyAxis("Top-1 (%)", eager_percent=99.0, least_percent=75.0)
    (points,) = layers(tradeoff_chart.tradeoff(THREE, axis, LIGHT), "point")
    low, high = points["encoding"]["y"]["scale"]["domain"]
    assert low < 75.0
    assert 99.0 < high <= 100.0
    assert points["encoding"]["y"]["axis"]["title"] == "Top-1 (%)"


def test_the_lines_say_what_they_are() -> None:
    axis = tradeoff_chart.AccuracyAxis("Top-1 (%)", eager_percent=97.6, least_percent=96.6)
    assert axis.lines_in_words == "Line: fp32 eager, 97.60 %. Dashed: the least allowed, 96.60 %."
    drawn = tradeoff_chart.tradeoff(THREE, axis, LIGHT)["layer"][:2]
    assert [layer["data"]["values"] for layer in drawn] == [[{"accuracy": 97.6}], [{"accuracy": 96.6}]]


def test_the_winner_is_drawn_over_the_others_and_every_point_can_be_picked() -> None:
    chart = tradeoff_chart.tradeoff(THREE, AXIS, LIGHT)
    assert [row["job_key"] for row in data(chart)] == ["bad", "slow", "best"]
    [picked] = chart["params"]
    assert picked["select"]["fields"] == ["job_key"]
    assert picked["views"] == [point["name"] for point in layers(chart, "point")]


def test_text_of_the_store_reaches_vega_only_as_data() -> None:
    evil = rows((EVIL, "winner", 3.0, 97.4), ("other", "tied with it", 3.1, 97.0))
    for chart in (dots.latency(evil, LIGHT), tradeoff_chart.tradeoff(evil, AXIS, LIGHT)):
        assert "onerror" in json.dumps(chart)
        assert "onerror" not in without_data(chart)
    cell = HeatCell(0, EVIL, EVIL, EVIL, (EVIL,), 1.0, EVIL)
    assert "onerror" not in without_data(heat_map([EVIL], [HeatRow(EVIL, (cell,), EVIL)], LIGHT))


def test_the_front_leaves_out_what_is_slower_and_no_more_accurate() -> None:
    table = rows(("a", "winner", 3.0, 97.0), ("b", "tied with it", 4.0, 97.0), ("c", "tied with it", 5.0, 98.0))
    assert tradeoff_chart.front_keys(table) == {"a", "c"}


@pytest.mark.parametrize("verdict", [*(verdict for verdict in VERDICTS if verdict != "pass"), "eliminated"])
def test_the_line_of_best_trade_offs_joins_only_what_may_win(verdict: str) -> None:
    table = rows(
        ("a", "winner", 3.0, 97.0), ("c", "may ship", 5.0, 98.0), ("fast and right", "may not ship", 2.0, 99.0)
    ).assign(verdict=["pass", "pass", verdict])
    chart = tradeoff_chart.tradeoff(table, AXIS, LIGHT)
    assert {row["job_key"] for row in data(chart) if row["front"]} == {"a", "c"}
    (line,) = layers(chart, "line")
    assert line["transform"] == [{"filter": "datum.front"}]


def test_the_winner_has_a_name_at_every_width_and_others_where_there_is_room() -> None:
    long = "int8 · NHWC · QNNPACK · 4 threads · scripted"
    table = rows(
        (f"{long} 1", "winner", 3.0, 97.0),
        (f"{long} 2", "tied with it", 3.01, 97.0),
        (f"{long} 3", "tied with it", 3.02, 97.01),
        ("slow", "may ship", 9.0, 96.0),
        ("accurate", "may ship", 8.0, 99.0),
    )
    points = {point["job_key"]: point for point in data(tradeoff_chart.tradeoff(table, AXIS, LIGHT))}
    for number in range(len(labels.FROM_PX)):
        named = {key for key, point in points.items() if point[f"text{number}"]}
        assert f"{long} 1" in named
        assert "slow" not in named, "it is behind the front: its name is in its tooltip"
        whole = points[f"{long} 1"][f"text{number}"].replace("\n", " ")
        assert whole.replace(" ·", "") == f"{long} 1".replace(" ·", "")
    assert "accurate" in named, "a wide chart has room for all of the front"
    assert f"{long} 2" not in named or f"{long} 3" not in named


@pytest.mark.parametrize("width", [230, 400, 640, 1000])
@pytest.mark.parametrize("seed", range(5))
def test_no_name_lies_on_another_one_or_on_a_point_or_leaves_the_chart(width: int, seed: int) -> None:
    draws = random.Random(seed)
    points = [(draws.uniform(24, width - 24), draws.uniform(14, 386)) for _ in range(14)]
    names = [" · ".join(["int8", "NHWC", "QNNPACK", "4 threads", "scripted"][: 1 + number % 5]) for number in range(14)]
    boxes = []
    for (x, y), label in zip(points, labels.placed(points, names, range(14), width, 400), strict=True):
        if label is None:
            continue
        lines = label.text.split("\n")
        wide = 6 * max(map(len, lines))
        left = x + labels.BESIDE_PX if label.align == "left" else x - labels.BESIDE_PX - wide
        boxes.append((left, y + label.dy, left + wide, y + label.dy + labels.LINE_PX * len(lines)))
    assert len(boxes) > 1
    dots = [(x - 5, y - 5, x + 5, y + 5) for x, y in points]
    for (left, top, right, bottom), other in itertools.product(boxes, [*boxes, *dots]):
        if (left, top, right, bottom) != other:
            assert right <= other[0] or other[2] <= left or bottom <= other[1] or other[3] <= top
        assert left >= 0
        assert right <= width
        assert top >= 0
        assert bottom <= 400


@pytest.mark.parametrize(("y", "above"), [(14, False), (200, True), (386, True)])
def test_a_name_stands_above_its_point_or_where_that_leaves_the_chart_below_it(y: int, above: bool) -> None:
    [label] = labels.placed([(100.0, y)], ["int8"], [0], 640, 400)
    assert label is not None
    assert (label.dy < 0) == above
    crowded = [(x, 386.0) for x in (90, 100, 110)]
    placed = labels.placed(crowded, ["int8 · NHWC"] * 3, range(3), 640, 400)
    assert [label is not None and label.dy < 0 for label in placed] == [True, True, False], "one to each side"
    assert placed[2] is None, "beneath the last row are the figures of the axis"


def checks(*entries: tuple[str, str, float | None]) -> pd.DataFrame:
    """(variant, status, drop) each, with an interval around it."""
    return pd.DataFrame(
        {
            "variant": variant,
            "status": status,
            "drop_points": drop,
            "drop_low_points": None if drop is None else drop - 0.5,
            "drop_high_points": None if drop is None else drop + 0.5,
        }
        for variant, status, drop in entries
    )


CHECKED = checks(("a", "constraints kept", 0.1), ("b", "constraint missed", 9.0), ("c", "unresolved", None))


def test_checked_variants_stand_in_order_with_their_drops_and_intervals() -> None:
    chart = dots.drops(CHECKED, None, LIGHT)
    assert [(row["name"], row["drop"], row["low"]) for row in data(chart)] == [("a", 0.1, -0.4), ("b", 9.0, 8.5)]
    (point,) = layers(chart, "point")
    assert "points of top-1" in point["encoding"]["x"]["axis"]["title"]
    (interval,) = layers(chart, "rule")
    assert (interval["encoding"]["x"]["field"], interval["encoding"]["x2"]["field"]) == ("low", "high")


def test_the_most_that_the_objective_allows_is_a_line_with_its_name() -> None:
    assert '"drop": 1.0, "text": "most allowed: 1 points"' in json.dumps(dots.drops(CHECKED, 1.0, LIGHT))


def test_a_check_keeps_its_colour_whatever_else_is_shown() -> None:
    def colour(table: pd.DataFrame, status: str) -> str:
        scale = layers(dots.drops(table, None, LIGHT), "point")[0]["encoding"]["color"]["scale"]
        return str(scale["range"][scale["domain"].index(status)])

    everything = checks(*((name, name, 0.1) for name in dots.CHECKS))
    assert len({colour(everything, status) for status in dots.CHECKS}) == len(dots.CHECKS)
    for status in dots.CHECKS:
        assert colour(checks(("alone", status, 0.1)), status) == colour(everything, status)


def test_a_heat_map_has_no_text_over_another_and_says_what_a_click_opens() -> None:
    def cell(column: int, *lines: str) -> HeatCell:
        return HeatCell(column, "phone", "net", "key", lines, 1.0, "tip", has_ring=not column)

    row = HeatRow("Phone", (cell(0, "a long name · of a build", "3 ms"), cell(1, "x")))
    chart = heat_map(["one", "two"], [row, row], LIGHT, characters=13)
    texts = [row for layer in chart["layer"] for row in layer["data"]["values"] if "bold" in row and row["column"] == 0]
    assert [text["text"] for text in texts] == ["a long name", "of a build", "3 ms"] * 2
    places = [row["y"] for row in texts]
    assert places == sorted(set(places))
    cells = [row for layer in chart["layer"] for row in layer["data"]["values"] if "ring" in row]
    assert all(row["y"] < row["y2"] < chart["height"] for row in cells)
    assert {row["ring"] == row["fill"] for row in cells if row["column"] == 0} == {False}
    assert chart["params"][0]["select"]["fields"] == ["device", "model", "job"]


def test_a_cell_is_the_paler_the_more_its_build_costs() -> None:
    def fill(cost: float | None) -> str:
        cell = HeatCell(0, "d", "m", "j", ("x",), cost, "")
        chart = heat_map([""], [HeatRow("d", (cell,))], LIGHT)
        return next(row["fill"] for layer in chart["layer"] for row in layer["data"]["values"] if "fill" in row)

    reds = [int(fill(cost)[1:3], 16) for cost in (1.0, 1.2, 1.6, 2.6)]
    assert reds == sorted(set(reds))
    assert fill(2.6) == fill(9.0) == LIGHT.worst
    assert fill(None) == LIGHT.empty
