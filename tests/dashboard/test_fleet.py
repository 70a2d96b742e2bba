"""Fleet as Streamlit runs it, and what its cells say."""

import io
import json
import shutil
import sqlite3
import zipfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import Any

import pytest
import streamlit as st
from streamlit.delta_generator import DeltaGenerator
from streamlit.testing.v1 import AppTest

from dashboard import data, downloads, fleet_cells, fleet_data
from dashboard.charts.heat import TINTS, HeatRow
from dashboard.fleet_cells import STATES, state_text
from dashboard.markdown_escape import NOTHING
from dashboard.style import LIGHT
from dashboard.views import every_result, fleet
from sweeps.errors import EdgeSweepError
from sweeps.journal.result_place import Place
from sweeps.quarantine import QuarantineBook
from sweeps.ranking.build_costs import Cell, CellState
from sweeps.ranking.overview import PlaceVerdict, waiting_place
from sweeps.records import Job
from sweeps.spec.grid import GridSpec
from sweeps.store.fleet import SweepSum
from sweeps.workspace import Workspace
from tests.dashboard.conftest import BOARD, PHONE, WIDE, Recorder, by_axes

Page = Callable[..., AppTest]


def texts(page: AppTest) -> str:
    return "\n".join(str(part.value) for part in (*page.markdown, *page.caption, *page.header, *page.text))


def buttons(page: AppTest) -> list[str]:
    """List the labels of the buttons that download something."""
    return [part.proto.label for part in page.get("download_button")]


def cells(page: AppTest) -> list[dict[str, Any]]:
    """List the cells of the wide map."""
    spec = json.loads(page.get("vega_lite_chart")[0].proto.spec)
    return [row for layer in spec["layer"] for row in layer["data"]["values"] if "device" in row]


def test_what_the_database_sums_up_is_what_all_verdicts_say(workspace: Path) -> None:
    now = data.source(workspace)
    assert now is not None
    verdicts, standing = data.verdicts(now, workspace), fleet_data.standing(now)
    assert set(standing.sums) == {verdict.sweep for verdict in verdicts}
    for sweep, total in standing.sums.items():
        of_sweep = [verdict for verdict in verdicts if verdict.sweep == sweep]
        places = {verdict.place: verdict for verdict in of_sweep if not verdict.part}
        winners = [verdict for verdict in of_sweep if verdict.winner]
        assert total == SweepSum(
            sweep=sweep,
            places=len(places),
            decided=len({verdict.place for verdict in of_sweep if verdict.state == "winner"}),
            finished=sum(verdict.finished for verdict in places.values()),
            waiting=sum(verdict.waiting for verdict in places.values()),
            builds=len({verdict.setup for verdict in winners}),
            build=max((verdict.job_key for verdict in winners), default=""),
            devices=total.devices,
            models=total.models,
        )
        names = fleet_data.names(now, sweep)
        assert names.devices == {verdict.device_id: verdict.device for verdict in of_sweep}
        assert names.models == tuple(sorted({verdict.model for verdict in of_sweep}))
        for model in names.models:
            devices = sorted({verdict.device_id for verdict in of_sweep if verdict.model == model})
            assert fleet_data.having(now, sweep, model) == tuple(devices)
        drawn = fleet_data.drawn(now, sweep, tuple(names.devices), names.models)
        assert list(drawn.values()) == list(places.values())
        assert fleet_data.drawn(now, sweep, ("' OR 1=1 --",), names.models) == {}
    latest = [entry.name for entry in data.sweeps(now)[: fleet_data.TROUBLED]]
    troubled = {
        (verdict.place, verdict.failed, verdict.untrusted)
        for verdict in verdicts
        if not verdict.part and verdict.sweep in latest
    }
    troubled = {trouble for trouble in troubled if trouble[1] + trouble[2]}
    assert standing.troubled == len(troubled)
    assert {(trouble[:3], trouble.failed, trouble.untrusted) for trouble in standing.troubles} <= troubled
    assert len(standing.troubles) == min(len(troubled), fleet_data.MOST_TROUBLES)


def test_every_sweep_has_a_line_with_its_state_and_who_wins(page: Page, workspace: Path) -> None:
    shown = page(workspace, "fleet")
    assert not shown.exception
    table = shown.dataframe[0].value.set_index("Sweep")
    assert set(table["State"]) == {"finished"}
    assert table.loc["phones"]["Decided"] == "2 of 2"
    assert table.loc["phones"]["Wins"] == "2 different builds"
    assert table.loc["shipped"]["Wins"] == "int8 · NHWC · x86 · 1 thread"
    assert table.loc["open"]["Decided"] == "0 of 1", "a tie is not decided"
    assert table.loc["broken"]["Wins"] == "none yet"


