"""Pages read a source as it is now, which is the key of their caches."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweeps.store.result_files import ResultFiles


@dataclass(frozen=True, slots=True)
class ResultTable:
    """A file with a table of results, as it is now: equal as long as nothing has changed."""

    path: Path
    verdicts: Path
    epoch: int
    seq: int
    plans: tuple[tuple[str, int], ...]
    """The current plan of each sweep."""
    imported: int
    """The number of figures of tools that were run by hand."""

    @property
    def sweeps(self) -> frozenset[str]:
        return frozenset(name for name, _ in self.plans)

    @property
    def files(self) -> ResultFiles:
        return ResultFiles(journal=self.path, verdicts=self.verdicts)


@dataclass(frozen=True, slots=True)
class Source:
    """The results of the workspace's own journal, those of a tracking server that others write to, or both.

    A sweep of the workspace is read from its journal alone, also where others have published a sweep of its name.
    """

    own: ResultTable | None
    copy: ResultTable | None = None
    own_error: str | None = None
    """Why the workspace's own journal cannot be read; then the copy is shown without it."""

    @property
    def plans(self) -> tuple[tuple[str, int], ...]:
        return tuple(plan for table, names in self.shares for plan in table.plans if plan[0] in names)

    @property
    def shares(self) -> tuple[tuple[ResultTable, frozenset[str]], ...]:
        """Each file, and the sweeps that are read from it."""
        own_sweeps = frozenset() if self.own is None else self.own.sweeps
        own = () if self.own is None else ((self.own, own_sweeps),)
        return own if self.copy is None else (*own, (self.copy, self.copy.sweeps - own_sweeps))

    def of(self, sweep: str) -> ResultTable:
        """The table from which a sweep is read."""
        if self.copy is None or (self.own is not None and sweep in self.own.sweeps):
            return self.measured
        return self.copy

    @property
    def measured(self) -> ResultTable:
        """Where jobs, blocks and devices are, as far as this workspace has them."""
        table = self.own or self.copy
        assert table is not None
        return table

    def knows_jobs(self, sweep: str) -> bool:
        """Tell whether it is known what a sweep still waits for."""
        return self.own is not None and sweep in self.own.sweeps


KEYS: dict[str | type, Callable[[Any], object]] = {Source: repr, type(Path()): str}
"""Caches of results know these types by such keys: Streamlit would take them apart in each of a page's dozen looks."""
EVIDENCE_KEYS: dict[str | type, Callable[[Any], object]] = {Source: lambda now: repr(now.measured)}
"""Caches of jobs, blocks and devices know a source by the journal that has measured."""
