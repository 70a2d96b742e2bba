"""Launch and Live as Streamlit runs them, on workspaces that the real journal wrote."""

import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash

from dashboard import rights, running
from dashboard.sweep_form import SweepForm
from sweeps.journal.journal import Journal
from sweeps.launching.checked import check
from sweeps.launching.live import LiveDevice, LiveFile
from sweeps.launching.record import Ask, Launch, keep
from sweeps.workspace import Workspace

SCRIPT = "from pathlib import Path\nfrom dashboard.views import {page}\n{page}.show(Path({root!r}))"


@pytest.fixture(autouse=True)
def _no_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["app.py"])


@pytest.fixture
def by_link(monkeypatch: pytest.MonkeyPatch) -> None:
    """AppTest has no cookies."""
    monkeypatch.setattr(rights, "_by_link", lambda: True)


def opened(page: str, root: Path) -> AppTest:
    shown = AppTest.from_string(SCRIPT.format(page=page, root=str(root)), default_timeout=60).run()
    assert not shown.exception
    return shown


def texts(page: AppTest) -> list[str]:
    return [str(part.value) for kind in (page.text, page.caption, page.subheader, page.code) for part in kind]


def labels(page: AppTest) -> dict[str, bool]:
    """Each button, and whether it can be pressed."""
    return {button.label: not button.disabled for button in page.button}


def launch_of(workspace: Workspace, pid: int, log: str = "") -> Launch:
    (workspace.root / "log").write_text(log)
    return Launch(
        sweep="phones",
        file=str(workspace.launches / "phones.yaml"),
        by="ann@example.org",
        started_s=time.time(),
        pid=pid,
        log=str(workspace.root / "log"),
    )


def test_an_empty_workspace_says_what_to_do(tmp_path: Path) -> None:
    shown = opened("live", tmp_path)
    assert shown.subheader[0].value == "Nothing was started yet"
    assert "Next step: start a sweep on the page Launch" in texts(shown)[0]
    assert list(tmp_path.iterdir()) == []
    assert running.read(tmp_path).every_s is None


@pytest.mark.usefixtures("by_link")
def test_a_sweep_that_runs_is_shown_by_device_with_what_it_waits_for(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    recorder_in: Callable[[Path], Callable[[str], None]],
    evil: str,
) -> None:
    recorder_in(tmp_path)("phones")
    workspace = Workspace.open(tmp_path)
    monkeypatch.setattr("sweeps.launching.live.WRITE_EVERY_S", 0.0)
    # A wait that was told in ten minutes is not over, however long the pages take.
    with workspace.lock(), LiveFile(workspace.live, "phones", lambda: time.time() + 600) as live:
        live.measuring("local", 3, 12, f"digits {evil}, round 2")
        live.waiting("local", (f"the battery has 41 °C {evil}",), 40.0)
        shown = opened("live", tmp_path)
        said = "\n".join(texts(shown))
        assert "phones · Running" in said
        assert "Started in a terminal" in said
        assert "Waiting for 40 s: the battery has 41 °C" in said
        assert "jobs" in said
        assert labels(shown) == {"Pause": True, "Stop": True}
        now = running.read(tmp_path)
        assert [facts.name for facts in now.devices] == ["local"]
        assert now.every_s == running.HERE_EVERY_S
        assert now.driver.live is not None
        for told in ((), (LiveDevice(name="local"), LiveDevice(name="adb:1", running="digits, round 2"))):
            other = replace(now.driver, live=replace(now.driver.live, devices=told))
            assert replace(now, driver=other).every_s == running.PHONES_EVERY_S  # this computer is not measured yet

        live.stopping()
        shown = opened("live", tmp_path)
        assert "phones · Stopping after the running work" in shown.subheader[0].value
        assert labels(shown) == {"Stop at once": True}

        keep(workspace, Ask(what="pause", by=evil, at_s=time.time() + 600, pid=os.getpid()))
        shown = opened("live", tmp_path)
        assert "Pausing after the running work" in shown.subheader[0].value
        assert labels(shown) == {"Stop at once": True}
    shown = opened("live", tmp_path)
    assert "phones · Ended" in shown.subheader[0].value
    assert labels(shown) == {}


