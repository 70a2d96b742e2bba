"""Compare, Result and Devices as Streamlit runs them, on workspaces that the real journal wrote."""

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from dashboard import rights
from dashboard.markdown_escape import NOTHING, line
from dashboard.views import compare_sides
from sweeps.journal.journal import Journal
from sweeps.json_records import to_json
from sweeps.launching import reachable_devices
from sweeps.launching.live_report import LiveFile, read_live
from sweeps.launching.reachable_devices import HostRow
from sweeps.quarantine import QuarantineBook
from sweeps.records import Job
from sweeps.store.client import connect
from sweeps.store.run_content import JOB_KEY
from sweeps.stored_profiles import StoredOperator, StoredProfile, store, store_trace
from sweeps.workspace import Workspace
from tests.dashboard.conftest import EVIL
from tests.fresh_mlflow import fresh_mlflow

Shown = Callable[..., AppTest]
PAGES = ("compare", "result", "devices")


@pytest.fixture
def shown(page: Shown, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Shown:
    """Pages for a user of whose devices nothing is remembered."""
    monkeypatch.setenv("EDGESWEEP_STATE", str(tmp_path / "state"))
    return page


def text_of(page: AppTest) -> str:
    assert not page.exception
    parts = [*page.title, *page.header, *page.subheader, *page.text, *page.markdown, *page.caption, *page.code]
    parts += [*page.info, *page.warning, *page.error]
    return "\n".join(str(part.value) for part in parts)


def charts(page: AppTest) -> int:
    return len(page.get("vega_lite_chart"))


def key_of(root: Path, sweep: str, part: str, device_id: str = "board-1") -> str:
    with Journal.open(Workspace(root).journal, read_only=True) as journal:
        return next(
            job.key for job, _ in journal.jobs.of_sweep(sweep) if part in job.name and job.device_id == device_id
        )


@pytest.fixture
def own(evidence_store: Path, tmp_path: Path) -> tuple[Workspace, Job]:
    """A copy of the store that a test may change, and a job of it on `phone-1`."""
    root = tmp_path / "own"
    shutil.copytree(evidence_store, root)
    workspace = Workspace.open(root)
    key = key_of(root, "before", "int8-qnnpack nchw script fused optimized", "phone-1")
    with Journal.open(workspace.journal, read_only=True) as journal:
        return workspace, journal.jobs.planned("before", key).job


FAST = "int8-x86 nhwc script fused optimized"


def test_a_result_shows_its_samples_sentinel_conditions_build_and_how_to_repeat_it(
    shown: Shown, evidence_store: Path
) -> None:
    key = key_of(evidence_store, "before", "int8-qnnpack nchw script fused optimized", "phone-1")
    page = shown(evidence_store, "result", sweep="before", device="phone-1", model="digits", job=key)
    text = text_of(page)
    assert charts(page) == 4
    assert "300 samples" in text
    assert "The number of its rounds was fixed." in text
    assert "Not kept: it was built elsewhere, or not yet." in text
    assert "edgesweep check shipped/manifest.json --device adb:1" in text
    assert {metric.label for metric in page.metric} >= {"Latency (p50)", "Top-1"}
    blocks = next(frame.value for frame in page.dataframe if "Block" in frame.value)
    assert list(blocks["°C"]) == ["30.0 → 31.5", "31.0 → 32.5", "32.0 → 33.5"]
    assert page.query_params["job"] == key


def test_a_result_shows_where_its_time_goes_or_the_command_that_tells(
    shown: Shown, own: tuple[Workspace, Job], evil: str
) -> None:
    workspace, job = own
    root = workspace.root
    parameters = {"sweep": "before", "device": "phone-1", "model": "digits", "job": job.key}
    text = text_of(shown(root, "result", **parameters))
    assert "This build was not profiled on this device yet." in text
    assert f"edgesweep profile '{job.name}' --device adb:1 --sweep before --workspace {root}" in text
    operators = [
        StoredOperator(name=name, where=where, calls_per_iteration=1, self_us_per_iteration=us, percent=us)
        for name, where, us in ((evil, "XnnpackBackend", 60.0), ("add", "", 39.99), ("view", "", 0.01))
    ]
    profile = StoredProfile(
        **{"job": job.name, "build_key": job.build_key, "device": "adb:1", "device_id": "phone-1"},
        **{"threads": 1, "cpus": "all", "reuse_input": True, "runner": evil, "runtime": "x", "iterations": 20},
        **{"profiled_iteration_p50_us": 100.0, "operators": tuple(operators), "suffix": "trace.json"},
    )
    store_trace(workspace, profile, {"traceEvents": []})
    store(workspace, profile.model_copy(update={"capture": "simpleperf", "suffix": "simpleperf.data", "operators": ()}))
    page = shown(root, "result", **parameters)
    text = text_of(page)
    table = next(frame.value for frame in page.dataframe if "Operator" in frame.value)
    assert list(table["Operator"]) == [line(evil), "add"]
    assert list(table["Share"]) == [60.0, 39.99]
    assert "1 more take less than 0.05 % each" in text
    assert "no figure here is a latency" in text
    assert "Its file is gone: make it again." in text  # the file of the capture
    assert "edgesweep profile" not in text
    assert evil not in "\n".join(str(part.value) for part in (*page.markdown, *page.caption))


def test_the_run_of_a_job_is_found_in_mlflow_by_a_button(shown: Shown, own: tuple[Workspace, Job]) -> None:
    workspace, job = own
    fresh_mlflow(workspace.root)
    client = connect(workspace.tracking_uri, make=False)
    experiment = client.create_experiment("before")
    run = client.create_run(experiment, tags={JOB_KEY: job.key}).info.run_id

    def answer(key: str, device: str) -> str:
        page = shown(workspace.root, "result", sweep="before", device=device, job=key)
        return text_of(page.button(key="find-run").click().run())

    assert f"Experiment {experiment}, run {run}, at sqlite:///" in answer(job.key, "phone-1")
    assert "MLflow has no run of this job yet" in answer(key_of(workspace.root, "before", FAST), "board-1")


def test_what_a_device_without_sensors_lacks_is_said_in_words(shown: Shown, evidence_store: Path) -> None:
    page = shown(evidence_store, "result", sweep="before", device="board-1", job=key_of(evidence_store, "before", FAST))
    assert "Covered by the accelerator" not in text_of(page), "it runs on the CPU"
    assert "The device has no sensor that can be read" in text_of(page)
    assert "it is unknown whether the device was cool" in text_of(page)


def test_a_failed_job_has_stage_kind_message_and_next_step(shown: Shown, evidence_store: Path, evil: str) -> None:
    text = text_of(shown(evidence_store, "result", sweep="broken"))
    assert "This job failed." in text
    assert "Stage: run\nKind: crashed\nMessage: <script>alert(1)</script>" in text
    assert "Next step: the message and the log have its last words: remove the cause" in text
    assert f"edgesweep run SWEEP.yaml --workspace '{evidence_store}' --retry-failed tries it again" in text
    assert "No block of it was accepted" in text
    assert evil not in "\n".join(str(part.value) for part in shown(evidence_store, "result", sweep="broken").markdown)


def test_two_builds_of_one_device_are_compared_by_their_common_rounds(shown: Shown, evidence_store: Path) -> None:
    a, b = (
        key_of(evidence_store, "before", FAST),
        key_of(evidence_store, "before", "int8-x86 nchw script fused optimized"),
    )
    page = shown(evidence_store, "compare", a=f"before:{a}", b=f"before:{b}")
    text = text_of(page)
    assert "B is slower than A" in text
    assert "paired by round 2.40× (2.40 to 2.40)" in text
    rounds = next(frame.value for frame in page.dataframe if "B / A" in frame.value)
    assert rounds["B / A"].median() == pytest.approx(2.4, abs=0.01)
    assert (rounds["B (ms)"] / rounds["A (ms)"]).median() == pytest.approx(rounds["B / A"].median())
    [table] = [frame.value for frame in page.dataframe if "B against A" in frame.value]
    differing = table.set_index("What")
    assert list(differing.loc["layout"]) == ["nhwc", "nchw", NOTHING]
    assert "precision" not in differing.index, "it is the same"
    assert list(differing.loc["Accuracy drop"]) == ["0.20 points", "0.20 points", "+0.00 points"]
    assert list(differing.loc["First inference"]) == ["50.00 ms", "50.00 ms", "1.00×"]
    assert charts(page) == 2
    assert page.query_params["a"] == f"before:{a}"


def test_two_days_and_two_devices_are_compared_as_the_command_does(shown: Shown, evidence_store: Path) -> None:
    a, b = key_of(evidence_store, "before", FAST), key_of(evidence_store, "after", FAST)
    text = text_of(shown(evidence_store, "compare", a=f"before:{a}", b=f"after:{b}"))
    assert "never measured in the same round" in text
    assert "Sessions: 1 of A, 1 of B" in text
    other = key_of(evidence_store, "before", "int8-qnnpack nhwc script fused optimized", "phone-1")
    text = text_of(shown(evidence_store, "compare", a=f"before:{a}", b=f"before:{other}"))
    assert "A and B cannot be compared" in text
    assert "device class: Acme Board 3 (Fast SoC) and Globex Phone 9 (SoC X)" in text


def test_a_build_that_was_measured_on_two_dates_is_compared_with_itself(
    shown: Shown, own: tuple[Workspace, Job]
) -> None:
    workspace, job = own
    first, second = 1_800_000_000, 1_800_432_000
    with Journal.open(workspace.journal) as journal:
        for block in journal.attempts.blocks(job.key)[:2]:
            slower = tuple(2 * ns for ns in block.samples_ns)
            journal.attempts.add_block(replace(block, session=second, round=block.round + 3, samples_ns=slower))
    side = f"before:{job.key}"
    page = shown(workspace.root, "compare", a=f"{side}:{first}", b=f"{side}:{second}")
    text = text_of(page)
    assert "B / A" in text
    assert "Sessions: 1 of A, 1 of B" in text
    assert "never measured in the same round" in text
    assert "measured on 2027-01-15" in text
    assert "measured on 2027-01-20" in text
    boxes = [box for box in page.selectbox if box.label.endswith(": measured")]
    assert [box.options for box in boxes] == [
        ["all 2 dates (5 blocks)", "2027-01-15 08:00 UTC (3 blocks)", "2027-01-20 08:00 UTC (2 blocks)"]
    ] * 2
    boxes[1].set_value(0).run()
    assert page.query_params["b"] == side
    assert "choose a date on both sides" in text_of(page)
    assert "asks for something that is not here" in text_of(shown(workspace.root, "compare", a=f"{side}:7", b=side))


def test_of_many_devices_compare_lists_a_few_and_all_of_them_when_that_is_chosen(
    shown: Shown, evidence_store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compare_sides, "FEW", 0)
    a, b = (
        f"before:{key_of(evidence_store, 'before', FAST)}",
        f"before:{key_of(evidence_store, 'before', 'int8-qnnpack nhwc script fused optimized', 'phone-1')}",
    )
    page = shown(evidence_store, "compare", a=a, b=a)
    this_device, every = page.selectbox(key="b device").options
    assert every == "All 2 devices …"
    assert "1 of 2 devices: choose “All 2 devices …” to search them." in text_of(page)
    page.selectbox(key="b device").select(compare_sides.EVERY).run()
    assert len(page.selectbox(key="b device").options) == 2
    assert page.selectbox(key="a device").options == [this_device, every]
    assert (page.selectbox(key="b device").value, page.query_params["b"]) == ("board-1", a), "nothing else was chosen"
    page.selectbox(key="b device").select("phone-1").run()
    other = page.selectbox(key="b device").options[1]
    assert page.selectbox(key="a device").options == [this_device, other], (
        "the device of the other side is near at hand"
    )
    page = shown(evidence_store, "compare", a=a, b=b)
    assert (page.query_params["b"], page.selectbox(key="b device").value) == (b, "phone-1"), "a link names any device"
    monkeypatch.setattr(compare_sides, "FEW", 1)
    page = shown(evidence_store, "compare", a=a, b=a)
    assert page.selectbox(key="b device").options == [this_device, every], "the first one is the chosen one"
    monkeypatch.setattr(compare_sides, "FEW", 2)
    page = shown(evidence_store, "compare", a=a, b=a)
    assert every not in page.selectbox(key="b device").options
    assert "devices: choose" not in text_of(page)


def test_a_result_and_itself_are_not_compared(shown: Shown, evidence_store: Path) -> None:
    side = f"before:{key_of(evidence_store, 'before', FAST)}"
    assert "one and the same result" in text_of(shown(evidence_store, "compare", a=side, b=side))


def test_hosts_of_a_lab_that_is_away_are_asked_by_a_button_and_its_error_is_text(
    shown: Shown, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert not shown(tmp_path, "devices").button
    monkeypatch.setenv("EDGESWEEP_LAB", "127.0.0.1:1")
    monkeypatch.setenv("EDGESWEEP_TOKEN_FILE", str(tmp_path / "no token"))
    button = shown(tmp_path, "devices").button[0]
    assert (button.label, button.disabled) == ("Ask the hosts", True)
    monkeypatch.setattr(rights, "_by_link", lambda: True)
    for name, label in (("devices", "Ask the hosts"), ("launch", "Look for devices")):
        page = shown(tmp_path, name)
        next(button for button in page.button if button.label == label).click().run()
        text = text_of(page)
        assert f"the token file {tmp_path / 'no token'} cannot be read" in text
        assert "Next step: copy it from the lab's head" in text


def test_hosts_that_answer_stand_in_a_table_with_who_uses_their_devices(
    shown: Shown, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    free = {"device_class": "Globex Phone 9", "used_by": "", "running": "", "left_s": None, "waiting": 0}
    busy = {"used_by": f"ann {EVIL}", "running": "phones, round 2", "left_s": 600.0, "waiting": 2}
    rows = (
        HostRow(host="desk", answers=True, device="host:desk/adb:1", **(free | busy)),
        HostRow(host="rack", answers=False, device="", **(free | {"device_class": ""})),
    )
    monkeypatch.setattr(reachable_devices, "hosts", lambda workspace, options: (rows, (f"rack: {EVIL}",)))
    monkeypatch.setattr(rights, "_by_link", lambda: True)
    monkeypatch.setenv("EDGESWEEP_LAB", "127.0.0.1:1")
    monkeypatch.setenv("EDGESWEEP_TOKEN_FILE", str(tmp_path / "no token"))
    page = shown(tmp_path, "devices")
    next(button for button in page.button if button.label == "Ask the hosts").click().run()
    hosts = page.dataframe[-1].value
    assert list(hosts["Host"]) == ["desk", "rack (does not answer)"]
    assert list(hosts["Device"]) == ["host:desk/adb:1", "no device"]
    assert list(hosts["Used by"]) == [f"ann {line(EVIL)}, about 10 min left; 2 wait", ""]
    assert list(hosts["Runs"]) == ["phones, round 2", ""]
    assert "Not asked again until you do." in text_of(page)
    assert not [part for part in page.markdown if part.allow_html]


def test_a_device_shows_facts_use_history_and_what_was_measured(shown: Shown, evidence_store: Path) -> None:
    QuarantineBook().put("phone-1", "adb:1", "its battery swells")
    page = shown(evidence_store, "devices", device="phone-1")
    text = text_of(page)
    assert "It is quarantined" in text
    assert "its battery swells" in text
    assert "No process of this computer measures on it." in text
    assert "It changed its speed for good 2 times." in text  # on each of two days
    assert charts(page) == 1
    table = page.dataframe[0].value
    assert list(table[table["Id"] == "phone-1"]["State"]) == ["quarantined: sweeps leave it alone"]
    assert "before · digits: has a winner, 14 ended" in text.replace("`", "")


def test_a_build_s_log_is_shown_as_text_also_of_one_that_failed(
    shown: Shown, own: tuple[Workspace, Job], evil: str
) -> None:
    workspace, job = own
    log = workspace.failed_build_log(job.build_key)
    log.parent.mkdir(parents=True)

    def logged() -> str:
        page = shown(workspace.root, "result", sweep="before", device="phone-1", model="digits", job=job.key)
        return "\n".join([*(str(line.value) for line in page.code), *(str(line.value) for line in page.text)])

    log.write_bytes(b"warning: \x1b[31m" + evil.encode() + b"\xff\nsecond line\n")
    shown_log = logged()
    assert f"warning: \ufffd[31m{line(evil)}\ufffd\nsecond line" in shown_log
    assert "\x1b" not in shown_log
    beside = workspace.artifact(job.build_key) / "build.log"
    beside.parent.mkdir(parents=True, exist_ok=True)
    beside.write_text("")
    assert "The build printed nothing." in logged()
    beside.unlink()
    beside.symlink_to("/etc/passwd")
    assert "root:" not in logged()


def test_a_device_that_the_driver_missed_is_away_and_was_away_when_the_run_has_ended(
    shown: Shown, evidence_store: Path, tmp_path: Path, evil: str
) -> None:
    root = tmp_path / "own"
    shutil.copytree(evidence_store, root)
    workspace = Workspace.open(root)
    with workspace.lock(), LiveFile(workspace.live, "after", lambda: 1_800_000_000.0) as live:
        live.away("adb:1", f"unplugged {evil}", 6)
        live.end("stopped")  # written at once
        workspace.live.write_text(workspace.live.read_text().replace('"stopped"', '""'))
        page = shown(root, "devices", device="phone-1")
        assert f"Away since 2027-01-15 08:00 UTC: unplugged {line(evil)}" in text_of(page)
        table = page.dataframe[0].value
        assert list(table[table["Id"] == "phone-1"]["State"]) == ["is away from the sweep that runs"]
        assert "Away since 08:00:00 UTC: unplugged" in text_of(shown(root, "live"))
        assert "Away since 2027-01-15 08:00 UTC" in text_of(shown(root, "fleet"))
        assert "A run of after goes on in this workspace now" in text_of(page)
    page = shown(root, "devices", device="phone-1")
    over = "Away from 2027-01-15 08:00 UTC until the last run ended; nobody has looked since: unplugged"
    assert over in text_of(page)
    ended = read_live(workspace.live)
    assert ended is not None
    killed = replace(ended, pid=1, ended="")
    workspace.live.write_text(to_json(killed))
    with workspace.lock():  # another command's
        page = shown(root, "devices", device="phone-1")
        assert over in text_of(page)
        assert "A run of after" not in text_of(page)
        assert f"Process {os.getpid()} uses this workspace now" in text_of(page)
    assert "No sweep runs in this workspace now" in text_of(shown(root, "devices", device="phone-1"))
    assert "until the last run ended" in text_of(shown(root, "fleet"))


def test_what_providers_have_of_a_build_is_not_said_to_be_an_accelerator_s(
    shown: Shown, own: tuple[Workspace, Job]
) -> None:
    workspace, job = own
    with Journal.open(workspace.journal) as journal:
        manifest = journal.artifacts.latest(job.build_key)
        assert manifest is not None
        journal.artifacts.add(manifest.model_copy(update={"providers": {"CPUExecutionProvider": 7}}))
    text = text_of(shown(workspace.root, "result", sweep="before", device="phone-1", model="digits", job=job.key))
    assert "**Nodes by execution provider**" in text
    assert "Covered by the accelerator" not in text


def test_a_device_without_sentinel_says_so(shown: Shown, evidence_store: Path) -> None:
    page = shown(evidence_store, "devices", device="board-0")
    assert "The sentinel has not looked at it yet" in text_of(page)
    assert charts(page) == 0


@pytest.mark.parametrize("name", PAGES)
def test_an_empty_workspace_says_what_to_do_first(shown: Shown, tmp_path: Path, name: str) -> None:
    assert "edgesweep demo" in text_of(shown(tmp_path, name))


@pytest.mark.parametrize("name", PAGES)
def test_a_hostile_address_gets_words_and_something_to_look_at(
    shown: Shown, evidence_store: Path, evil: str, name: str
) -> None:
    names = {"result": ("sweep", "device", "model", "job"), "compare": ("a", "b"), "devices": ("device",)}[name]
    drawn = shown(evidence_store, name, **dict.fromkeys(names, evil))
    assert "asks for something that is not here" in text_of(drawn)
    assert all("<script>" not in part.value or "`" in part.value for part in drawn.markdown)
    assert all(drawn.query_params[name] != evil for name in names)


@pytest.mark.parametrize("name", PAGES)
def test_hostile_names_are_text(shown: Shown, evidence_store: Path, name: str) -> None:
    drawn = shown(evidence_store, name, sweep="hostile", device="board-2")
    text_of(drawn)
    rendered = [*drawn.markdown, *drawn.caption, *drawn.header, *drawn.subheader]
    assert all("<script>" not in part.value or "`" in part.value for part in rendered)


def test_specifications_are_json(evidence_store: Path, shown: Shown) -> None:
    page = shown(evidence_store, "result", sweep="before", device="phone-1")
    assert all(json.loads(chart.proto.spec) for chart in page.get("vega_lite_chart"))


def test_devices_are_drawn_twenty_at_a_time_and_found_by_parts_of_their_names(shown: Shown, tmp_path: Path) -> None:
    for number in range(45):
        QuarantineBook().put(f"unit-{number:02}", f"adb:{number:02}", "its battery swells")
    page = shown(tmp_path, "devices", device="unit-44")
    assert "5 of 45 devices." in text_of(page)
    assert page.selectbox(key="chosen first").value == "40"
    assert (page.selectbox(key="chosen device").value, len(page.dataframe[0].value)) == ("unit-44", 5)
    page.selectbox(key="chosen first").select("0").run()
    assert (page.selectbox(key="chosen device").value, len(page.dataframe[0].value)) == ("unit-44", 20)
    assert len(page.selectbox(key="chosen device").options) == 21, "with the one that is looked at"
    page.text_input[0].set_value("ADB 17").run()
    assert page.selectbox(key="chosen device").value == "unit-17"
    assert page.query_params["find"] == "ADB 17"
    assert "its battery swells" in text_of(page)
    page.text_input[0].set_value("<b>").run()
    assert "No device is called so." in text_of(page)