def test_one_build_with_other_threads_is_another_build(page: Page, tmp_path: Path) -> None:
    def ms(job: Job) -> float:
        best = 4 if job.device_id == PHONE.device_id else 1
        return (3.0 if job.variant.precision == "int8" else 9.0) * (1.0 if job.run.threads == best else 2.0)

    recorder = Recorder(Workspace.open(tmp_path))
    grid = GridSpec(threads=(1, 4), layout=("nhwc",))
    recorder.record("threads", ms, devices=(BOARD, PHONE), grid=grid)
    recorder.record("one", ms, devices=(BOARD,), grid=grid)
    shown = page(tmp_path, "fleet")
    table = shown.dataframe[0].value.set_index("Sweep")
    assert table.loc["threads"]["Wins"] == "2 different builds"
    assert table.loc["one"]["Wins"] == "int8 · NHWC · x86 · 1 thread"


def test_a_phone_that_no_build_may_ship_on_is_left_out_by_name(page: Page, tmp_path: Path) -> None:
    broken = replace(PHONE, device_id="phone-2", name="adb:2", model="Phone 1")
    recorder = Recorder(Workspace.open(tmp_path))
    recorder.record(
        "phones",
        lambda job: None if job.device_id == "phone-2" else by_axes(job),
        devices=(BOARD, PHONE, broken),
        grid=WIDE,
    )
    text = texts(page(tmp_path, "fleet"))
    assert "May ship on 2 of 3 devices, not on Globex Phone 1 (SoC X); at worst 7.19×" in text
    assert "of that device's own best (on " in text
    assert "every device" not in text


def test_more_builds_than_colours_are_said_to_be_grey() -> None:
    assert fleet_cells.colours_in_words(len(TINTS)) == "One colour for each build."
    assert fleet_cells.colours_in_words(len(TINTS) + 3) == (
        "One colour for each of the 6 builds that win most often; the other 4 are grey."
    )


