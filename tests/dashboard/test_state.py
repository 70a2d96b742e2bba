"""The address of a page holds its state, and what it asks for is not trusted."""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash

from dashboard.margin_sentences import plainest
from sweeps.planning.plan import Plan
from sweeps.spec.objective import ConstraintSpec, ObjectiveSpec
from sweeps.workspace import Workspace
from tests.dashboard.conftest import WIDE, Recorder, by_axes
from tests.dashboard.test_decide import BEST, BEST_ON_PHONE, choose, table, texts

Page = Callable[..., AppTest]


def test_an_address_opens_the_place_and_the_objective_that_it_names(page: Page, workspace: Path) -> None:
    shown = page(workspace, sweep="phones", device="phone-1", model="digits", goal="top1_percent", drop="none")
    assert not shown.exception
    assert "1 thread" in shown.header[0].value
    assert "Asked for: highest top-1 accuracy." in texts(shown)
    assert page(workspace, sweep="phones", device="phone-1").header[0].value == BEST_ON_PHONE


def test_what_is_chosen_is_in_the_address_and_another_browser_sees_the_same(page: Page, workspace: Path) -> None:
    shown = choose(page(workspace, sweep="phones"), "Device", "phone-1")
    shown.text_input[0].set_value("0.10").run()
    parameters = {name: value[0] if isinstance(value, list) else value for name, value in shown.query_params.items()}
    assert (parameters["device"], parameters["drop"]) == ("phone-1", "0.1")
    reopened = page(workspace, **parameters)
    assert reopened.header[0].value == shown.header[0].value != BEST_ON_PHONE
    assert list(table(reopened, "Rank")["Verdict"]) == list(table(shown, "Rank")["Verdict"])
    reopened.button(key="objective-back").click().run()
    assert reopened.header[0].value == BEST_ON_PHONE
    assert "drop" not in reopened.query_params


def test_memory_and_lower_bounds_are_fields_too_and_a_files_bounds_have_their_own(
    page: Page, workspace: Path, tmp_path: Path
) -> None:
    root = tmp_path / "own"
    shutil.copytree(workspace, root)
    bounds = ({"metric": "top1_percent", "at_least": 90.0}, {"metric": "agreement_percent", "at_least": 95.0})
    Recorder(Workspace(root)).record("bounded", by_axes, grid=WIDE, edit=lambda plan: bounded(plan, bounds))
    shown = page(root, sweep="bounded")
    fields = {box.label: box.value for box in shown.text_input}
    assert fields["Top-1, at least (%)"] == "90"
    assert fields["Memory of the model, at most (MB)"] == ""
    [own] = [box for box in shown.text_input if box.label.startswith("Agreement")]
    assert own.value == "95"
    assert shown.header[0].value == BEST
    own.set_value("99.5").run()
    assert shown.header[0].value == "No winner"
    assert shown.query_params["least-agreement_percent"] == "99.5"
    assert page(root, sweep="bounded", top1="99").header[0].value == "No winner"
    assert page(root, sweep="bounded", rss="1").header[0].value == "No winner"


def test_a_bound_has_all_its_digits_and_what_is_no_number_changes_nothing(page: Page, workspace: Path) -> None:
    shown = page(workspace, sweep="phones", device="phone-1", drop="0.4567", mb="1234567")
    [drop] = [box for box in shown.text_input if box.label.startswith("Accuracy drop")]
    assert drop.value == "0.4567"
    assert "with the accuracy drop at most 0.4567 points and the file's size at most 1234567 MB" in texts(shown)
    for refused in ("0,5", "-1", "nan", "1e999", "<b>"):
        shown.text_input[0].set_value(refused).run()
        assert not shown.exception
        assert shown.text_input[0].value == "0.4567"
        assert "no number" in shown.sidebar.warning[0].value
        assert refused in [part.value for part in shown.sidebar.text]
        assert shown.query_params["drop"] == "0.4567"
    shown.text_input[0].set_value(" ").run()
    assert not shown.sidebar.warning
    assert shown.query_params["drop"] == "none"


def bounded(plan: Plan, bounds: Sequence[dict[str, object]]) -> Plan:
    objective = ObjectiveSpec(constraints=tuple(ConstraintSpec.model_validate(bound) for bound in bounds))
    return replace(plan, sweep=plan.sweep.model_copy(update={"objective": objective}))


def test_what_counts_in_one_sweep_is_not_kept_for_another(page: Page, workspace: Path) -> None:
    shown = choose(page(workspace, sweep="phones"), "Sweep", "by-accuracy")
    assert "Asked for: highest top-1 accuracy." in texts(shown)
    assert "goal" not in shown.query_params
    shown = page(workspace, sweep="phones")
    assert shown.text_input[0].value == "1"
    assert choose(shown, "Sweep", "raced").text_input[0].value == ""


def test_an_objective_of_one_s_own_is_left_with_the_page(page: Page, workspace: Path) -> None:
    shown = choose(page(workspace, sweep="phones"), "The best has the", "top1_percent")
    assert "Asked for: highest top-1 accuracy" in texts(shown)
    for name in ("fleet", "decide"):
        shown._page_hash = calc_hash(name)
        shown.query_params.pop("goal", None)
        shown.run()
    assert "Asked for: lowest latency (p50)" in texts(shown)
    assert "goal" not in shown.query_params


@pytest.mark.parametrize("name", ["sweep", "device", "model", "goal", "drop", "part", "job"])
@pytest.mark.parametrize("value", ["<script>alert(1)</script>", "nan", "-1", "", "1e999", "../../etc/passwd"])
def test_an_address_that_asks_for_nonsense_gets_a_page_and_words(
    page: Page, workspace: Path, name: str, value: str
) -> None:
    shown = page(workspace, **{"sweep": "phones", name: value})
    assert not shown.exception
    assert shown.header[0].value == BEST
    if name not in ("part", "job"):
        assert [warning.value for warning in shown.warning] or not value
    assert not [part for part in shown.markdown if part.allow_html]


def test_a_picked_job_of_the_address_is_shown_beside_the_points(page: Page, workspace: Path) -> None:
    ranking = table(page(workspace, sweep="phones"), "Rank")
    shown = page(workspace, sweep="phones", job="f" * 64)
    assert any("The winner. Click" in part.value for part in shown.caption)
    assert len(ranking) == 12


def test_where_nothing_is_plain_nothing_is_compared_with() -> None:
    assert plainest([]) == set()
