"""Launch and Live as Streamlit runs them, on workspaces that the real journal wrote."""

import os
import re
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash

from dashboard import rights, running
from dashboard.running import Running
from dashboard.sweep_form import SweepForm
from dashboard.views import live
from sweeps.journal.journal import Journal
from sweeps.launching.driver import Driver
from sweeps.launching.live_report import Live, LiveDevice, LiveFile
from sweeps.launching.record import Launch, StartRequest, keep, last
from sweeps.launching.text_check import check
from sweeps.records import Conditions, Lack
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
    monkeypatch.setattr("sweeps.launching.live_report.WRITE_EVERY_S", 0.0)
    # A wait that was told in ten minutes is not over, however long the pages take.
    with workspace.lock(), LiveFile(workspace.live, "phones", lambda: time.time() + 600) as live:
        live.measuring("local", 3, 12, f"digits {evil}, round 2")
        live.waiting("local", (f"the battery has 41 °C {evil}",), 40.0)
        shown = opened("live", tmp_path)
        text = "\n".join(texts(shown))
        assert "phones · Running" in text
        assert "Started in a terminal" in text
        assert "Waiting for 40 s: the battery has 41 °C" in text
        assert "jobs" in text
        assert labels(shown) == {"Pause": True, "Stop": True}
        text = "\n".join(texts(opened("launch", tmp_path)))
        assert "jobs. Waiting for 40 s: the battery has 41 °C" in text
        assert "Ended last" not in text, "Live has the rest: here the form follows"
        with Journal.open(workspace.journal, read_only=True) as journal:
            job = next(
                candidate for candidate, _ in journal.jobs.of_sweep("phones") if candidate.variant.precision == "int8"
            )
        live.measuring("local", 4, 12, f"{job.name}, round 3", job.key)
        for name in ("live", "launch", "fleet"):
            text = "\n".join(texts(opened(name, tmp_path)))
            assert re.search(r"digits · int8 · N(HWC|CHW) · \w+ · 1 thread.*, round 3", text), name
            assert job.name not in text
        now = running.read(tmp_path)
        assert [facts.name for facts in now.devices] == ["local"]
        assert now.every_s == running.HERE_EVERY_S
        assert now.driver.live is not None
        for devices in ((), (LiveDevice(name="local"), LiveDevice(name="adb:1", running="digits, round 2"))):
            other = replace(now.driver, live=replace(now.driver.live, devices=devices))
            assert replace(now, driver=other).every_s == running.PHONES_EVERY_S  # this computer is not measured yet

        live.stopping()
        shown = opened("live", tmp_path)
        assert "phones · Stopping after the running work" in shown.subheader[0].value
        assert labels(shown) == {"Stop at once": True}

        keep(workspace, StartRequest(what="pause", by=evil, at_s=time.time() + 600, pid=os.getpid()))
        shown = opened("live", tmp_path)
        assert "Pausing after the running work" in shown.subheader[0].value
        assert labels(shown) == {"Stop at once": True}
    shown = opened("live", tmp_path)
    assert "phones · Ended" in shown.subheader[0].value
    assert labels(shown) == {}


@pytest.mark.usefixtures("by_link")
def test_a_second_start_says_who_runs_what_and_starts_nothing(tmp_path: Path) -> None:
    workspace = Workspace.open(tmp_path)
    with workspace.lock(), LiveFile(workspace.live, "phones"):
        shown = opened("launch", tmp_path)
        assert "phones · Planning" in [part.value for part in shown.subheader]
        next(button for button in shown.button if button.label == "Start").click().run()
        assert not shown.exception
        assert shown.error[0].value == "It was not started."
        text = "\n".join(texts(shown))
        assert f"process {os.getpid()}" in text
        assert last(workspace, Launch) is None


@pytest.mark.usefixtures("by_link")
def test_a_journal_of_a_newer_version_leaves_the_form_and_is_named(
    tmp_path: Path, recorder_in: Callable[[Path], Callable[[str], None]]
) -> None:
    recorder_in(tmp_path)("phones")
    workspace = Workspace.open(tmp_path)
    with LiveFile(workspace.live, "phones"):
        pass
    with closing(sqlite3.connect(workspace.journal)) as db:
        db.execute("PRAGMA user_version = 9999")
    shown = opened("launch", tmp_path)
    assert shown.text_area[0].value == SweepForm().text()
    for name in ("launch", "live"):
        text = "\n".join(texts(opened(name, tmp_path)))
        assert re.search(r"(are not listed|cannot be read): .*version.*Next step: ", text), name