def test_units_that_share_work_each_show_what_they_have_done(shared_by_units: Path) -> None:
    workspace = Workspace(shared_by_units)
    with workspace.lock(), LiveFile(workspace.live, "shared"):
        said = texts(opened("live", shared_by_units))
    done = [text.partition(" of ")[0] for text in said if text.endswith("jobs that devices of its class share")]
    with Journal.open(workspace.journal, read_only=True) as journal:
        jobs = [job.device_id for job, _ in journal.jobs("shared")]
    assert done == [str(jobs.count(unit)) for unit in ("unit-a", "unit-b")]


def test_who_may_only_look_gets_no_button_and_whatever_they_send_does_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = Workspace.open(tmp_path)
    shown = opened("launch", tmp_path)
    assert "You may look" in shown.info[0].value
    assert labels(shown) == {"Preview": False, "Start": False}
    assert {box.disabled for kind in (shown.text_area, shown.text_input) for box in kind} == {True}
    shown.text_area[0].proto.disabled = False
    shown.text_area[0].set_value("name: mine\nmodels: 3\n").run()
    assert not shown.error, "what nobody may start is not read"
    for button in shown.button:
        button.proto.disabled = False  # a browser can be made to send what its page does not offer
        button.click()
    shown.run()
    assert not workspace.launches.exists()

    with workspace.lock(), LiveFile(workspace.live, "phones"):
        assert labels(opened("live", tmp_path)) == {}
    monkeypatch.setattr(rights, "_by_link", lambda: True)
    assert labels(opened("launch", tmp_path)) == {"Preview": True, "Start": True, "Make a link": True}


@pytest.mark.usefixtures("by_link")
def test_a_start_that_failed_shows_the_error_and_the_end_of_its_log_as_text(tmp_path: Path, evil: str) -> None:
    workspace = Workspace.open(tmp_path)
    keep(workspace, launch_of(workspace, 1, f"begun\n\x1b[31medgesweep: {evil}\n"))
    shown = opened("live", tmp_path)
    assert shown.subheader[0].value == "phones · Ended without a word"
    assert shown.error[0].value == "The sweep failed."
    assert "it ended without saying why" in texts(shown)
    assert shown.code[0].value.splitlines()[0] == "begun"
    assert evil in shown.code[0].value
    assert "\x1b" not in shown.code[0].value
    assert labels(shown) == {"Resume": True}
    shown.button[0].click().run()
    assert shown.error[0].value == "That was not done."
    assert "the sweep file of the last start is gone" in texts(shown)


@pytest.mark.usefixtures("by_link")
def test_the_form_writes_the_file_and_the_file_s_problems_have_lines(tmp_path: Path) -> None:
    shown = opened("launch", tmp_path)
    file = shown.text_area[0]
    assert file.value == SweepForm().text()
    next(box for box in shown.text_input if box.label == "Name").set_value("mine").run()
    assert yaml.safe_load(shown.text_area[0].value)["name"] == "mine"
    shown.text_area[0].set_value("name: mine\nmodels: 3\ngrids: []\n").run()
    assert shown.error[0].value == "This file cannot be started."
    said = texts(shown)
    assert any(text.startswith("line 2: models: must be a list") for text in said)
    assert labels(shown)["Start"] is False


@pytest.mark.usefixtures("by_link")
def test_what_was_written_is_there_again_after_another_page(page: Callable[..., AppTest], tmp_path: Path) -> None:
    shown = page(tmp_path, "launch")
    next(box for box in shown.text_input if box.label == "Name").set_value("mine").run()
    edited = f"{shown.text_area[0].value}# by hand\n"
    shown.text_area[0].set_value(edited).run()
    for name in ("live", "launch"):
        shown._page_hash = calc_hash(name)
        shown.run()
        assert bool(shown.text_area) == (name == "launch")
    assert shown.text_area[0].value == edited
    assert next(box for box in shown.text_input if box.label == "Name").value == "mine"


@pytest.mark.parametrize(
    "form",
    [
        SweepForm(),
        replace(SweepForm(), weights="random", images="synthetic", threads=(1, 2), devices=("adb:*",), preset="race"),
    ],
)
def test_what_the_form_writes_can_be_started(tmp_path: Path, form: SweepForm) -> None:
    assert check(Workspace.open(tmp_path), form.text()).problems == ()


def test_arguments_that_are_no_yaml_are_an_error_at_their_line(tmp_path: Path) -> None:
    text = replace(SweepForm(), arguments="width: [1").text()
    [problem] = check(Workspace.open(tmp_path), text).problems
    assert text.splitlines()[(problem.line or 0) - 1].strip().startswith("arguments:")
