"""Decide as Streamlit runs it, on workspaces that the real plan and journal wrote."""

import json
import re
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
import yaml
from click.testing import CliRunner
from streamlit.testing.v1 import AppTest

from dashboard import rights
from dashboard.markdown_escape import line
from dashboard.views import decide
from dashboard.views.tables import size_format
from dashboard.words import TRUST_WORDS
from sweeps.cli.main import main
from sweeps.imported import NOTE
from sweeps.journal.journal import Journal
from sweeps.launching.record import Launch, kept_file, last
from sweeps.launching.text_check import check
from sweeps.manifest import Coverage
from sweeps.metrics import METRICS
from sweeps.quarantine import QuarantineBook
from sweeps.records import Job
from sweeps.results import ComparisonConditions
from sweeps.spec.grid import GridSpec
from sweeps.stats import Estimate, drop_of
from sweeps.workspace import Workspace
from tests.dashboard.conftest import HOST, IMAGES, WIDE, Recorder, by_axes

Page = Callable[[Path], AppTest]

BEST = "int8 · NHWC · x86 · 1 thread · scripted · optimized"
BEST_ON_PHONE = "int8 · NCHW · QNNPACK · 1 thread · scripted · optimized"


def table(page: AppTest, column: str) -> pd.DataFrame:
    """The first table on the page that has this column."""
    return next(frame.value for frame in page.dataframe if column in frame.value)


def texts(page: AppTest) -> str:
    parts = [*page.text, *page.markdown, *page.caption, *page.header, *page.subheader, *page.info, *page.error]
    return "\n".join(str(part.value) for part in parts)


def choose(page: AppTest, label: str, value: str) -> AppTest:
    box = next(box for box in page.selectbox if box.label == label)
    return box.select(value).run()


def test_the_latest_sweep_opens_with_its_recommendation(page: Page, workspace: Path) -> None:
    shown = page(workspace)
    assert not shown.exception
    assert shown.selectbox[0].value == "phones"
    assert shown.header[0].value == BEST
    figures = {metric.label: metric.value for metric in shown.metric}
    assert figures == {
        "Latency (p50)": "3.003 ms",
        "Top-1": "97.40 %",
        "Accuracy drop": "0.20 points",
        "Size": "0.70 MB",
    }
    assert "95 %: 2.984 to 3.022 ms" in texts(shown)


def test_sizes_in_tables_have_the_digits_that_they_have_elsewhere(page: Page, workspace: Path) -> None:
    assert [size_format(pd.Series(sizes)) % sizes[0] for sizes in ([123.45, 0.1], [1234.5, float("nan")])] == [
        "123.45",
        "1234.50",
    ]
    small = METRICS["artifact_mb"].format(0.0123)
    assert (small, size_format(pd.Series([0.0123, 5.0])) % 0.0123) == ("12.3 kB", "0.0123")
    shown = choose(page(workspace), "Sweep", "checked")
    columns = [json.loads(frame.proto.columns) for frame in shown.dataframe if "Size (MB)" in frame.value]
    assert [column["Size (MB)"]["type_config"]["format"] for column in columns] == ["%.2f", "%.2f"]


@pytest.mark.fault(57, "two equal variants", "named as a tie, one rank")
def test_ties_are_named_on_the_card_and_share_a_rank(page: Page, workspace: Path) -> None:
    shown = page(workspace)
    assert "**Equal to 1 other:** int8 · NHWC · x86 · 1 thread · traced · optimized." in texts(shown)
    assert list(table(shown, "Rank")["Rank"])[:3] == ["1=", "1=", "3"]


def test_the_table_lists_every_measured_variant_with_its_figures(page: Page, workspace: Path) -> None:
    ranking = table(page(workspace), "Rank")
    assert len(ranking) == 12
    assert ranking["p50 (ms)"].is_monotonic_increasing
    first = ranking.iloc[0]
    assert (first["Variant"], first["Verdict"], first["Doubts"]) == (BEST, "pass", TRUST_WORDS["ungated"])
    assert first["p50, 95 % interval"] == "2.984 to 3.022 ms"
    assert ranking["p50, × best"].iloc[-1] == pytest.approx(8.63, abs=0.01)


