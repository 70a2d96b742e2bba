"""The results that a ranking command reads: from the workspace's own journal, or from the local copy of a tracking
server's results."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sweeps.device_facts import DeviceFacts
from sweeps.errors import NoResultsError, StoreError, did_you_mean
from sweeps.journal.journal import Journal
from sweeps.journal.remaining_jobs import JOBS_UNKNOWN, waiting
from sweeps.json_records import from_json
from sweeps.launching.away_devices import away_now
from sweeps.launching.sweep_commands import running_now, runs_now
from sweeps.operations.notices import notify
from sweeps.operations.which_sweep import open_journal, sweep_name
from sweeps.spec import catalog, lab_names
from sweeps.store.client import FIRST_STEP
from sweeps.store.owner import is_own
from sweeps.store.read_journal import read_sweep
from sweeps.store.result_files import ResultFiles, copied_files, own_files
from sweeps.store.snapshot_download import THROUGH_SERVER
from sweeps.store.uri import has_store
from sweeps.workspace import Workspace

if TYPE_CHECKING:
    from sweeps.results import SweepResults


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSweep:
    """Results of one sweep, open for a command that ranks them."""

    name: str
    files: ResultFiles
    journal: Journal
    """The workspace's own journal, or the copy of a tracking server."""

    @property
    def plans(self) -> Journal | None:
        """The journal that knows the jobs and devices of the sweep; `None` if the sweep is of another workspace."""
        return None if self.files.is_copy else self.journal

    @property
    def device_names(self) -> dict[str, str]:
        """The names of the sweep's devices by device id, as `names_of` returns them."""
        return {} if self.plans is None else names_of(self.plans, self.name)


@contextmanager
def open_results(workspace: Workspace, sweep: str | None) -> Iterator[StoredSweep]:
    """The results that a command reads of the sweep that it means (`None`: the latest of the workspace, or else of its
    tracking server). The journal is opened once; a copy's state is told. Raises `StoreError`, `NoResultsError` if there
    is no such sweep."""
    with ExitStack() as stack:
        own = None
        if not has_store(workspace.tracking_uri):
            own = stack.enter_context(open_journal(workspace))  # `open_journal` says if there is none
        elif workspace.journal.exists():
            # With a named sweep, a journal of another version or a damaged one is ignored: a server's results are
            # read without it.
            with nullcontext() if sweep is None else suppress(StoreError):
                own = stack.enter_context(open_journal(workspace))
        if own is not None and (_is_complete(workspace) or _has(own, sweep)):
            yield StoredSweep(name=sweep_name(own, sweep), files=own_files(workspace), journal=own)
            return
        files = copied_files(workspace, each=_notice_of_reading())
        notify(f"Results: {files.text}.")
        copy = stack.enter_context(Journal.open(files.journal, read_only=True))
        name = sweep or copy.sweeps.latest()
        published = copy.plans.current_ids()
        elsewhere = files.elsewhere if name is None else files.elsewhere & {name}
        if name not in published and elsewhere:
            raise NoResultsError(f"other computers' disks have the results of {', '.join(elsewhere)}", THROUGH_SERVER)
        if name is None or name not in published:
            known = sorted({*published, *(() if own is None else own.plans.current_ids())})
            raise NoResultsError(
                f"there is no sweep {name!r}, here or in MLflow{did_you_mean(name, known)}"
                if name
                else "there is no sweep in MLflow yet",
                f"there is: {', '.join(known)}" if known else FIRST_STEP,
            )
        yield StoredSweep(name=name, files=files, journal=copy)


def _is_complete(workspace: Workspace) -> bool:
    """Tell whether the workspace's journal has all results that are at its tracking server."""
    return is_own(workspace) or not has_store(workspace.tracking_uri)


def _has(journal: Journal, sweep: str | None) -> bool:
    """Tell whether a journal has a sweep (`None`: any)."""
    planned = journal.plans.current_ids()
    return sweep in planned if sweep else bool(planned)


def results_of(workspace: Workspace, sweep: str | None) -> "SweepResults":
    """Return all results of a sweep (`None`: the latest). Raises `StoreError` as `open_results`, `NoResultsError` if
    the sweep has no results."""
    with of_latest(workspace, sweep), open_results(workspace, sweep) as stored:
        return replace(read_sweep(stored.journal, stored.name), names=stored.device_names)


def still_open(workspace: Workspace, stored: StoredSweep) -> Iterator[str]:
    """Yield lines of text about a run that goes on now, about the sweep's jobs that wait, and about each of its devices
    that is away, as the page Fleet shows it."""
    if stored.plans is None:
        yield JOBS_UNKNOWN
        return
    yield from running_now(workspace)
    if not runs_now(workspace, stored.name):
        yield from waiting(stored.plans, stored.name)
    away = away_now(workspace)
    for facts in stored.plans.plans.devices(stored.name) if away.devices else ():
        if facts.name in away.devices:
            yield f"{facts.name}: {away.text(facts.name)}"


def names_of(journal: Journal, sweep: str) -> dict[str, str]:
    """Return the names that the sweep file gives to the current plan's devices, by device id; devices that share a name
    are left out, and go by their ids, as in a plan."""
    devices = journal.plans.devices(sweep)
    counts = Counter(facts.name for facts in devices)
    return {facts.device_id: facts.name for facts in devices if counts[facts.name] == 1}


def device_id_of(device: str | None, names: Mapping[str, str]) -> str | None:
    """Resolve `--device` for results: return the id of the device with this name in the sweep file (`names_of`),
    otherwise the text itself, which is an id or a part of a device's name (`sweeps.results.devices_called`)."""
    return next((device_id for device_id, name in names.items() if name == device), device)


def connectable(workspace: Workspace, device: str) -> str:
    """Resolve `--device` for a connection: return the name in the workspace's sweep files of the device with this id or
    display name, otherwise the text itself."""
    if catalog.device(device) is not None or lab_names.host_of(device) is not None or not workspace.journal.exists():
        return device
    with open_journal(workspace) as journal:
        all_facts = [from_json(DeviceFacts, facts) for _, facts in journal.plans.current_devices()]
    names = {
        facts.device_id: facts.name for facts in reversed(all_facts) if device in (facts.device_id, facts.device_class)
    }
    return next(iter(names.values())) if len(names) == 1 else device


def _notice_of_reading() -> Callable[[int], None]:
    """Return a callback that reports the progress of reading if a server has many runs. It takes the number of runs
    just read."""
    count = 0

    def each(results: int) -> None:
        nonlocal count
        count += results
        if results >= 1_000:
            notify(f"Copying results of MLflow: {count:,} read")

    return each


@contextmanager
def of_latest(workspace: Workspace, sweep: str | None) -> Iterator[None]:
    """Name the workspace's other sweeps in the error if the latest sweep (`sweep` is `None`) has no results yet."""
    try:
        yield
    except NoResultsError as error:
        if sweep is not None or not workspace.journal.exists():
            raise
        with open_journal(workspace) as journal:
            latest = journal.sweeps.latest()
            other_sweeps = [info.name for info in journal.sweeps.all() if info.name != latest]
        if not other_sweeps:
            raise
        raise StoreError(
            f"{latest}, the latest sweep here, has no results yet", f"name another one: {', '.join(other_sweeps)}"
        ) from error