def test_what_is_said_of_a_device_s_last_block_is_true() -> None:
    assert live._weather(None, {}, True) == "no block yet"
    assert live._weather(None, {}, False) == "no block"
    assert live._weather(None, {"failed": 2}, True) == "no block: its jobs failed"
    assert live._weather(None, {"measured": 1, "failed": 2}, True).startswith("last block: some time ago")

    def text_of(**conditions: Any) -> str:
        return live._weather(Conditions(**conditions), {"measured": 1}, True)

    assert text_of(temp_start_c=33.0, temp_end_c=34.2, gate="ready") == "last block: 34 °C, waited for a ready device"
    assert text_of(temp_end_c=34.2) == "last block: 34 °C, no gate"
    assert text_of(thermal_status_end=1, gate="timed_out", lacking=(Lack("at most 20 % load"),)) == (
        "last block: no temperature sensor, thermal status 1, waited for a ready device, lacked at most 20 % load"
    )


def test_a_device_on_which_nothing_runs_says_why() -> None:
    state = Live(sweep="phones", pid=1, started_s=0.0, builds_done=3, builds_total=10)

    def text_of(builds_done: int, **about: Any) -> str:
        driver = Driver(
            state="running", pid=1, launch=None, live=replace(state, builds_done=builds_done), end_request=None
        )
        now = Running(driver)
        return live._doing(LiveDevice(name="adb:1", **about), now)

    assert text_of(3, total=8) == "Waits for builds: 3 of 10 are made"
    assert text_of(3, done=8, total=8) == "Done"
    assert text_of(10, done=3, total=8) == "Nothing runs on it now"
    assert text_of(10) == "Nothing has begun on it in this run"
    assert text_of(10, total=8, waiting=("at most 35 °C",)) == "Waits until it is ready: at most 35 °C", "for long"
    assert text_of(10, running="sentinel", total=8) == "Now: sentinel"


def test_units_that_share_work_each_show_what_they_have_done(shared_by_units: Path) -> None:
    workspace = Workspace(shared_by_units)
    with workspace.lock(), LiveFile(workspace.live, "shared"):
        shown = opened("live", shared_by_units)
        lines = texts(shown)
    ended = shown.dataframe[0].value
    assert set(ended["Device"]) == {f"Globex Phone 9 (SoC X) · {unit}" for unit in ("unit-a", "unit-b")}
    words = [build.split(" · ") for build in ended["Build"]]
    assert all(entry[0] == "digits" and "1 thread" in entry for entry in words)
    assert not {word for row in words for word in row} & {"adb:a", "adb:b", "unit-a", "unit-b"}
    done = [text.partition(" of ")[0] for text in lines if text.endswith("jobs that devices of its class share")]
    with Journal.open(workspace.journal, read_only=True) as journal:
        jobs = [job.device_id for job, _ in journal.jobs.of_sweep("shared")]
    assert done == [str(jobs.count(unit)) for unit in ("unit-a", "unit-b")]


def test_who_may_only_look_gets_no_button_and_whatever_they_send_does_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = Workspace.open(tmp_path)
    shown = opened("launch", tmp_path)
    assert "You may look" in shown.info[0].value
    assert labels(shown) == {"Look for devices": False, "Preview": False, "Start": False}
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
    buttons = ("Look for devices", "Preview", "Start", "Make a link")
    assert labels(opened("launch", tmp_path)) == dict.fromkeys(buttons, True)


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
    lines = texts(shown)
    assert any(text.startswith("line 2: models: must be a list") for text in lines)
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


@pytest.mark.usefixtures("by_link")
def test_the_form_shows_the_edited_file_and_changes_only_its_own_lines(tmp_path: Path) -> None:
    shown = opened("launch", tmp_path)
    edited = f"# by hand\n{shown.text_area[0].value}recovery: {{retries: 1}}\n"
    edited = edited.replace("name: my-sweep", "name: edited  # for May").replace("threads: [1]", "threads: [1, 3]")
    shown.text_area[0].set_value(edited).run()
    assert next(box for box in shown.text_input if box.label == "Name").value == "edited"
    threads = next(group for group in shown.button_group if group.label == "Threads")
    assert (threads.options, threads.value) == (["1", "2", "4", "8", "3"], [1, 3])
    assert "Also in the file: recovery." in texts(shown)
    next(box for box in shown.text_input if box.label == "Name").set_value("mine").run()
    assert shown.text_area[0].value == edited.replace("edited  #", "mine  #")

    shown.text_area[0].set_value("name: [").run()
    assert {box.disabled for box in shown.text_input} == {True}
    assert any("1 | name: [" in code.value for code in shown.code)
    shown.text_area[0].set_value("name: again\nmodels: [{source: a, input_shape: [1, 3, 32, 64]}]\n").run()
    assert {box.label: box.disabled for box in (*shown.text_input, *shown.number_input)} == {
        **{"Name": False, "Model: torchvision's name, or module:function": False, "Its arguments": False},
        "Input: pixels a side": True,
        "Rounds, at least": False,
    }
    assert "Only the file can show: input." in texts(shown)


