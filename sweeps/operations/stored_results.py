"""What a command that ranks reads: results of the workspace's own journal, or of the copy of a tracking server."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
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
from sweeps.store.copied import ResultFiles, result_files
from sweeps.store.read_journal import read_sweep
from sweeps.store.uri import has_store
from sweeps.workspace import Workspace

if TYPE_CHECKING:
    from sweeps.results import SweepResults


def files_and_name(workspace: Workspace, sweep: str | None, *, compare: bool = False) -> tuple[ResultFiles, str]:
    """What to read for a command, and the sweep that it means: a copy's state is told. Raises `StoreError`."""
    if not workspace.journal.exists() and not has_store(workspace.tracking_uri):
        open_journal(workspace)  # says that there is none
    files = result_files(workspace, sweep, compare=compare, each=_told_of_reading())
    if not files.is_copy:
        with open_journal(workspace) as journal:
            return files, sweep_name(journal, sweep)
    tell(f"Results: {files.text}.")
    if sweep is None and workspace.journal.exists():
        # The latest sweep of this workspace, also if other workspaces use the same MLflow.
        with open_journal(workspace) as journal:
            sweep = journal.sweeps.latest()
    with Journal.open(files.journal, read_only=True) as journal:
        known = sorted(journal.plans.current_ids())
        name = sweep or journal.sweeps.latest()
    if name is None or name not in known:
        raise NoResultsError(
            f"there is no sweep {name!r} in MLflow{did_you_mean(name, known)}"
            if name
            else "there is no sweep in MLflow yet",
            f"it has: {', '.join(known)}" if known else FIRST_STEP,
        )
    return files, name


def results_of(workspace: Workspace, sweep: str | None) -> "SweepResults":
    """All results of a sweep. Raises `StoreError` as `files_and_name`, `NoResultsError` if it has none."""
    with of_latest(workspace, sweep):
        files, name = files_and_name(workspace, sweep)
        return replace(read_sweep(files.journal, name), names=names_of(plans_of(files, name), name))


def plans_of(files: ResultFiles, sweep: str) -> Path | None:
    """The journal that knows the jobs and devices of a sweep; `None` if it is of another workspace."""
    if not files.is_copy or files.plans is None:
        return None if files.is_copy else files.journal
    with suppress(StoreError), Journal.open(files.plans, read_only=True) as journal:  # another version may have it
        return files.plans if sweep in journal.plans.current_ids() else None
    return None


def still_open(workspace: Workspace, files: ResultFiles, sweep: str) -> Iterator[str]:
    """A line for what waits, and for each device of the sweep that is away, as Fleet has it."""
    path = plans_of(files, sweep)
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
        for facts in journal.plans.devices(sweep):
            if facts.name in gone.devices:
                yield f"{facts.name}: {gone.text(facts.name)}"


def names_of(path: Path | None, sweep: str) -> dict[str, str]:
    """What the sweep file calls each device of the current plan, by its id; devices that share a name keep the id, as
    in a plan. `path`: as of `plans_of`."""
    if path is None:
        return {}
    with Journal.open(path, read_only=True) as journal:
        devices = journal.plans.devices(sweep)
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
        every = [from_json(DeviceFacts, facts) for _, facts in journal.plans.current_devices()]
    found = {
        facts.device_id: facts.name for facts in reversed(every) if device in (facts.device_id, facts.device_class)
    }
    return next(iter(found.values())) if len(found) == 1 else device


def _told_of_reading() -> Callable[[int], None]:
    """Say how far it is, where a server has many runs."""
    count = 0

    def each(runs: int) -> None:
        nonlocal count
        count += runs
        if runs >= 1_000:
            tell(f"Copying results of MLflow: {count:,} runs read")

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
            latest = journal.sweeps.latest()
            others = [info.name for info in journal.sweeps.all() if info.name != latest]
        if not others:
            raise
        raise StoreError(
            f"{latest}, the latest sweep here, has no results yet", f"name another one: {', '.join(others)}"
        ) from error