def test_trust_labels_come_with_their_advice(page: Page, workspace: Path) -> None:
    advice = f"{TRUST_WORDS['ungated']} (it can win): it is unknown whether the device was cool"
    assert advice in texts(page(workspace))


def test_failed_and_skipped_variants_are_listed_with_their_reasons(page: Page, workspace: Path) -> None:
    shown = page(workspace)
    listed = table(shown, "Outcome")
    assert list(listed["Outcome"]) == ["failed", "failed", "skipped", "skipped"]
    assert listed["Reason"][0] == "run, crashed: the process was ended by signal 11"
    assert listed["Reason"][2] == "int8 traced and not optimized has no effect"
    assert "2 failed, 2 skipped" in texts(shown)
    assert "**crashed**: The process ended without a result" in texts(shown)
    assert texts(shown).count("**crashed**") == 1


def test_another_device_has_its_own_recommendation(page: Page, workspace: Path) -> None:
    shown = choose(page(workspace), "Device", "phone-1")
    assert not shown.exception
    assert shown.header[0].value == BEST_ON_PHONE
    assert len(table(shown, "Rank")) == 12


def test_both_charts_are_on_the_page(page: Page, workspace: Path) -> None:
    assert len(page(workspace).get("vega_lite_chart")) == 2


@pytest.mark.fault(52, "a sweep where all failed", "no winner, and the reasons")
def test_where_everything_failed_there_is_no_winner_and_the_reason(page: Page, workspace: Path) -> None:
    shown = choose(page(workspace), "Sweep", "broken")
    assert not shown.exception
    assert shown.header[0].value == "No winner"
    assert "nothing was measured: 4 failed" in texts(shown)
    assert {"CSV", "Parquet"} <= {part.proto.label for part in shown.get("download_button")}
    assert not shown.metric
    assert not shown.get("vega_lite_chart")
    assert len(table(shown, "Outcome")) == 4


NNAPI = (
    "NNAPI reference: NNAPI model run on this host by EdgeSweep's reference implementation; "
    "its time says nothing about a phone"
)
SECTION = "Checked on this host, not timed"


def test_what_was_only_checked_has_a_section_with_table_chart_and_words(page: Page, workspace: Path) -> None:
    shown = choose(page(workspace), "Sweep", "checked")
    assert not shown.exception
    assert shown.header[0].value == "int8 · NHWC · x86 · 1 thread"
    assert all("NNAPI" not in variant and "Metal" not in variant for variant in table(shown, "Rank")["Variant"])
    assert SECTION in [part.value for part in shown.subheader]
    rows = table(shown, "Checked by")
    assert list(rows["Variant"]) == [
        *("Metal · fp32 · NCHW · 1 thread", "NNAPI · fp32 · NCHW · 1 thread", "NNAPI · fp32 · NHWC · 1 thread"),
        *("NNAPI · int8 · NCHW · QNNPACK · 1 thread", "NNAPI · int8 · NHWC · QNNPACK · 1 thread"),
    ]
    assert list(rows["Constraints"]) == ["constraints kept"] * 3 + ["unresolved", "constraint missed"]
    assert list(rows["Checked by"]) == ["Metal reference"] + ["NNAPI reference"] * 4
    assert list(rows["Drop (points)"])[-1] == 12.0
    assert list(rows["Drop, 95 % interval"])[-1] == "11.54 to 12.46 points"
    assert set(rows["SQNR"]) == {"31.0 dB"}
    assert not [column for column in rows if "ms" in column or "p50" in column]
    assert NNAPI in texts(shown)
    assert len(shown.get("vega_lite_chart")) == 3


