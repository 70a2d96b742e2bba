"""The rebuild of the journal's table of results from the journal's attempts, if the table is damaged.

The driver may write meanwhile: each transaction of a rebuild is short.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TypeVar

from sweeps.errors import StoreError
from sweeps.journal import schema as journal_schema
from sweeps.journal.journal import Journal
from sweeps.journal.results_table import DamagedResultsError, Watermark
from sweeps.locks import locked

Found = TypeVar("Found")
_PART = 200
"""The number of jobs in one transaction, which takes about a second."""


def whole_results(source: Path | Journal, each: Callable[[int, int], object] | None = None) -> Watermark:
    """Return the watermark of the table of results, after a rebuild if the table is damaged. Arguments as of
    `read_results`."""
    return read_results(source, lambda journal: journal.results.watermark(), each)


def read_results(
    source: Path | Journal, read: Callable[[Journal], Found], each: Callable[[int, int], object] | None = None
) -> Found:
    """Return `read(journal)`; if the table of results is damaged, rebuild it once and call `read` again. `source`: an
    open journal, or the path of one. `each`: as of `rebuild`."""
    with nullcontext(source) if isinstance(source, Journal) else Journal.open(source, read_only=True) as journal:
        try:
            return _read(journal, read)
        except DamagedResultsError:
            pass
        with _turn(journal.path):
            try:  # another process may have rebuilt the table
                return _read(journal, read)
            except DamagedResultsError:
                _rebuild(journal.path, each)
            return _read(journal, read)


def rebuild(path: Path, each: Callable[[int, int], object] | None = None) -> int:
    """Rebuild the table. Returns the number of its rows. `each(done, total)` is called with numbers of jobs.

    Raises `StoreError` if the journal itself cannot be read, or is a copy of MLflow's results (the copy then counts as
    damaged); `DamagedResultsError` if a driver's failed write damages the table meanwhile.
    """
    with _turn(path):
        return _rebuild(path, each)


def _read(journal: Journal, read: Callable[[Journal], Found]) -> Found:
    journal.results.watermark()
    return read(journal)


@contextmanager
def _turn(path: Path) -> Iterator[None]:
    """Hold the lock of the rebuild: processes rebuild the table one at a time, because they would undo each other's
    work."""
    with ExitStack() as stack:
        with suppress(OSError):  # without locks in this folder or file system, nobody waits
            stack.enter_context(locked(path.with_suffix(".rebuild.lock"), mode=0o600))
        yield


def _rebuild(path: Path, each: Callable[[int, int], object] | None) -> int:
    with Journal.open(path) as journal, journal_schema.translated(path):
        epoch = journal.updates.empty()
        if journal.is_copy:
            raise StoreError("the copy of MLflow's results is damaged", "run the same command again: it is made anew")
        keys = [(info.name, key) for info in journal.sweeps.all() for key in journal.jobs.keys(info.name)]
        for start in range(0, len(keys), _PART):
            journal.updates.refresh(keys[start : start + _PART])
            if each is not None:
                each(min(len(keys), start + _PART), len(keys))
        for info in journal.sweeps.all():
            journal.updates.refresh_places(info.name)
        return journal.updates.finish(epoch)
