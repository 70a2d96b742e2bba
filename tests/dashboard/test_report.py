"""`edgesweep report`: what it writes opens anywhere, says what the ranking says, and nothing in it comes alive."""

import base64
import csv
import io
import json
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyarrow import parquet

from dashboard.report.markdown import _literal, markdown
from dashboard.report.sections import sections
from sweeps.cli.main import main
from sweeps.operations.stored_results import results_of
from sweeps.ranking.rank import rank_rows
from sweeps.results import read_rows
from sweeps.spec.sweep import load, sweep_yaml
from sweeps.workspace import Workspace

SPECS = Path(__file__).parents[2] / "sweeps/specs"
ADDRESSES = ("href", "src", "srcset", "action", "data", "poster", "xlink:href")


class Parts(HTMLParser):
    """Elements, addresses and text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: set[str] = set()
        self.addresses: list[str] = []
        self.attributes: set[str] = set()
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.addresses += [value or "" for name, value in attrs if name in ADDRESSES]

    def handle_data(self, data: str) -> None:
        self.text += data


def report(workspace: Path, *arguments: str) -> str:
    result = CliRunner().invoke(main, ["report", "--workspace", str(workspace), *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_a_page_has_each_devices_winner_its_charts_and_the_sweep_file_to_repeat_it(workspace: Path, tmp_path: Path):
    report(workspace, "phones", "--html", str(tmp_path / "out.html"))
    parts = Parts((tmp_path / "out.html").read_text("utf-8"))
    for part in ("Ship this on Globex Phone 9", "fp32 · NCHW · 1 thread", "In short", "95 %", "fingerprint", "grids:"):
        assert part in parts.text
    assert parts.text.count("How it was measured") == 2
    assert parts.text.count("for a ready device") == 2
    pictures = [address for address in parts.addresses if address.startswith("data:image/svg+xml;base64,")]
    assert len(pictures) == 8  # two devices, two charts, two themes
    drawn = base64.b64decode(pictures[0].partition(",")[2]).decode()
    assert "p50 latency (ms)" in drawn
    assert "fp32 · NCHW" in drawn


def test_what_computed_the_accuracy_is_said_without_a_hash(workspace: Path):
    results = results_of(Workspace(workspace), "phones")
    (row, *_) = [result for result in read_rows(results.frame, results.name) if result.outcome == "measured"]

    def text_of(executor: str) -> str:
        alone = [replace(row, executor=executor)]
        objective = results.spec.objective
        (section,) = sections(alone, rank_rows(alone, objective, results.name), objective)
        return dict(section.conditions)["accuracy by"]

    assert text_of(row.fingerprint) == "the device itself"
    assert text_of(f"{row.fingerprint} by onnxruntime_perf_test 1") == "the device itself by onnxruntime_perf_test 1"
    assert text_of("reference:nnapi@0123456789ab") == "NNAPI reference"


def test_runtimes_and_their_libraries_have_columns_where_there_are_several(workspace: Path):
    results = results_of(Workspace(workspace), "phones")
    rows_of_board = [row for row in read_rows(results.frame, results.name) if row.device_id == "board-1"]

    def shown(libraries: tuple[float, ...]) -> tuple[str, list[set[str]]]:
        """The report and the notes of its ranking, and what its two columns say; of one that is not there, nothing."""
        mixed = [
            replace(row, runtime=("torchscript", "executorch")[row.layout == "nhwc"], metrics=dict(row.metrics) | size)
            for row in rows_of_board
            for size in [
                {"runtime_mb": libraries[row.layout == "nhwc"], "delegated_percent": 62.5} if libraries else {}
            ]
        ]
        chosen = mixed if libraries else rows_of_board
        objective = results.spec.objective
        page_sections = sections(chosen, rank_rows(chosen, objective, results.name), objective)
        table = page_sections[0].tables[0]
        places = [table.columns.index(name) if name in table.columns else None for name in ("Runtime", "Library")]
        contents = [set() if place is None else {row[place] for row in table.rows} for place in places]
        return "\n".join([markdown("phones", page_sections, objective="", version=""), *table.notes]), contents

    text, contents = shown((24.0, 9.4))
    assert contents == [{"torchscript", "executorch"}, {"24.0 MB", "9.4 MB"}]
    assert "| Runtime |" in text
    assert "62.5 % of its multiply-adds are delegated; the rest runs in slow kernels" in text
    assert "delegated" not in shown(())[0]
    assert shown(())[1] == [set(), set()]


def test_two_phones_of_one_type_are_told_apart_by_their_ids(workspace: Path):
    results = results_of(Workspace(workspace), "phones")
    rows = [row for row in read_rows(results.frame, results.name) if row.device_id == "board-1"]
    two_boards = [*rows, *(replace(row, device_id="board-2", job_key=f"{row.job_key} on it") for row in rows)]
    page_sections = sections(
        two_boards, rank_rows(two_boards, results.spec.objective, results.name), results.spec.objective
    )
    assert [section.device.removeprefix(rows[0].device) for section in page_sections] == [" · board-1", " · board-2"]
    assert [section.lead.endswith(section.device_id) for section in page_sections] == [True, True]
    summary = [
        line for line in markdown("phones", page_sections, objective="", version="").splitlines() if "board" in line
    ]
    assert len(set(summary)) == len(summary) >= 2


def test_a_page_needs_no_network_and_nothing_in_it_runs(workspace: Path, tmp_path: Path, evil: str):
    report(workspace, "hostile", "--html", str(tmp_path / "out.html"))
    text = (tmp_path / "out.html").read_text("utf-8")
    parts = Parts(text)
    assert all(re.match(r"data:image/svg\+xml;base64,[A-Za-z0-9+/=]+$|#", address) for address in parts.addresses)
    assert parts.elements & {"script", "iframe", "object", "link", "form", "base"} == set()
    assert not [name for name in parts.attributes if name.startswith("on")]
    assert "default-src 'none'" in text
    assert " ".join(evil.split()) in parts.text  # shown literally


def test_markdown_shows_hostile_text_literally(workspace: Path, tmp_path: Path):
    report(workspace, "hostile", "--markdown", str(tmp_path / "out.md"))
    text = (tmp_path / "out.md").read_text("utf-8")
    assert "<script" not in text
    assert not re.search(r"(?<!\\)\]\(", text)
    assert "www.example" not in text
    assert not re.search(r"(?<!\\)\*\*b\*\*", text)
    assert not re.search(r":\w+:|(?<!&)[@#]\w|://", text)
    lines = text.splitlines()
    summary = [line for line in lines if line.startswith("|")]
    assert len({len(re.findall(r"(?<!\\)\|", line)) for line in summary[:3]}) == 1


def test_markdown_of_usual_names_can_be_read_as_it_is(workspace: Path, tmp_path: Path):
    report(workspace, "phones", "--markdown", str(tmp_path / "out.md"))
    text = (tmp_path / "out.md").read_text("utf-8")
    assert re.findall(r"\\.|&#\d+;", text) == []
    assert _literal("accuracy_drop_points: 1 * 2 [ms] (a.pt), ~") == r"accuracy_drop_points: 1 * 2 [ms] (a.pt), \~"
    assert _literal("[a](b) _c_ x*y* <b> www.d.e http://f :tada: #1 @me") == (
        r"[a\](b) \_c\_ x\*y\* &#60;b> www&#46;d.e http&#58;//f &#58;tada: &#35;1 &#64;me"
    )


def test_tables_have_every_result_of_the_device_that_is_asked_for(workspace: Path, tmp_path: Path):
    files = json.loads(
        report(
            workspace,
            *("phones", "--device", "phone-1", "--json"),
            *("--csv", str(tmp_path / "out.csv"), "--parquet", str(tmp_path / "out.parquet")),
        )
    )["files"]
    assert [Path(entry["file"]).stat().st_size for entry in files] == [entry["bytes"] for entry in files]
    rows = list(csv.DictReader(io.StringIO((tmp_path / "out.csv").read_text("utf-8-sig"))))
    table = parquet.read_table(tmp_path / "out.parquet").to_pylist()
    assert [row["job_key"] for row in rows] == [row["job_key"] for row in table]
    assert {row["device_id"] for row in rows} == {"phone-1"}
    assert [float(row["latency_p50_ms"] or 0) for row in rows] == [row["latency_p50_ms"] or 0.0 for row in table]


def test_a_sweep_of_which_nothing_could_be_built_has_a_report_that_says_so(workspace: Path, tmp_path: Path):
    report(workspace, "broken", "--html", str(tmp_path / "out.html"))
    assert "No winner" in (tmp_path / "out.html").read_text("utf-8")


def test_without_what_draws_charts_only_a_page_is_refused_and_the_extra_is_named(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    monkeypatch.delitem(sys.modules, "dashboard.report.html", raising=False)
    words = ["report", "phones", "--workspace", str(workspace), "--csv", str(tmp_path / "out.csv")]
    refused = CliRunner().invoke(main, [*words, "--html", str(tmp_path / "out.html")])
    assert refused.exit_code == 1
    assert "vl_convert is not installed" in refused.stderr
    assert "[dashboard]" in refused.stderr
    assert list(tmp_path.iterdir()) == []
    assert CliRunner().invoke(main, words).exit_code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["out.csv"]


def test_a_file_that_cannot_be_written_is_named_and_leaves_nothing(workspace: Path, tmp_path: Path):
    missing = tmp_path / "no" / "out.csv"
    result = CliRunner().invoke(main, ["report", "phones", "--workspace", str(workspace), "--csv", str(missing)])
    assert result.exit_code == 1
    assert "cannot be written" in result.output
    assert list(tmp_path.iterdir()) == []


def test_two_files_of_one_name_are_refused(workspace: Path, tmp_path: Path):
    twice = str(tmp_path / "out")
    result = CliRunner().invoke(main, ["report", "--workspace", str(workspace), "--csv", twice, "--parquet", twice])
    assert result.exit_code == 2
    assert not list(tmp_path.iterdir())


def test_without_a_file_it_says_which_there_are(workspace: Path):
    result = CliRunner().invoke(main, ["report", "phones", "--workspace", str(workspace)])
    assert result.exit_code == 2
    assert "--html" in result.output


@pytest.mark.parametrize(
    "path", sorted(set(SPECS.glob("*.yaml")) - {SPECS / "own-model.yaml"}), ids=lambda path: path.stem
)
def test_the_sweep_file_of_a_report_means_the_same(path: Path, tmp_path: Path):
    rewritten = tmp_path / "again.yaml"
    rewritten.write_text(sweep_yaml(load(path)), encoding="utf-8")
    assert load(rewritten) == load(path)