@pytest.mark.parametrize(
    ("of_fp32", "of_int8", "wins", "mentions"),
    [((0, 0), (5, 1), True, 1), ((5, 1), (5, 1), False, 1), ((0, 0), (0, 0), True, 0), ((90, 0), (90, 0), False, 0)],
)
def test_where_images_would_settle_a_constraint_it_says_once_whether_there_are_more(
    page: Page, tmp_path: Path, of_fp32: tuple[int, int], of_int8: tuple[int, int], wins: bool, mentions: int
) -> None:
    def drop(job: Job) -> Estimate:
        lost, gained = of_int8 if job.variant.precision == "int8" else of_fp32
        return drop_of(lost, gained, IMAGES)

    Recorder(Workspace.open(tmp_path)).record("mine", by_axes, drop_points=drop)
    shown = page(tmp_path)
    assert not shown.exception
    assert (shown.header[0].value != "No winner") == wins
    assert texts(shown).count("Evaluation images: all 597 in the digits are used, and there are no others") == mentions


def test_a_recommendation_that_was_only_checked_says_so(page: Page, workspace: Path) -> None:
    shown = choose(page(workspace), "Sweep", "by-accuracy")
    assert not shown.exception
    assert shown.header[0].value == "NNAPI · fp32 · NHWC · 1 thread"
    assert any("only checked and not timed" in str(part.value) for part in shown.caption)
    figures = {metric.label: metric.value for metric in shown.metric}
    assert (figures["Latency (p50)"], figures["Top-1"]) == ("not timed", "97.60 %")
    assert "emulated by NNAPI reference" in texts(shown)
    ranking = table(shown, "Rank")
    assert ranking["Accuracy from"][0] == "emulated: NNAPI reference"
    assert SECTION not in [part.value for part in shown.subheader]
    assert NNAPI in texts(shown)


def test_where_all_was_only_checked_there_is_no_winner_and_no_chart_of_latency(page: Page, workspace: Path) -> None:
    shown = choose(page(workspace), "Sweep", "only-checked")
    assert not shown.exception
    assert shown.header[0].value == "No winner"
    assert "nothing was timed: 4 only checked" in texts(shown)
    assert len(table(shown, "Checked by")) == 4
    assert len(shown.get("vega_lite_chart")) == 1


def test_what_is_not_wholly_delegated_is_said_where_all_was_only_checked_too(page: Page, tmp_path: Path) -> None:
    recorder = Recorder(Workspace.open(tmp_path))
    plan = recorder.record("mine", by_axes, devices=(HOST,), grid=GridSpec(backend=("nnapi",), layout=("nhwc",)))
    key = next(job.build_key for job in plan.jobs if job.variant.precision == "fp32")
    with Journal.open(recorder.workspace.journal) as journal:
        manifest = journal.artifacts.latest(key)
        assert manifest is not None
        covered = Coverage(operations={}, multiply_adds=100, multiply_adds_covered_percent=62.5, delegates=2)
        journal.artifacts.add(manifest.model_copy(update={"coverage": covered}))
    shown = page(tmp_path)
    assert shown.header[0].value == "No winner"
    lines = [text for text in texts(shown).splitlines() if "delegated" in text]
    [name] = [name for name in table(shown, "Checked by")["Variant"] if "fp32" in name]
    assert lines == [f"{name}: 62.5 % of its multiply-adds are delegated; the rest runs in slow kernels"]


def test_who_a_race_sent_away_is_shown_with_figures_and_evidence_and_without_a_rank(
    page: Page, workspace: Path, evil: str
) -> None:
    shown = choose(page(workspace), "Sweep", "raced")
    assert not shown.exception
    ranking = table(shown, "Rank")
    eliminated = ranking[ranking["Verdict"] == "eliminated"]
    assert len(eliminated) == 7
    assert set(eliminated["Rank"]) == {"–"}
    assert eliminated["p50 (ms)"].notna().all()
    assert set(eliminated["Why"]) == {f"left after 3 rounds: at least 2.01 times as slow as {line(evil)}"}
    assert "device time: 35 min (1 % timed iterations), and 0 s of waiting; 7 of 14 left the race early" in texts(shown)
    reasons = [part.value for part in shown.text]
    assert any(reason.startswith("fp32 · NHWC") and reason.endswith(f": {line(evil)} ended it") for reason in reasons)
    left = f"eliminated: left after 3 rounds: at least 2.01 times as slow as {line(evil)}"
    assert any(reason.startswith("fp32 · NCHW") and reason.endswith(left) for reason in reasons)


