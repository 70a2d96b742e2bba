"""What pages read, as it is now: the key of their caches."""

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
    """How many figures of tools that were run by hand."""

    @property
    def sweeps(self) -> frozenset[str]:
        return frozenset(name for name, _ in self.plans)

    @property
    def files(self) -> ResultFiles:
        return ResultFiles(journal=self.path, verdicts=self.verdicts)


@dataclass(frozen=True, slots=True)
class Source:
    """The results of the workspace's own journal, and those of a tracking server that others write to. One is there.

    A sweep of the workspace is read from its journal alone, also where others have published one of its name.
    """

    own: ResultTable | None
    copy: ResultTable | None = None

    @property
    def plans(self) -> tuple[tuple[str, int], ...]:
        return tuple(plan for table, names in self.shares for plan in table.plans if plan[0] in names)

    @property
    def shares(self) -> tuple[tuple[ResultTable, frozenset[str]], ...]:
        """Each file, and the sweeps that are read from it."""
        mine = frozenset() if self.own is None else self.own.sweeps
        own = () if self.own is None else ((self.own, mine),)
        return own if self.copy is None else (*own, (self.copy, self.copy.sweeps - mine))

    def of(self, sweep: str) -> ResultTable:
        """Where a sweep is read."""
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
        """Whether it is known what a sweep still waits for."""
        return self.own is not None and sweep in self.own.sweeps


KEYS: dict[str | type, Callable[[Any], object]] = {Source: repr, type(Path()): str}
"""How caches of results know these: Streamlit would take them apart in each of a page's dozen looks."""
EVIDENCE_KEYS: dict[str | type, Callable[[Any], object]] = {Source: lambda now: repr(now.measured)}
"""How caches of jobs, blocks and devices do: they read the journal that has measured."""
