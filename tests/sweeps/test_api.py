"""EdgeSweep from Python, by the page that shows it."""

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from sweeps import api
from sweeps.workspace import Workspace
from tests.fresh_mlflow import fresh_mlflow
from workers.driver.driver_events import Building, Measuring

PAGE = Path(__file__).parents[2] / "infra" / "python.md"
CELLS = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
VALUES: dict[str, Any] = {
    "name": "notebook",
    "models": [{"source": "mobilenet_v2", "weights": "random", "input_shape": [1, 3, 32, 32]}],
    "grids": [{}],
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.delenv("EDGESWEEP_WORKSPACE", raising=False)
    return tmp_path


@pytest.mark.system
def test_the_page_s_example_runs_beside_the_main_thread(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The thread is one where Python refuses to set a signal handler."""
    fresh_mlflow(folder / "edgesweep-data")
    scope: dict[str, Any] = {}

    def notebook() -> None:
        for number, cell in enumerate(CELLS):
            exec(compile(cell, f"cell {number}", "exec"), scope)

    with ThreadPoolExecutor(1) as beside:
        beside.submit(notebook).result()
    assert list(scope["planned"].jobs().state) == ["to build"] * 2
    assert {Building, Measuring} <= {type(event) for event in scope["seen"]}
    assert (scope["ended"].still_to_do, scope["ended"].interrupted) == ((), False)
    frame = scope["frame"]
    assert list(frame.outcome) == ["measured"] * 2
    assert pd.api.types.is_float_dtype(frame.latency_p50_ms)
    assert pd.api.types.is_integer_dtype(frame.rounds)
    assert pd.api.types.is_bool_dtype(frame.fuse)
    assert (folder / "shipped" / "manifest.json").is_file()
    assert "Measuring on local" in capsys.readouterr().err
    # The same call continues: nothing is left to do, and nothing is shown.
    again = api.run(scope["sweep"], executor="inline", quiet=True)
    assert again.ranking.devices[0].ranking[0].name == scope["place"].ranking[0].name
    assert "2 done before" in capsys.readouterr().err


@pytest.mark.system
def test_a_run_that_is_stopped_before_its_first_result_has_no_ranking(folder: Path) -> None:
    fresh_mlflow(folder / "edgesweep-data")
    ended = api.run(api.build(VALUES), executor="inline", stop=lambda: True, quiet=True)
    assert (ended.ranking, ended.interrupted) == (None, True)
    assert "run the same command again" in ended.still_to_do[0]


def test_each_problem_of_values_is_named_with_its_place(folder: Path) -> None:
    with pytest.raises(api.EdgeSweepError) as caught:
        api.build(VALUES | {"grids": [{"precision": ["fp23"]}], "objektive": {}})
    first, second = sorted(caught.value.message.splitlines())
    assert first.startswith("grids[0].precision[0]: ")
    assert second.startswith("the values: the key 'objektive' is unknown")


def test_a_value_that_no_file_can_have_is_refused(folder: Path) -> None:
    with pytest.raises(api.EdgeSweepError, match="cannot be in a sweep file"):
        api.build(VALUES | {"budget": {1j: 2}})


def test_a_file_s_folder_is_searched_for_the_model_s_code(folder: Path) -> None:
    (folder / "deep").mkdir()
    (folder / "deep" / "sweep.yaml").write_text(
        "name: a\nmodels: [{source: mobilenet_v2, weights: random, input_shape: [1, 3, 32, 32]}]\ngrids: [{}]\n"
    )
    assert api.load("deep/sweep.yaml").folders == (folder / "deep",)
    assert api.build(VALUES, folder="deep").folders == (folder / "deep",)


def test_a_plan_creates_no_workspace(folder: Path) -> None:
    planned = api.plan(api.build(VALUES))
    assert list(planned.jobs().columns) == ["name", "model", "device", "variant", "state"]
    assert list(planned.skipped().columns) == ["name", "reason"]
    assert planned.seconds > 0
    assert not (folder / "edgesweep-data").exists()


def test_the_workspace_is_an_argument_or_the_environment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for named in ("one", "two"):
        Workspace.open(folder / named)
    with pytest.raises(api.EdgeSweepError, match=r"no sweep was run in .*/one"):
        api.rank(workspace="one")
    monkeypatch.setenv("EDGESWEEP_WORKSPACE", "two")
    with pytest.raises(api.EdgeSweepError, match=r"no sweep was run in .*/two"):
        api.results()


def test_the_page_names_every_function() -> None:
    functions = {name for name in api.__all__ if name.islower()}
    assert functions <= set(re.findall(r"`(\w+)\(", PAGE.read_text(encoding="utf-8")))