@pytest.mark.usefixtures("by_link")
def test_the_address_has_the_file_and_what_differs_from_it(page: Callable[..., AppTest], tmp_path: Path) -> None:
    launches = Workspace(tmp_path).launches
    launches.mkdir()
    (launches / "may.yaml").write_text(replace(SweepForm(), name="may", threads=(4,)).text())
    shown = page(tmp_path, "launch")
    assert shown.query_params["file"] == "new"
    box = next(box for box in shown.selectbox if box.label == "Begin with")
    assert "may (started here)" in box.options
    assert "recipe (an example)" in box.options
    box.set_value("kept:may").run()
    assert yaml.safe_load(shown.text_area[0].value)["name"] == "may"
    assert dict(shown.query_params) == {"file": "kept:may"}
    next(box for box in shown.number_input).set_value(96).run()
    next(group for group in shown.button_group if group.label == "Threads").set_value([1, 2]).run()
    parameters = {"file": "kept:may", "side": "96", "threads": "1,2"}
    assert dict(shown.query_params) == parameters
    next(box for box in shown.number_input if box.label.startswith("Rounds")).set_value(5).run()
    next(box for box in shown.selectbox if box.label == "Before a block").set_value("none").run()
    next(box for box in shown.selectbox if box.label.startswith("Budget")).set_value("race").run()
    file = yaml.safe_load(shown.text_area[0].value)
    assert file["protocol"] == {"preset": "quick", "rounds": 5, "gate": "none"}
    assert file["budget"] == "race"
    assert dict(shown.query_params) == {**parameters, "rounds": "5", "gate": "none", "budget": "race"}
    reopened = page(tmp_path, "launch", **dict(shown.query_params))
    assert reopened.text_area[0].value == shown.text_area[0].value
    assert not reopened.warning


@pytest.mark.usefixtures("by_link")
def test_what_a_hostile_address_asks_for_is_text_and_starts_nothing(
    page: Callable[..., AppTest], tmp_path: Path, evil: str
) -> None:
    parameters = {"file": "kept:../../etc/passwd", "side": "9" * 500, "preset": evil, "threads": "x", "on": evil}
    shown = page(tmp_path, "launch", **parameters, source=evil, devices=f"local,{evil}")
    assert not shown.exception
    assert len(shown.warning) == 4
    assert {text.split(":")[0] for text in texts(shown)} >= {"file", "side", "preset", "threads"}
    written = yaml.safe_load(shown.text_area[0].value)
    assert written["models"][0]["source"] == evil
    assert written["devices"] == ["local", *evil.split(",")]
    assert {key: written[key] for key in ("protocol", "grids")} == {
        key: yaml.safe_load(SweepForm().text())[key] for key in ("protocol", "grids")
    }
    assert shown.error[0].value == "This file cannot be started."
    assert not Workspace(tmp_path).launches.exists()


@pytest.mark.usefixtures("by_link")
def test_where_a_lab_is_known_a_person_chooses_between_it_and_this_computer(
    page: Callable[..., AppTest], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[tuple[str, ...]] = []
    monkeypatch.setattr("dashboard.views.launch.start", lambda *arguments: started.append(arguments[-1]))
    without = page(tmp_path, "launch")
    assert not [group for group in without.button_group if group.label == "Runs on"]
    next(button for button in without.button if button.label == "Start").click().run()
    monkeypatch.setenv("EDGESWEEP_LAB", "10.0.0.1:6379")
    monkeypatch.setenv("EDGESWEEP_TOKEN_FILE", str(tmp_path / "token"))
    shown = page(tmp_path, "launch")
    assert shown.query_params["on"] == "lab"
    next(button for button in shown.button if button.label == "Start").click().run()
    page_here = page(tmp_path, "launch", on="here")
    next(button for button in page_here.button if button.label == "Start").click().run()
    lab = ("--lab", "10.0.0.1:6379", "--token-file", str(tmp_path / "token"))
    assert started == [(), lab, ()]


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
