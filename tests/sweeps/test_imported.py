"""Figures of hand-run tools: what they are called, where they belong, and what they never touch."""

import json
from dataclasses import replace

import pytest

from sweeps.errors import EdgeSweepError
from sweeps.imported import MAX_WORDS, NOTE, Imported, describe
from sweeps.journal.journal import Journal
from sweeps.ranking.document import ranking_document
from sweeps.ranking.rank import rank
from sweeps.report.ranking_text import print_ranking
from sweeps.results import to_frame
from sweeps.spec.objective import ObjectiveSpec
from sweeps.tool_logs.log import ToolLog

FREE = ObjectiveSpec(constraints=())
LOG = ToolLog("speed_benchmark_torch", 121.318, None, ())
WITH_SAMPLES = replace(LOG, iterations=3, samples_ns=(100_000_000, 130_000_000, 120_000_000))
EVIL = "<script>alert(1)</script> **b** [x](javascript:y) \x1b[31m\x1b]0;t\x07"


@pytest.fixture
def imported(records):
    """The record of one log, as the command makes it."""

    def make(log: ToolLog = LOG, **changes: object) -> Imported:
        arguments = {
            "variant": "cpu fp32",
            "device": "my phone",
            "model": None,
            "iterations": None,
            "models": ["net"],
            "devices": (records.facts,),
            "file_name": "log.txt",
            "sha256": "a" * 64,
            "now": "2026-11-21T22:00:00.000000+00:00",
        }
        return describe(log, **(arguments | changes))

    return make


def test_a_log_becomes_a_record_with_its_mean_and_its_provenance(imported) -> None:
    assert imported() == Imported(
        model="net",
        variant="cpu fp32",
        device="my phone",
        device_id="",
        tool="speed_benchmark_torch",
        mean_ms=121.318,
        iterations=None,
        p50_ms=None,
        log="log.txt",
        log_sha256="a" * 64,
        imported="2026-11-21T22:00:00.000000+00:00",
    )


def test_a_median_and_a_number_of_iterations_come_from_the_samples(imported) -> None:
    figure = imported(WITH_SAMPLES)
    assert (figure.p50_ms, figure.iterations) == (120.0, 3)
    assert imported(WITH_SAMPLES, iterations=3) == figure


def test_iterations_are_the_user_s_where_the_log_does_not_say_else_the_log_s(imported) -> None:
    assert imported(iterations=200).iterations == 200
    with pytest.raises(EdgeSweepError, match="the log has 3 iterations, and --iterations says 200"):
        imported(WITH_SAMPLES, iterations=200)


@pytest.mark.parametrize("name", ["local-1", "local", "LOCAL", "Maker Board's 3 (SoC <b>)"])
def test_a_device_of_the_sweep_goes_by_its_id_its_name_or_its_class(imported, records, name: str) -> None:
    figure = imported(device=name)
    assert (figure.device_id, figure.device) == ("local-1", records.facts.device_class)


def test_two_units_of_one_class_have_to_be_told_apart(imported, records) -> None:
    units = tuple(replace(records.facts, device_id=unit, name=unit) for unit in ("u1", "u2"))
    assert imported(device="u2", devices=units).device_id == "u2"
    with pytest.raises(EdgeSweepError, match="has 2 devices") as caught:
        imported(device=records.facts.device_class, devices=units)
    assert "u1, u2" in caught.value.next_step


def test_the_model_is_the_only_one_the_named_one_or_what_the_variant_begins_with(imported) -> None:
    several = ["net", "nut"]
    assert imported(models=several, model="nut").model == "nut"
    whole = imported(models=several, variant="nut · cpu fp32")
    assert (whole.model, whole.variant) == ("nut", "cpu fp32")
    with pytest.raises(EdgeSweepError, match="has 2 models") as caught:
        imported(models=several)
    assert "net, nut" in caught.value.next_step
    with pytest.raises(EdgeSweepError, match="no model 'nit'") as caught:
        imported(models=several, model="nit")
    assert "did you mean" in caught.value.next_step


@pytest.mark.parametrize("option", ["variant", "device"])
def test_texts_of_the_user_are_one_line_without_control_characters(imported, option: str) -> None:
    figure = imported(**{option: f"  a\n\tb {EVIL} \ud800 "})
    text = getattr(figure, option)
    assert text.startswith("a b <script>")
    assert text.isprintable()
    for wrong in ("", "  \n", "x" * (MAX_WORDS + 1)):
        with pytest.raises(EdgeSweepError, match=f"--{option} has"):
            imported(**{option: wrong})