def test_each_tie_says_what_would_settle_it(page: Page, workspace: Path) -> None:
    shown = choose(page(workspace), "Sweep", "raced")
    assert list(table(shown, "Rank")["To settle the tie"])[:2] == ["–", "equal in practice: within 2 % at 95 %"]
    names = (
        "fp32 · NHWC · 1 thread · scripted · not optimized",
        "int8 · NHWC · QNNPACK · 1 thread · scripted · optimized",
        "int8 · NHWC · QNNPACK · 1 thread · scripted · not optimized",
    )
    names_text = ", ".join(names)
    assert f"**Equal to 3 others:** {names_text}. Shown at 95 % to be within 2 % of the best" in texts(shown)
    assert not shown.code


def test_the_command_that_settles_an_open_tie_is_there_to_copy(page: Page, workspace: Path) -> None:
    shown = choose(page(workspace), "Sweep", "open")
    assert not shown.exception
    (command,) = [part.value for part in shown.code]
    assert command.startswith("edgesweep run SWEEP.yaml --workspace ")
    assert " --settle " in command
    rounds = command.split()[-1]
    assert f"at least {rounds} more rounds to tell them apart" in texts(shown)


def written(file: Path) -> str:
    """Read what a process that was started writes there."""
    deadline = time.monotonic() + 60
    while not file.exists() or not (text := file.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return text


def test_who_may_start_sweeps_settles_a_tie_by_a_button_but_not_of_a_changed_file(
    page: Page, workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rights, "_by_link", lambda: True)
    argv_file = tmp_path / "argv"
    program = "import pathlib, sys; pathlib.Path(sys.argv[1]).write_text(chr(10).join(sys.argv[2:]))"
    monkeypatch.setattr(
        "sweeps.launching.start.command", lambda *arguments: [sys.executable, "-c", program, argv_file, *arguments]
    )
    root = tmp_path / "own"
    shutil.copytree(workspace, root)
    own = Workspace(root)
    with Journal.open(own.journal, read_only=True) as journal:
        spec = journal.plans.spec("open")
    file = kept_file(own, "open")
    # A sweep from a terminal: its file is made anew from what was measured.
    next(widget for widget in choose(page(root), "Sweep", "open").button if widget.key == "settle").click().run()
    terminal = last(own, Launch)
    assert terminal is not None
    assert terminal.options[0] == "--settle"
    assert check(own, file.read_text()).spec == spec
    assert written(argv_file)
    argv_file.unlink()
    text = yaml.safe_dump(spec.model_dump(mode="json", exclude_defaults=True))
    file.write_text(text.replace("budget: full\n", ""))
    shown = choose(page(root), "Sweep", "open")
    assert not shown.code
    assert re.search(r"rounds of \d+ builds: (about .*|how) ", texts(shown))
    button = next(widget for widget in shown.button if widget.key == "settle")
    button.click().run()
    assert "It was not started." in texts(shown)
    assert last(own, Launch) == terminal

    file.write_text(text)
    next(widget for widget in shown.button if widget.key == "settle").click().run()
    assert not shown.exception
    launch = last(own, Launch)
    assert launch is not None
    rounds = (button.label or "").split()[1]
    assert launch.options == ("--settle", rounds)
    assert written(argv_file).splitlines()[-2:] == ["--settle", rounds]

    shown = page(root, sweep="open", ms="0.5")
    assert shown.header[0].value == "No winner"
    assert {"CSV", "Parquet"} <= {part.proto.label for part in shown.get("download_button")}
    [link] = [
        page_link.proto for page_link in shown.get("page_link") if page_link.proto.label == "Change the sweep file"
    ]
    assert link.query_string == "file=kept%3Aopen"

    # Provisional, until what the state of the device disqualified is measured again.
    hot = Recorder(own).record(
        "hot", by_axes, edit_block=lambda block, job: replace(block, labels=("throttled",)), grid=WIDE
    )
    kept_file(own, "hot").write_text(yaml.safe_dump(hot.sweep.model_dump(mode="json", exclude_defaults=True)))
    shown = page(root, sweep="hot")
    assert "launches/hot.yaml --workspace " in shown.code[0].value
    assert " --retry-failed" in shown.code[0].value
    assert re.search(
        r"throttled .*: .*; edgesweep run \S+launches/hot\.yaml --workspace \S+ --retry-failed", texts(shown)
    )
    refused = CliRunner().invoke(main, ["export", "hot", "--workspace", str(root), "--output", str(tmp_path / "out")])
    assert f"edgesweep export --workspace {root} hot --variant " in refused.stderr
    assert re.search(r"settle it: .*edgesweep run \S+launches/hot\.yaml --workspace \S+ --retry-failed", refused.stderr)
    assert {"All about this result", "Compare it"} <= {page_link.proto.label for page_link in shown.get("page_link")}
    assert "No download: its file is not in this workspace" in texts(shown), "of the provisional build"
    next(widget for widget in shown.button if widget.key == "again").click().run()
    assert not shown.exception
    launch = last(own, Launch)
    assert launch is not None
    assert (launch.sweep, launch.options) == ("hot", ("--retry-failed",))


def test_the_front_is_marked_where_it_is_asked_for(page: Page, workspace: Path) -> None:
    ranking = table(choose(page(workspace), "Sweep", "raced"), "Rank")
    assert set(ranking[ranking["Front"] == "front"]["Variant"]) == {
        "int8 · NHWC · QNNPACK · 1 thread · scripted · optimized",
        "int8 · NHWC · QNNPACK · 1 thread · scripted · not optimized",
    }
    assert "Front" not in table(page(workspace), "Rank")


def test_units_that_share_a_sweep_have_one_table_with_all_variants(page: Page, shared_by_units: Path) -> None:
    shown = page(shared_by_units)
    assert not shown.exception
    ranking = table(shown, "Rank")
    assert len(set(ranking["Variant"])) == len(ranking) == 14, (
        "the common variant of the other unit is not ranked twice"
    )
    assert "All units of this class" not in [part.value for part in shown.subheader]


def test_units_of_one_class_are_pooled_beneath_each_of_them(page: Page, workspace: Path) -> None:
    shown = choose(page(workspace), "Sweep", "raced")
    assert next(box for box in shown.selectbox if box.label == "Device").options == [
        "Globex Phone 9 (SoC X) · unit-a",
        "Globex Phone 9 (SoC X) · unit-b",
    ]
    pooled = table(shown, "Between units").set_index("Variant")
    traced = pooled.loc["fp32 · NHWC · 1 thread · traced · not optimized"]
    assert (traced["Units"], traced["Rank"], traced["Between units"]) == (2, "1=", "1.00 to 1.04")
    assert pooled.loc["fp32 · NCHW · 1 thread · scripted · not optimized"]["May win on"] == 0
    assert "All units of this class" not in [part.value for part in page(workspace).subheader]


def test_figures_of_hand_run_tools_stand_beneath_the_ranking_of_their_device_alone(page: Page, workspace: Path) -> None:
    board = page(workspace)
    phone = choose(board, "Device", "phone-1")
    titles = [part.value for part in phone.subheader]
    assert titles.index("Ranking") < titles.index(NOTE) < titles.index(f"{NOTE}; there is no ranking of these devices")
    beneath, separate = (frame.value for frame in phone.dataframe if "Mean (ms)" in frame.value)
    assert list(beneath["Mean (ms)"]) == [0.5, 0.767]
    assert list(beneath["Iterations"]) == ["20", "–"]
    assert list(beneath["p50 of them (ms)"]) == ["0.400", "–"]
    assert list(beneath["From"]) == [f"TestApp, log.txt ({letter * 12}), 2026-11-21" for letter in ("b", "a")]
    assert list(separate["Device"]) == ["iPhone X"]
    # Faster than all that was measured, and yet nowhere in the ranking.
    assert "metal fp32" not in set(table(phone, "Rank")["Variant"])
    assert phone.header[0].value == BEST_ON_PHONE


def test_a_device_without_imported_figures_shows_only_those_of_no_device(page: Page, workspace: Path) -> None:
    shown = choose(page(workspace), "Device", "board-1")
    (separate,) = (frame.value for frame in shown.dataframe if "Mean (ms)" in frame.value)
    assert list(separate["Device"]) == ["iPhone X"]
    assert NOTE not in [part.value for part in shown.subheader]
    other = choose(page(workspace), "Sweep", "checked")
    assert not [frame for frame in other.dataframe if "Mean (ms)" in frame.value]


@pytest.mark.fault(55, "names of script, markdown and shell", "shown to the letter")
def test_hostile_names_appear_to_the_letter(page: Page, workspace: Path, evil: str) -> None:
    shown = choose(page(workspace), "Sweep", "hostile")
    assert not shown.exception
    headline = shown.header[0].value
    assert headline.startswith("``")
    assert headline.endswith("``")
    variant = table(shown, "Rank")["Variant"][0]
    assert line(evil) in variant
    assert line(evil) in table(shown, "Outcome")["Reason"][0]
    assert line(f"{evil} reference") == table(shown, "Checked by")["Checked by"][0]
    beneath, separate = (frame.value for frame in shown.dataframe if "Mean (ms)" in frame.value)
    assert (beneath["Variant"][0], separate["Device"][0]) == (line(evil), line(evil))
    assert line(f"{evil}.txt") in beneath["From"][0]
    assert line(evil) in next(box for box in shown.selectbox if box.label == "Device").options[0]


@pytest.mark.fault(55, "names of script, markdown and shell", "no HTML")
def test_nothing_from_the_store_becomes_html(page: Page, workspace: Path, evil: str) -> None:
    shown = choose(page(workspace), "Sweep", "hostile")
    assert not [part for part in shown.markdown if part.allow_html]
    for part in (*shown.markdown, *shown.caption, *shown.subheader):
        outside = "".join(str(part.value).split("``")[::2])
        assert evil.split()[0] not in outside, part.value


@pytest.mark.fault(52, "no store", "says what to do, makes none")
def test_a_workspace_without_a_sweep_says_what_to_do(page: Page, tmp_path: Path) -> None:
    shown = page(tmp_path / "never made")
    assert not shown.exception
    assert "No sweep has been recorded" in shown.header[0].value
    assert any("edgesweep run" in code.value for code in shown.code)
    assert not (tmp_path / "never made").exists()


def test_a_device_in_quarantine_is_marked_on_its_page_alone(page: Page, workspace: Path) -> None:
    assert not page(workspace).warning
    QuarantineBook().put("phone-1", "adb:1", "battery swells")
    shown = page(workspace)
    assert not shown.warning
    shown = choose(shown, "Device", "phone-1")
    [warning] = shown.warning
    assert "quarantined" in warning.value
    assert any("by a person: battery swells" in text.value for text in shown.text)


def test_sets_of_conditions_are_called_by_what_tells_them_apart() -> None:
    usual = ComparisonConditions(
        preset="full", runtime_version="2.12.1", exec_context="shell", gate="gated", fixed_performance=""
    )

    def sets(*groups: tuple[ComparisonConditions, str]) -> list[str]:
        return decide._sets(
            [SimpleNamespace(conditions=conditions, fingerprint=state, ranking=()) for conditions, state in groups]
        )

    assert sets((usual, "a1b2"), (replace(usual, preset="quick", gate="none"), "a1b2")) == [
        "protocol full, every block waited for a ready device",
        "protocol quick, blocks did not wait for a ready device",
    ]
    assert sets((usual, "a1b2"), (usual, "c3d4")) == ["the device's state 1", "the device's state 2"]
    assert sets((usual, "a"), (replace(usual, fixed_performance="on"), "a")) == [
        "usual performance",
        "fixed performance on",
    ]
