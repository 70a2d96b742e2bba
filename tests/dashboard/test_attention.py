"""Fleet says what the run that is, or was last, does: also where it failed before anything was measured."""

import errno
import os
import re
import sqlite3
import tarfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from dashboard import rights
from dashboard.views.attention import doing_now
from sweeps.journal.journal import Journal
from sweeps.launching.live_report import Live, LiveDevice, LiveFile
from sweeps.launching.record import Launch, StartRequest, keep
from sweeps.quarantine import QuarantineBook
from sweeps.records import Job
from sweeps.store import verdicts
from sweeps.workspace import Workspace
from tests.dashboard.conftest import BOARD, PHONE, WIDE, Recorder, by_axes
from tests.stored_workspace import lift

Page = Callable[..., AppTest]
DATA = Path(__file__).parents[1] / "data"
EVERY_PAGE = ("fleet", "decide", "compare", "result", "launch", "live", "devices")


@pytest.fixture
def own(page: Page, tmp_path: Path) -> Recorder:
    """A workspace of this test's own. Nothing is remembered of its devices."""
    return Recorder(Workspace.open(tmp_path / "own"))


@pytest.fixture
def live_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sweeps.launching.live_report.WRITE_EVERY_S", 0.0)


def text_of(page: AppTest) -> str:
    assert not page.exception
    parts = [*page.text, *page.markdown, *page.caption, *page.header, *page.subheader]
    parts += [*page.info, *page.warning, *page.error]
    return "\n".join(str(part.value) for part in parts)


def links(page: AppTest) -> list[str]:
    return [part.proto.label for part in page.get("page_link")]


def state(page: AppTest, sweep: str) -> str:
    return page.dataframe[0].value.set_index("Sweep").loc[sweep]["State"]


def table(page: AppTest, column: str) -> dict[str, list[str]]:
    return next(frame.value for frame in page.dataframe if column in frame.value).to_dict("list")


def traced(job: Job) -> bool:
    return job.variant.capture == "trace"


@pytest.mark.usefixtures("live_at_once")
def test_a_run_that_failed_needs_attention_and_a_paused_one_is_called_paused(page: Page, own: Recorder) -> None:
    workspace = own.workspace
    own.record("phones", by_axes, devices=(BOARD, PHONE), grid=WIDE, waits=traced)
    own.record("other", by_axes)
    with Journal.open(workspace.journal, read_only=True) as journal:
        left = f"{sum(traced(job) for job, _ in journal.jobs.of_sweep('phones'))} jobs to come"
    shown = page(workspace.root, "fleet")
    assert (state(shown, "phones"), state(shown, "other")) == (left, "finished")
    with LiveFile(workspace.live, "phones") as live:
        live.end("failed", "the disk is full", "free some space")
    shown = page(workspace.root, "fleet")
    assert "The last run of phones failed: the disk is full" in links(shown)
    assert "Nothing: no job failed" not in text_of(shown)
    assert (state(shown, "phones"), state(shown, "other")) == (f"failed, {left}", "finished")
    with LiveFile(workspace.live, "phones") as live:
        keep(workspace, StartRequest(what="pause", by="ann", at_s=time.time() + 600, pid=os.getpid()))
        live.end("stopped")
    shown = page(workspace.root, "fleet")
    assert state(shown, "phones") == f"paused, {left}"
    assert "Nothing. **phones** was paused." in text_of(shown)
    assert "Go on with it" in links(shown)
    with workspace.lock(), LiveFile(workspace.live, "phones"):
        assert state(page(workspace.root, "fleet"), "phones") == "running"
    assert state(page(workspace.root, "fleet"), "phones") == left


def test_a_start_that_failed_in_an_empty_workspace_is_seen_there(page: Page, tmp_path: Path) -> None:
    workspace = Workspace.open(tmp_path / "new")
    launch = Launch(sweep="phones", file="x", by="ann", started_s=time.time(), pid=1, log=str(tmp_path / "log"))
    keep(workspace, launch)
    for name in ("fleet", "decide"):
        shown = page(workspace.root, name)
        assert shown.error[0].value == "The last run of phones ended without saying why"
        assert "What happened" in links(shown)
        assert "No sweep has been recorded in this workspace yet" in text_of(shown)


def test_what_a_device_does_is_what_it_does_now() -> None:
    now_s, live = 1_000.0, Live(sweep="phones", pid=1, started_s=0.0)

    def text_of(device: LiveDevice, now_s: float = now_s) -> str:
        return doing_now(device, now_s, live, {})

    waited = LiveDevice(name="a", running="digits, round 2", waiting=("the battery has 41 °C",), waiting_at_s=now_s)
    assert text_of(waited) == "the battery has 41 °C"
    assert text_of(waited, now_s + 60) == "digits, round 2", "a wait that is over is none"
    assert text_of(LiveDevice(name="a", done=12, total=12)) == "done"
    assert text_of(LiveDevice(name="a", done=3, total=12)) == "nothing runs on it now"
    assert text_of(LiveDevice(name="a", away="unplugged", done=12, total=12)) == "away"


