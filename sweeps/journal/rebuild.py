"""Makes the journal's table of results again from its attempts: for a journal of an older version, or a damaged table.

The driver may write meanwhile: what it accepts is in its own transactions, and the parts here are short ones.
"""

from collections.abc import Callable
from pathlib import Path

from sweeps.errors import StoreError
from sweeps.journal import schema as journal_schema
from sweeps.journal.journal import Journal
from sweeps.journal.results_table import DamagedResultsError, Watermark

_PART = 200
"""Jobs in one transaction: about a second."""


def whole_results(path: Path, each: Callable[[int, int], object] | None = None) -> Watermark:
    """The watermark of the table of results, which is made again first if it has to be. `each`: as of `rebuild`."""
    try:
        with Journal.open(path, read_only=True) as journal:
            return journal.watermark()
    except DamagedResultsError:
        rebuild(path, each)
        with Journal.open(path, read_only=True) as journal:
            return journal.watermark()


def rebuild(path: Path, each: Callable[[int, int], object] | None = None) -> int:
    """Make the table again. Returns the number of its rows. `each` is called with how many jobs are done, of how many.

    Raises `StoreError` if the journal itself cannot be read, or is a copy, which then counts as damaged;
    `DamagedResultsError` if another process makes it, too.
    """
    with Journal.open(path) as journal, journal_schema.translated(path):
        epoch = journal.empty_results()
        if journal.is_copy:
            raise StoreError("the copy of MLflow's results is damaged", "run the same command again: it is made anew")
        keys = [(info.name, key) for info in journal.sweeps() for key in journal.job_keys(info.name)]
        for start in range(0, len(keys), _PART):
            journal.refresh_results(keys[start : start + _PART])
            if each is not None:
                each(min(len(keys), start + _PART), len(keys))
        for info in journal.sweeps():
            journal.refresh_places(info.name)
        return journal.finish_results(epoch)
