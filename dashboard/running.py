"""A workspace's sweep that runs now is read from the driver's lock, its file and the journal, in a few milliseconds."""

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
"""A page that looks costs this computer's CPU, which is what `local` is measured on."""


@dataclass(frozen=True, slots=True)
class Running:
    """A sweep of a workspace, and who runs it."""

    driver: Driver
    devices: tuple[DeviceFacts, ...] = ()
    jobs: Mapping[str, int] = field(default_factory=dict)
    """The number of planned jobs, by device id, or by the id of the pool whose units share them."""
    ended: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """The numbers of measured and failed jobs, by device id."""
    conditions: Mapping[str, Conditions] = field(default_factory=dict)
    """The conditions of the last block, by device id."""
    last: tuple[ResultRow, ...] = ()
    """The jobs that ended last, the latest first."""
    unread: str = ""
    """The reason why nothing is known of the sweep's jobs; empty if something is."""
    under_way: Mapping[str, ResultRow] = field(default_factory=dict)
    """The jobs that devices measure now, by key."""

    @property
    def builds(self) -> dict[tuple[str, ...], str]:
        """The names of the builds that are measured now or ended last, by `ResultRow.setup`."""
        return setup_names((*self.last, *self.under_way.values()))

    def doing(self, live: LiveDevice) -> str:
        """The work of one device, in a few words; without what it waits for."""
        return doing(live, self.driver.told, in_words(self.under_way, self.builds))

    def progress(self, facts: DeviceFacts) -> str:
        """The progress of a device, `3 of 12 jobs`, as far as the number of its jobs is known."""
        done = sum(self.ended.get(facts.device_id, {}).values())
        own, shared = self.jobs.get(facts.device_id), self.jobs.get(pool_id(facts.fingerprint))
        if shared is not None:
            return f"{done} of {shared + (own or 0)} jobs that devices of its class share"
        return f"{done} jobs" if own is None else f"{done} of {own} jobs"

    @property
    def every_s(self) -> int | None:
        """The seconds between two looks; `None` while nothing runs. Until this computer is measured, nothing is
        disturbed."""
        if self.driver.state == "idle":
            return None
        live = self.driver.told
        measured = [device.name for device in live.devices if device.running or device.done] if live is not None else []
        return HERE_EVERY_S if any(map(catalog.is_host, measured)) else PHONES_EVERY_S

    @property
    def words(self) -> str:
        """The state of the run, for people."""
        driver, live = self.driver, self.driver.told
        request = driver.asked.what if driver.asked is not None else None
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
        """The line that says that the last run failed, and why; empty if it did not, or nothing is known of a run."""
        driver, live = self.driver, self.driver.told
        if driver.state != "idle" or (live is None and not driver.launched):
            return ""
        of = f" of {driver.sweep}" if driver.sweep else ""
        if live is not None and live.ended == "failed":
            return f"The last run{of} failed: {live.problem or 'it did not say why'}"
        return "" if live is not None and live.ended else f"The last run{of} ended without saying why"

    @property
    def can_resume(self) -> bool:
        """Tell whether the same start once more would go on."""
        live = self.driver.told
        return self.driver.state == "idle" and self.driver.launched and (live is None or live.ended != "finished")


def read(root: Path) -> Running:
    """The state of the workspace now."""
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
                under_way=under_way(journal, driver.told),
            )
    except StoreError as error:  # the sweep is not planned yet, its table is just made again, or another version's
        return Running(driver, unread=f"{error.message}. Next step: {error.next_step}")


def under_way(journal: Journal, live: Live | None) -> dict[str, ResultRow]:
    """The jobs that devices measure now, by key. Raises `StoreError`."""
    keys = {device.job for device in live.devices if device.job} if live is not None else set()
    rows = {key: journal.jobs.waiting_row(live.sweep, key) for key in sorted(keys)} if live is not None else {}
    return {key: row for key, row in rows.items() if row is not None}


def in_words(rows: Mapping[str, ResultRow], builds: Mapping[tuple[str, ...], str]) -> dict[str, tuple[str, str]]:
    """Two names of each job, by key: the driver's, and the one that pages show."""
    return {key: (row.name, f"{line(row.model)} · {builds[row.setup]}") for key, row in rows.items()}


def doing(live: LiveDevice, run: Live | None, called: Mapping[str, tuple[str, str]]) -> str:
    """The work of one device, in a few words. `called`: as `in_words` makes it."""
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