@pytest.mark.usefixtures("live_at_once")
def test_what_runs_has_its_words_once_the_journal_can_be_read_again(own: Recorder) -> None:
    workspace = own.workspace
    own.record("phones", by_axes)
    with Journal.open(workspace.journal, read_only=True) as journal:
        job = next(
            candidate for candidate, _ in journal.jobs.of_sweep("phones") if candidate.variant.precision == "int8"
        )

    def version(number: int) -> int:
        with closing(sqlite3.connect(workspace.journal)) as db:
            [before] = db.execute("PRAGMA user_version").fetchone()
            db.execute(f"PRAGMA user_version = {number}")
        return int(before)

    script = "from pathlib import Path\nfrom dashboard.views import attention\nattention._runs(Path({root!r}), {{}})"
    shown = AppTest.from_string(script.format(root=str(workspace.root)), default_timeout=60)
    with workspace.lock(), LiveFile(workspace.live, "phones") as live:
        live.measuring(BOARD.name, 4, 12, f"{job.name}, round 3", job.key)
        own_version = version(999)
        assert f"local: {job.name}, round 3 (4 of 12 steps)" in text_of(shown.run())
        version(own_version)
        text = text_of(shown.run())
        assert job.name not in text
        assert re.search(r"local: digits · int8 · .*, round 3 \(4 of 12 steps\)", text)


@pytest.mark.usefixtures("live_at_once")
def test_the_reason_of_what_waits_says_what_it_waits_for(page: Page, own: Recorder) -> None:
    workspace = own.workspace
    own.record("phones", by_axes, devices=(BOARD, PHONE), grid=WIDE, waits=traced)

    def reason() -> str:
        rows = table(page(workspace.root, sweep="phones", device=PHONE.device_id), "Reason")
        [why] = {why for why, outcome in zip(rows["Reason"], rows["Outcome"], strict=True) if outcome == "waiting"}
        return why

    assert reason() == "not measured yet: edgesweep run goes on where it ended"
    with workspace.lock(), LiveFile(workspace.live, "phones") as live:
        assert reason() == "not measured yet: the sweep runs now"
        live.away(PHONE.name, "the cable is loose", 4)
        assert reason().startswith("away since ")
        assert "the cable is loose; once it is back" in reason()
    assert "nobody has looked since: the cable is loose" in reason()
    QuarantineBook().put(PHONE.device_id, PHONE.name, "battery swells")
    assert reason().startswith("the device is quarantined, so sweeps leave it alone: ")


@pytest.mark.parametrize("version", [15, 999])
@pytest.mark.parametrize("name", EVERY_PAGE)
def test_a_journal_of_another_version_is_named_and_nothing_is_a_traceback(
    page: Page, own: Recorder, name: str, version: int
) -> None:
    own.record("phones", by_axes)
    with closing(sqlite3.connect(own.workspace.journal)) as db:
        db.execute(f"PRAGMA user_version = {version}")
    text = text_of(page(own.workspace.root, name))
    if name not in ("launch", "live"):
        assert "The results cannot be shown." in text
        assert f"has version {version}; this EdgeSweep reads and writes version" in text
        assert "Next step:" in text


def test_a_workspace_that_was_measured_in_november_is_shown(page: Page, tmp_path: Path) -> None:
    with tarfile.open(DATA / "workspace-2026-11.tar.xz") as packed:
        packed.extractall(tmp_path, filter="data")
    root = tmp_path / "workspace"
    lift(root / "journal.sqlite")
    fleet = page(root, "fleet")
    assert not fleet.exception
    [line] = fleet.dataframe[0].value.to_dict("records")
    assert (line["State"], line["Progress"]) == ("finished", 1.0)
    for name in EVERY_PAGE:
        assert "The results cannot be shown." not in text_of(page(root, name)), name
    with Journal.open(root / "journal.sqlite", read_only=True) as journal:
        [sweep] = journal.sweeps.all()
        jobs = len(journal.jobs.of_sweep(sweep.name))
    assert len(table(page(root, "decide"), "Rank")["Rank"]) == jobs


def _full(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_on_a_full_disk_nothing_is_started_and_results_are_still_shown(
    page: Page, own: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rights, "_by_link", lambda: True)
    root = own.workspace.root
    own.record("phones", by_axes, devices=(BOARD, PHONE))
    sweep_file = own.workspace.launches / "phones.yaml"
    shown = page(root, "launch")
    sweep_file.parent.mkdir(exist_ok=True)
    sweep_file.write_text(shown.text_area[0].value)
    keep(
        own.workspace,
        Launch(sweep="phones", file=str(sweep_file), by="ann", started_s=time.time(), pid=1, log=str(root / "log")),
    )
    opened = verdicts._open

    def full(path: Path | None) -> sqlite3.Connection:
        if path is not None:
            raise sqlite3.OperationalError("database or disk is full")
        return opened(path)

    monkeypatch.setattr(verdicts, "_open", full)
    monkeypatch.setattr("sweeps.launching.start.write_whole", _full)
    monkeypatch.setattr("sweeps.launching.record.write_whole", _full)
    next(button for button in shown.button if button.label == "Start").click().run()
    assert shown.error[0].value == "It was not started."
    assert "cannot be written: No space left on device" in text_of(shown)
    assert "Next step: free some space" in text_of(shown)
    live = page(root, "live")
    next(button for button in live.button if button.label == "Resume").click().run()
    assert "No space left on device" in text_of(live)
    fleet = page(root, "fleet")
    assert table(fleet, "Decided")["Decided"] == ["2 of 2"]
