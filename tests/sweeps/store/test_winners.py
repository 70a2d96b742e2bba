"""The winners of a ranking, as the sweep's own run has them."""

import json

from sweeps.metrics import METRICS
from sweeps.store.run_content import MAX_TAG_LENGTH
from sweeps.store.winners import winner_metrics, winner_tag, withdrawn


def place(device: str, model: str = "net", **winner: object):
    made = {"name": "n", "job_key": "j", "build_key": "b", **winner} if winner else None
    return {"device_id": device, "model": model, "winner": made, "no_winner_reason": "" if winner else "all failed"}


def ranking(*places):
    return {"devices": list(places)}


def test_the_figures_of_one_winner_have_short_names_and_unknown_ones_are_left_out():
    one = ranking(place("local-1", latency_p50_ms=5.5, top1_percent=None, sqnr_db=float("inf"), runner="x"))
    assert winner_metrics(one) == {"winner_latency_p50_ms": 5.5}
    assert winner_metrics(ranking(place("local-1"))) == {}


def test_winners_of_several_places_are_told_apart():
    places = ranking(place("a", latency_p50_ms=1.0), place("a", "other", latency_p50_ms=2.0), place("b"))
    assert winner_metrics(places) == {
        "winner_latency_p50_ms/a/net": 1.0,
        "winner_latency_p50_ms/a/other": 2.0,
    }


def test_hostile_names_are_names_of_metrics_all_the_same():
    names = ["..", "", "a/b:c\n<script>", "x" * 900, "x" * 901, "☃"]
    found = winner_metrics(ranking(*(place(name, name, latency_p50_ms=1.0) for name in names)))
    assert len(found) == len(names)
    for name in found:
        assert len(name) <= 250
        assert all(part.strip(".") for part in name.split("/"))
        assert name.count("/") == 2
        assert name.isascii()
        assert name.isprintable()


def test_no_request_has_too_many_metrics_and_the_tag_fits():
    figures = dict.fromkeys(METRICS, 1.0)
    many = ranking(*(place(f"phone {number} {'<b>' * 100}", **figures) for number in range(300)))
    assert len(winner_metrics(many)) <= 900
    text = winner_tag(many)
    assert len(text) <= MAX_TAG_LENGTH
    assert json.loads(text)[0]["name"] == "n"
    assert json.loads(winner_tag(ranking(place("a")))) == [
        {"device_id": "a", "model": "net", "no_winner_reason": "all failed"}
    ]


def test_figures_that_are_no_longer_a_winner_s_are_withdrawn_once():
    there = {"winner_latency_p50_ms": 1.0, "winner_top1_percent": 2.0, "winner_top5_percent": float("nan"), "own": 3.0}
    assert withdrawn(there, {"winner_latency_p50_ms": 1.0}) == ["winner_top1_percent"]
