"""The state of the sweep that runs now in a workspace, read in a few milliseconds from the driver's lock, its live file
and the journal."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dashboard.markdown_escape import line
from dashboard.words import setup_names
from sweeps.device_facts import DeviceFacts, pool_id
from sweeps.errors import StoreError
from sweeps.journal.journal import Journal
from sweeps.launching.driver import Driver, find
from sweeps.launching.live_report import Live, LiveDevice
from sweeps.records import Conditions
from sweeps.results import ResultRow
from sweeps.spec import catalog
from sweeps.workspace import Workspace

LAST = 10
PHONES_EVERY_S, HERE_EVERY_S = 2, 10
"""Seconds between two updates of a page, while phones or this computer are measured: each update uses this computer's
CPU, which the device `local` shares."""


@dataclass(frozen=True, slots=True)
class Running:
    """State of a workspace's sweep that runs now or ran last, with its driver."""

    driver: Driver
    devices: tuple[DeviceFacts, ...] = ()
    jobs: Mapping[str, int] = field(default_factory=dict)
    """Number of planned jobs, by device id, or by the id of the pool whose units share them."""
    ended: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Numbers of measured and failed jobs, by device id."""
    conditions: Mapping[str, Conditions] = field(default_factory=dict)
    """Conditions of the last block, by device id."""
    last: tuple[ResultRow, ...] = ()
    """Result rows of the jobs that ended last, the latest first."""
    unread: str = ""
    """Reason why the sweep's jobs cannot be read from the journal; empty if they were read."""
    under_way: Mapping[str, ResultRow] = field(default_factory=dict)
    """Rows of the jobs that devices measure now, by job key."""

    @property
    def builds(self) -> dict[tuple[str, ...], str]:
        """The names of the builds that are measured now or ended last, by `ResultRow.setup`."""
        return setup_names((*self.last, *self.under_way.values()))

    def doing(self, live: LiveDevice) -> str:
        """Return the work of one device in a few words (see the function `doing`)."""
        return doing(live, self.driver.current_report, in_words(self.under_way, self.builds))

    def progress(self, facts: DeviceFacts) -> str:
        """Return the progress of a device, such as `3 of 12 jobs`; without the total if it is not known."""
        done = sum(self.ended.get(facts.device_id, {}).values())
        own, shared = self.jobs.get(facts.device_id), self.jobs.get(pool_id(facts.fingerprint))
        if shared is not None:
            return f"{done} of {shared + (own or 0)} jobs that devices of its class share"
        return f"{done} jobs" if own is None else f"{done} of {own} jobs"

    @property
    def every_s(self) -> int | None:
        """The seconds between two updates of a page; `None` while nothing runs. Updates are frequent until this
        computer itself is measured, which they would disturb."""
        if self.driver.state == "idle":
            return None
        live = self.driver.current_report
        measured = [device.name for device in live.devices if device.running or device.done] if live is not None else []
        return HERE_EVERY_S if any(map(catalog.is_host, measured)) else PHONES_EVERY_S

    @property
    def words(self) -> str:
        """The state of the run in words."""
        driver, live = self.driver, self.driver.current_report
        request = driver.end_request.what if driver.end_request is not None else None
        match driver.state:
            case "starting":
                return "Starting"
            case "ending":
                return "Writing the ranking"
            case "running" if request is not None:
                return "Pausing after the running work" if request == "pause" else "Stopping after the running work"
            case "running" if driver.is_asked:
                return "Stopping after the running work"
            case "running":
                return "Running" if live is None or not live.step else live.step[:1].upper() + live.step[1:]
        if live is None:
            return "Ended without a word" if driver.launched else "Nothing was started yet"
        match live.ended:
            case "finished":
                return "Ended"
            case "stopped":
                return "Paused" if request == "pause" else "Stopped"
            case "failed":
                return "Failed"
        return "Ended without a word"

    @property
    def trouble(self) -> str:
        """A line of text that says that the last run failed, and why; empty if it did not fail, or no run is known."""
        driver, live = self.driver, self.driver.current_report
        if driver.state != "idle" or (live is None and not driver.launched):
            return ""
        of = f" of {driver.sweep}" if driver.sweep else ""
        if live is not None and live.ended == "failed":
            return f"The last run{of} failed: {live.problem or 'it did not say why'}"
        return "" if live is not None and live.ended else f"The last run{of} ended without saying why"

    @property
    def can_resume(self) -> bool:
        """Tell whether the last start from the browser can be repeated to continue the sweep."""
        live = self.driver.current_report
        return self.driver.state == "idle" and self.driver.launched and (live is None or live.ended != "finished")


def read(root: Path) -> Running:
    """Read the state of the workspace's sweep now."""
    workspace = Workspace(root)
    driver = find(workspace)
    if not driver.sweep or not workspace.journal.exists():
        return Running(driver)
    try:
        with Journal.open(workspace.journal, read_only=True) as journal:
            devices = journal.plans.devices(driver.sweep)
            jobs: dict[str, int] = {}
            for place, (_, count) in journal.jobs.places(driver.sweep).items():
                jobs[place.place_id] = jobs.get(place.place_id, 0) + count
            return Running(
                driver,
                devices,
                jobs,
                journal.results.ended_counts(driver.sweep),
                journal.attempts.last_conditions(driver.sweep),
                tuple(journal.results.last(driver.sweep, LAST)),
                under_way=under_way(journal, driver.current_report),
            )
    except StoreError as error:  # no plan yet, a table that is being rebuilt, or another version
        return Running(driver, unread=f"{error.message}. Next step: {error.next_step}")


def under_way(journal: Journal, live: Live | None) -> dict[str, ResultRow]:
    """Return the rows of the jobs that devices measure now, by job key. Raises `StoreError`."""
    keys = {device.job for device in live.devices if device.job} if live is not None else set()
    rows = {key: journal.jobs.waiting_row(live.sweep, key) for key in sorted(keys)} if live is not None else {}
    return {key: row for key, row in rows.items() if row is not None}


def in_words(rows: Mapping[str, ResultRow], builds: Mapping[tuple[str, ...], str]) -> dict[str, tuple[str, str]]:
    """Return two names of each job, by job key: the name that the driver reports, and the name that pages show."""
    return {key: (row.name, f"{line(row.model)} · {builds[row.setup]}") for key, row in rows.items()}


def doing(live: LiveDevice, run: Live | None, called: Mapping[str, tuple[str, str]]) -> str:
    """Return the work of one device in a few words. `called`: the jobs' names, from `in_words`."""
    if live.running:
        name, words = called.get(live.job, ("", ""))
        return line(live.running.replace(name, words, 1) if name else live.running)
    if 0 < live.total <= live.done:
        return "done"
    if run is not None and run.builds_done < run.builds_total:
        return f"waits for builds: {run.builds_done} of {run.builds_total} are made"
    if live.waiting:
        return f"waits until it is ready: {line('; '.join(live.waiting))}"
    return "nothing runs on it now" if live.total else "nothing has begun on it in this run"
