"""What a command that ranks reads: results of the workspace's own journal, or of the copy of a tracking server."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sweeps.device_facts import DeviceFacts
from sweeps.errors import NoResultsError, StoreError, did_you_mean
from sweeps.journal.journal import Journal
from sweeps.journal.left import JOBS_UNKNOWN, waiting
from sweeps.json_records import from_json
from sweeps.launching.gone import gone_now
from sweeps.launching.here import running_now, runs_now
from sweeps.operations.telling import tell
from sweeps.operations.which_sweep import open_journal, sweep_name
from sweeps.spec import catalog, places
from sweeps.store.client import FIRST_STEP
from sweeps.store.read_journal import read_sweep
from sweeps.store.result_files import ResultFiles, result_files
from sweeps.store.uri import has_store
from sweeps.workspace import Workspace

if TYPE_CHECKING:
    from sweeps.results import SweepResults


def files_and_name(workspace: Workspace, sweep: str | None) -> tuple[ResultFiles, str]:
    """What to read for a command, and the sweep that it means: a copy's state is told. Raises `StoreError`."""
    if not workspace.journal.exists() and not has_store(workspace.tracking_uri):
        open_journal(workspace)  # says that there is none
    files = result_files(workspace, sweep, each=_told_of_reading())
    if not files.is_copy:
        with open_journal(workspace) as journal:
            return files, sweep_name(journal, sweep)
    tell(f"Results: {files.text}.")
    with Journal.open(files.journal, read_only=True) as journal:
        known = set(journal.plan_ids())
        name = sweep or journal.latest_sweep()
    if name is None or name not in known:
        if workspace.journal.exists():
            with open_journal(workspace) as journal:
                known |= set(journal.plan_ids())
        raise NoResultsError(
            f"there is no sweep {name!r}, here or in MLflow{did_you_mean(name, sorted(known))}"
            if name
            else "there is no sweep in MLflow yet",
            f"there is: {', '.join(sorted(known))}" if known else FIRST_STEP,
        )
    return files, name


def results_of(workspace: Workspace, sweep: str | None) -> "SweepResults":
    """All results of a sweep. Raises `StoreError` as `files_and_name`, `NoResultsError` if it has none."""
    with of_latest(workspace, sweep):
        files, name = files_and_name(workspace, sweep)
        return replace(read_sweep(files.journal, name), names=names_of(plans_of(files), name))


def plans_of(files: ResultFiles) -> Path | None:
    """The journal that knows the jobs and devices of what is read; `None` if it is of another workspace."""
    return None if files.is_copy else files.journal


def still_open(workspace: Workspace, files: ResultFiles, sweep: str) -> Iterator[str]:
    """A line for what waits, and for each device of the sweep that is away, as Fleet has it."""
    path = plans_of(files)
    if path is None:
        yield JOBS_UNKNOWN
        return
    yield from running_now(workspace)
    if not runs_now(workspace, sweep):
        yield from waiting(path, sweep)
    gone = gone_now(workspace)
    if not gone.devices:
        return
    with Journal.open(path, read_only=True) as journal:
        for facts in journal.devices(sweep):
            if facts.name in gone.devices:
                yield f"{facts.name}: {gone.text(facts.name)}"


def names_of(path: Path | None, sweep: str) -> dict[str, str]:
    """What the sweep file calls each device of the current plan, by its id; devices that share a name keep the id, as
    in a plan. `path`: as of `plans_of`."""
    if path is None:
        return {}
    with Journal.open(path, read_only=True) as journal:
        devices = journal.devices(sweep)
    counts = Counter(facts.name for facts in devices)
    return {facts.device_id: facts.name for facts in devices if counts[facts.name] == 1}


def meant(device: str | None, names: Mapping[str, str]) -> str | None:
    """What `--device` names, for results: the id of the device that the sweep file calls so (`names_of`), else the text
    itself, which is an id or a part of a device's name (`sweeps.results.devices_called`)."""
    return next((device_id for device_id, name in names.items() if name == device), device)


def connectable(workspace: Workspace, device: str) -> str:
    """What `--device` names, to connect to: the name in the workspace's sweep files of the device with this id or text
    for people, else the text itself."""
    if catalog.device(device) is not None or places.host_of(device) is not None or not workspace.journal.exists():
        return device
    with open_journal(workspace) as journal:
        every = [from_json(DeviceFacts, facts) for _, facts in journal.current_devices()]
    found = {
        facts.device_id: facts.name for facts in reversed(every) if device in (facts.device_id, facts.device_class)
    }
    return next(iter(found.values())) if len(found) == 1 else device


def _told_of_reading() -> Callable[[int], None]:
    """Say how far it is, where a server has many runs."""
    count = 0

    def each(results: int) -> None:
        nonlocal count
        count += results
        if results >= 1_000:
            tell(f"Copying results of MLflow: {count:,} read")

    return each


@contextmanager
def of_latest(workspace: Workspace, sweep: str | None) -> Iterator[None]:
    """If the latest sweep (`sweep` is `None`) has no results yet, say which others there are."""
    try:
        yield
    except NoResultsError as error:
        if sweep is not None or not workspace.journal.exists():
            raise
        with open_journal(workspace) as journal:
            latest = journal.latest_sweep()
            others = [info.name for info in journal.sweeps() if info.name != latest]
        if not others:
            raise
        raise StoreError(
            f"{latest}, the latest sweep here, has no results yet", f"name another one: {', '.join(others)}"
        ) from error