def test_the_name_of_the_file_is_one_line_too(imported) -> None:
    assert imported(file_name="a\nb\x1b.txt").log == "a b\N{REPLACEMENT CHARACTER}.txt"
    assert len(imported(file_name="x" * 255).log) == MAX_WORDS


def test_the_same_log_of_the_same_variant_on_the_same_device_is_one_figure(imported) -> None:
    figure = imported()
    assert imported(now="2027-01-01T00:00:00.000000+00:00", file_name="other.txt").key == figure.key
    different = [imported(sha256="b" * 64), imported(variant="cpu int8"), imported(device="local")]
    assert len({figure.key, *(other.key for other in different)}) == 4


def test_the_journal_takes_each_figure_once_for_each_sweep(imported, records, tmp_path) -> None:
    with Journal.open(tmp_path / "journal.sqlite") as journal:
        journal.save_plan(records.plan(records.job(0)))
        journal.save_plan(records.plan(records.job(0), name="others"))
        first, second = imported(), imported(sha256="b" * 64)
        assert journal.imports.add("phones", first)
        assert journal.imports.add("phones", second)
        assert not journal.imports.add("phones", replace(first, imported="later"))
        assert journal.imports.add("others", first)
    with Journal.open(tmp_path / "journal.sqlite", read_only=True) as journal:
        assert journal.imports.of_sweep("phones") == (first, second)
        assert journal.imports.of_sweep("others") == (first,)


def test_figures_stand_beneath_their_device_and_change_nothing_of_the_ranking(imported, records) -> None:
    frame = to_frame([records.row(records.job(0)), records.row(records.job(1), ms=20.0)])
    slow, fast = imported(device="local"), imported(replace(LOG, mean_ms=0.001), device="local", sha256="b" * 64)
    apart = imported()
    ranked = rank(frame, FREE, "s", imported=[slow, apart, fast])
    assert ranked.devices[0].imported == (fast, slow)
    assert ranked.imported == (apart,)

    document, without = ranking_document(ranked), ranking_document(rank(frame, FREE, "s"))
    json.dumps(document, allow_nan=False)
    assert [figure["mean_ms"] for figure in document["devices"][0].pop("imported")] == [0.001, 121.318]
    assert document.pop("imported")[0]["log_sha256"] == "a" * 64
    assert (without["devices"][0].pop("imported"), without.pop("imported")) == ([], [])
    assert document == without


def test_another_model_of_a_ranked_device_stands_apart(imported, records) -> None:
    other = imported(device="local", model="nut", models=["net", "nut"])
    ranked = rank(to_frame([records.row(records.job(0))]), FREE, "s", imported=[other])
    assert (ranked.devices[0].imported, ranked.imported) == ((), (other,))


def test_with_a_device_named_only_its_figures_are_shown(imported, records) -> None:
    frame = to_frame([records.row(records.job(0))])
    figures = [imported(device="local"), imported(device="iPhone X"), imported(device="Maker Phone (mine)")]
    ranked = rank(frame, FREE, "s", "maker phone", figures)
    assert ranked.devices[0].imported == (figures[0],)
    assert ranked.imported == (figures[2],)


def test_the_terminal_shows_them_beneath_the_ranking_as_plain_text(imported, records, capsys) -> None:
    local = imported(WITH_SAMPLES, device="local", variant=EVIL)
    apart = imported(device=EVIL, file_name=f"{EVIL}.txt", iterations=50)
    print_ranking(rank(to_frame([records.row(records.job(0))]), FREE, "s", imported=[local, apart]))
    text = capsys.readouterr().out
    assert "\x1b" not in text
    assert "\x07" not in text
    lines = [line.strip() for line in text.splitlines()]
    ranking, first, second = (
        next(n for n, line in enumerate(lines) if line.startswith(start))
        for start in ("1   cpu fp32 nchw script", NOTE, f"{NOTE}; there is no ranking of these devices")
    )
    assert ranking < first < second
    beneath = " ".join(lines[first:second])
    assert "<script>alert(1)</script> **b** [x](javascript:y)" in beneath
    for part in ("121.318", " 3 ", "120.000", "speed_benchmark_torch, log.txt (aaaaaaaaaaaa), 2026-11-21"):
        assert part in beneath
    assert " 50 " in " ".join(lines[second:])
