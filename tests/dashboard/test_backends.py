"""NNAPI against the CPU on the page: a chart where a phone timed both, and plain words where none did."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from dashboard import rows
from dashboard.charts import dots
from dashboard.markdown_escape import line
from dashboard.style import LIGHT
from dashboard.views.backends import RATIO
from sweeps.ranking.nnapi_gain import BackendFigure, BackendPair, Best
from sweeps.ranking.ties import MadeOf
from sweeps.records import Job
from sweeps.spec.grid import GridSpec
from sweeps.stats import Estimate
from sweeps.workspace import Workspace
from tests.dashboard.conftest import EVIL, PHONE, Recorder

Page = Callable[[Path], AppTest]
INT8 = "int8 · NHWC · QNNPACK · 1 thread"

CPU = Best(name="c", variant=f"cpu {EVIL}", p50_ms=8.0, ci_low_ms=7.5, ci_high_ms=8.5)
NNAPI = Best(name="n", variant="nnapi fp32", p50_ms=4.0, ci_low_ms=None, ci_high_ms=None)
PAIR = BackendPair(
    device=f"Phone {EVIL}",
    device_id="unit",
    fingerprint="f",
    model="net",
    precision="fp32",
    cpu=CPU,
    nnapi=NNAPI,
    ratio=Estimate(0.5, 0.4, 0.6),
    made_of=MadeOf(source="rounds", rounds=3, ms=4.0, other_ms=8.0),
    finding="NNAPI is faster",
    note="",
)


@pytest.fixture
def phones(tmp_path: Path) -> Path:
    """A sweep of two phones with NNAPI: quicker there in int8 only. The second one's name means harm."""
    workspace = Workspace.open(tmp_path / "phones")
    grid = GridSpec(backend=("cpu", "nnapi"), layout=("nhwc",))
    first = replace(PHONE, nnapi_level=31)
    second = replace(first, device_id="phone-2", name="adb:2", model=EVIL)

    def latency(job: Job) -> float:
        quick = job.variant.backend == "nnapi" and job.variant.precision == "int8"
        return 2.0 if quick else 8.0

    Recorder(workspace).record("article", latency, (first, second), grid)
    return workspace.root


def subheaders(page: AppTest) -> list[str]:
    return [part.value for part in page.subheader]


def table(page: AppTest) -> pd.DataFrame:
    return next(frame.value for frame in page.dataframe if RATIO in frame.value)


def test_both_phones_stand_in_one_chart_and_one_table(page: Page, phones: Path) -> None:
    shown = page(phones)
    assert not shown.exception
    assert "NNAPI against the CPU" in subheaders(shown)
    rows = table(shown)
    assert list(rows["Numbers"]) == ["fp32", "int8"] * 2
    assert list(rows["Finding"]) == ["not told apart", "NNAPI is faster"] * 2
    assert list(rows[RATIO]) == pytest.approx([1.0, 0.25] * 2, rel=0.01)
    assert line(EVIL) in rows["Device"].iloc[2]
    assert list(rows["Best on NNAPI"][:2]) == [f"NNAPI · {build}" for build in ("fp32 · NHWC · 1 thread", INT8)]
    assert list(rows["Best on the CPU"][2:]) == ["fp32 · NHWC · 1 thread", INT8]
    assert "Why not" not in rows
    assert len(shown.get("vega_lite_chart")) == 3


def test_where_no_phone_timed_nnapi_the_page_says_so_and_draws_nothing(page: Page, workspace: Path) -> None:
    box = next(box for box in page(workspace).selectbox if box.label == "Sweep")
    shown = box.select("checked").run()
    assert not shown.exception
    assert "No phone with NNAPI measured." in [part.value for part in shown.text]
    rows = table(shown)
    assert rows["NNAPI p50 (ms)"].isna().all()
    assert rows["CPU p50 (ms)"].notna().all()
    assert all(why.startswith("NNAPI: only checked, not timed: Top-1 ") for why in rows["Why not"])


def test_a_sweep_on_the_cpu_alone_has_no_such_section(page: Page, workspace: Path) -> None:
    assert "NNAPI against the CPU" not in subheaders(page(workspace))


def test_the_bars_start_at_zero_and_hold_names_as_data() -> None:
    bars = rows.backend_bars(BackendFigure(pairs=(PAIR,)))
    assert list(bars["backend"]) == list(dots.BACKENDS)
    assert list(bars["p50_ms"]) == [8.0, 4.0]
    assert bars["low_ms"].isna().to_list() == [False, True]
    chart = dots.backends(bars, LIGHT)
    [part] = chart["layer"]
    dot = next(layer for layer in part["layer"] if layer["mark"]["type"] == "point")
    assert dot["encoding"]["x"]["scale"]["zero"] is True
    spread = next(layer for layer in part["layer"] if layer["mark"]["type"] == "rule")
    assert (spread["encoding"]["x"]["field"], spread["encoding"]["x2"]["field"]) == ("low", "high")
    assert "script" in str(part.pop("data"))
    assert "script" not in str(chart)


def test_rows_of_a_pair_without_a_ratio_hold_its_reason() -> None:
    lonely = replace(PAIR, nnapi=None, ratio=None, finding="", note="NNAPI: skipped: the phone has no NNAPI")
    frame = rows.backends(BackendFigure(pairs=(PAIR, lonely)))
    assert list(frame["interval_text"]) == ["0.40 to 0.60", "–"]
    assert list(frame["note"]) == ["–", "NNAPI: skipped: the phone has no NNAPI"]
    assert frame["nnapi_ms"].isna().to_list() == [False, True]