def test_a_toggle_is_in_the_address(page: Page, workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dashboard.views.shipping.AT_ONCE", 1)
    shown = page(workspace, "fleet", sweep="phones")
    assert not shown.header
    assert "ship" not in shown.query_params
    shown.toggle(key="chosen ship").set_value(True).run()
    sent = {name: value[0] if isinstance(value, list) else value for name, value in shown.query_params.items()}
    assert sent["ship"] == "1"
    reopened = page(workspace, "fleet", **sent)
    assert reopened.header[0].value == shown.header[0].value
    reopened.toggle(key="chosen ship").set_value(False).run()
    assert "ship" not in reopened.query_params


def test_the_map_rings_each_phones_winner_and_a_click_opens_its_place(page: Page, workspace: Path) -> None:
    shown = page(workspace, "fleet", sweep="phones")
    drawn = cells(shown)
    ringed = [cell for cell in drawn if cell["ring"] != cell["fill"]]
    assert [(cell["device"], cell["model"]) for cell in ringed] == [("board-1", "digits"), ("phone-1", "digits")]
    assert all(cell["job"] for cell in ringed)
    narrow = json.loads(shown.get("vega_lite_chart")[1].proto.spec)
    labels = [row["text"] for layer in narrow["layer"] for row in layer["data"]["values"] if "text" in row]
    costs = [float(text.partition("×")[0]) for text in labels if "×" in text]
    assert [costs[0], costs[3]] == [1.0, 1.0], "of each phone's winner"
    assert 1.0 < costs[1] <= costs[2], "and of the next best two"


def test_the_least_regret_choice_says_what_one_and_two_builds_cost(page: Page, workspace: Path) -> None:
    shown = page(workspace, "fleet", sweep="phones")
    assert shown.header[0].value == "fp32 · NCHW · 1 thread · scripted · optimized"
    assert "May ship on every device (2 of 2); at worst 7.19× the time of that device's own best" in texts(shown)
    assert "With 2 builds: **int8 · NHWC · x86" in texts(shown)
    nothing = page(workspace, "fleet", sweep="broken")
    assert nothing.header[0].value == "None may ship"


def test_what_failed_needs_attention_and_a_device_in_quarantine_too(page: Page, workspace: Path) -> None:
    assert "quarantined" not in texts(page(workspace, "fleet"))
    QuarantineBook().put("phone-1", "adb:1", "battery swells")
    shown = page(workspace, "fleet")
    assert "quarantined" in texts(shown)
    links = [part.proto.label for part in shown.get("page_link")]
    assert any("2 failed" in label for label in links)


@pytest.mark.fault(55, "names of script, markdown and shell", "only text on Fleet")
def test_hostile_names_are_text(page: Page, workspace: Path, evil: str) -> None:
    shown = page(workspace, "fleet", sweep="hostile")
    assert not shown.exception
    assert not [part for part in shown.markdown if part.allow_html]
    for part in (*shown.markdown, *shown.caption, *shown.header):
        assert evil.split()[0] not in "".join(str(part.value).split("``")[::2])


def test_a_table_of_results_that_has_to_be_made_again_is_and_says_so(
    page: Page, workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(workspace, tmp_path / "copy")
    with closing(sqlite3.connect(tmp_path / "copy/journal.sqlite")) as db, db:
        db.execute("UPDATE results_state SET is_whole = 0")
    messages: list[str] = []
    drawn = st.progress
    monkeypatch.setattr(data.st, "progress", lambda value, text: (messages.append(text), drawn(value, text))[1])
    shown = page(tmp_path / "copy", "fleet")
    assert not shown.exception
    assert len(shown.dataframe[0].value) == len(page(workspace, "fleet").dataframe[0].value)
    assert messages == ["The results of this workspace are read anew, once. It takes about a second for 200 jobs."]


def test_the_first_look_of_all_says_how_far_it_is(
    page: Page, workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(workspace, tmp_path / "copy", ignore=shutil.ignore_patterns("verdicts.sqlite*"))
    messages: list[str] = []
    drawn = DeltaGenerator.progress
    monkeypatch.setattr(
        DeltaGenerator, "progress", lambda bar, value, text=None: (messages.append(text), drawn(bar, value, text))[1]
    )
    shown = page(tmp_path / "copy", "fleet")
    assert not shown.exception
    assert any(text.endswith("0 of 2.") for text in messages)
    messages.clear()
    assert not page(tmp_path / "copy", "fleet").exception
    assert messages == []


def test_before_a_first_result_a_phone_has_its_line_and_no_cell() -> None:
    phone = HeatRow("Globex Phone 1", (), "3 jobs to come")
    maps = fleet._maps([], [phone], LIGHT, 0)
    assert phone.name in json.dumps(maps.wide)
    assert phone.name not in json.dumps(maps.narrow), "nothing is best of nothing"
    assert fleet._best_first(()) == ()


def test_an_empty_workspace_says_what_to_do_first(page: Page, tmp_path: Path) -> None:
    shown = page(tmp_path / "never made", "fleet")
    assert not shown.exception
    assert any("edgesweep demo" in code.value for code in shown.code)
    assert not (tmp_path / "never made").exists()


def test_each_state_of_a_verdict_has_its_own_mark() -> None:
    def verdict(**changes: object) -> PlaceVerdict:
        return waiting_place("s", "d", "m", "Phone", 3)._replace(**changes)

    assert state_text(verdict()) == "… 3 waiting"
    assert state_text(verdict(state="provisional", winner="x")) == "… provisional, 3 to come"
    assert state_text(verdict(state="tied", winner="x", unresolved=2)) == "≈ tied with 2"
    assert state_text(verdict(state="winner", winner="x")) == ""
    assert state_text(verdict(state="none")) == STATES["none"] != ""


def test_what_is_not_drawn_is_counted_as_decide_shows_it_skipped_builds_last() -> None:
    def cell(state: CellState) -> Cell:
        return Cell(job_key=state, state=state, ratio=1.0 if state == "ships" else None)

    first = {("a",): cell("skipped"), ("b",): cell("failed"), ("c",): cell("ships"), ("d",): cell("skipped")}
    cells = {"x": first, "y": {("d",): cell("may_not")}}
    assert fleet_cells.shown_setups(cells, [], 9) == [("c",), ("b",), ("d",), ("a",)]
    assert fleet_cells.left_out(cells, [("c",)]) == "2 more builds and 1 that is skipped everywhere stand in Decide."
    assert fleet_cells.left_out(cells, [("c",), ("b",), ("a",)]) == "1 more build stands in Decide."
    assert fleet_cells.left_out(cells, list(first)) == ""


def test_a_tooltip_says_only_what_applies() -> None:
    cells = {
        ("good",): Cell(job_key="a", state="ships", ratio=1.5),
        ("bad",): Cell(job_key="b", state="may_not", ratio=0.5),
        ("gone",): Cell(job_key="c", state="failed", ratio=None),
    }
    [row] = fleet_cells.builds({"d": "Phone"}, list(cells), {"d": cells}, {}, "m")
    assert [cell.tip for cell in row.cells] == [
        "1.50× of the best build that may ship here",
        "0.50× of the best build that may ship here · ✕ may not",
        "✕ failed",
    ]


def test_a_build_is_downloaded_with_its_manifest_and_a_damaged_one_says_what_to_do(
    page: Page, workspace: Path, tmp_path: Path
) -> None:
    shutil.copytree(workspace, tmp_path / "copy")
    root = tmp_path / "copy"
    now = data.source(root)
    assert now is not None
    ranked = data.ranked(now, Place("shipped", "board-5", "digits"))
    [device] = ranked.ranking.devices
    assert device.winner is not None
    assert downloads.problem(root, device.winner.build_key) is None
    archive = zipfile.ZipFile(io.BytesIO(downloads.build_zip(root, ranked, device, device.winner)))
    assert sorted(archive.namelist()) == ["manifest.json", "model.pt"]
    assert json.loads(archive.read("manifest.json"))["expected"]["job_key"] == device.winner.job_key
    address = {"sweep": "shipped", "device": "board-5"}
    assert buttons(page(root, **address)) == ["Download this build", "CSV", "Parquet"]
    (Workspace(root).artifact(device.winner.build_key) / "model.pt").write_bytes(b"something else")
    damaged = page(root, **address)
    assert buttons(damaged) == ["CSV", "Parquet"]
    assert "is missing or damaged. Next step: run the sweep again: it rebuilds the file" in texts(damaged)
    with pytest.raises(EdgeSweepError, match="missing or damaged"):
        downloads.build_zip(root, ranked, device, device.winner)


def test_a_downloads_name_is_safe_whatever_it_is_made_from() -> None:
    assert downloads.file_name("../../x", "<b>ä</b> y") == "x-b-b-y"
    assert downloads.file_name("", "/") == "edgesweep"


def test_all_results_of_a_sweep_are_chosen_by_the_url_and_can_be_downloaded(
    page: Page, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = page(workspace, "fleet", sweep="phones")
    assert not [box for box in closed.selectbox if box.label == "Precision"]
    shown = page(workspace, "fleet", sweep="phones", results="1", precision="int8", device="phone-1")
    assert not shown.exception
    assert {box.label: box.value for box in shown.selectbox if box.label in ("Precision", "Phone", "Layout")} == {
        "Precision": "int8",
        "Phone": "phone-1",
        "Layout": every_result.ANY,
    }
    table = shown.dataframe[-1].value
    assert set(table["Device"]) == {"Globex Phone 9 (SoC X)"}
    assert len(table) == 8
    assert all("int8" in build for build in table["Build"])
    figures = [float(text.split()[0]) for text in table["p50"] if text != NOTHING]
    assert figures == sorted(figures)
    assert "8 results. The fastest come first." in texts(shown)
    narrower = next(box for box in shown.selectbox if box.label == "Outcome").set_value("skipped").run()
    assert set(narrower.dataframe[-1].value["Outcome"]) == {"skipped"}
    assert narrower.query_params["outcome"] == "skipped"
    assert "edgesweep report" not in texts(shown)
    monkeypatch.setattr(every_result, "SENT", 5)
    more = page(workspace, "fleet", sweep="phones", results="1")
    command = f"edgesweep report --workspace {quote(str(workspace))} phones --csv results.csv"
    assert f"first 5 of them. All results: {command}" in texts(more)


@pytest.mark.fault(58, "script, SQL and markdown as filters in the address", "chooses nothing, shown as text")
@pytest.mark.parametrize("name", ["precision", "device", "of", "outcome"])
def test_hostile_filters_choose_nothing_and_are_text(page: Page, workspace: Path, name: str, evil: str) -> None:
    shown = page(workspace, "fleet", sweep="phones", results="1", **{name: f"' OR 1=1 -- {evil}"})
    assert not shown.exception
    assert any("' OR 1=1 -- <script>" in text.value for text in shown.text)
    assert next(box for box in shown.selectbox if box.label == "Precision").value == every_result.ANY
    hostile = page(workspace, "fleet", sweep="hostile", results="1")
    assert not hostile.exception
    assert any("<script>alert(1)</script>" in build for build in hostile.dataframe[-1].value["Build"])
