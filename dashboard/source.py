"""Pages read a source as it is now, which is the key of their caches."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweeps.store.copied import ResultFiles


@dataclass(frozen=True, slots=True)
class Source:
    """A journal's table of results, as it is now: a key for caches, equal as long as nothing has changed."""

    path: Path
    verdicts: Path
    epoch: int
    seq: int
    plans: tuple[tuple[str, int], ...]
    """The current plan of each sweep."""
    imported: int
    """The number of figures of tools that were run by hand."""
    is_copy: bool = False
    own: "Source | None" = None
    """The workspace's own journal of a copy, which has neither jobs nor attempts, if the workspace has one."""

    @property
    def measured(self) -> "Source":
        """Where jobs, blocks and devices are, as far as this workspace has them."""
        return self.own or self

    def knows_jobs(self, sweep: str) -> bool:
        """Tell whether it is known what a sweep still waits for."""
        return not self.is_copy or (self.own is not None and any(name == sweep for name, _ in self.own.plans))

    @property
    def files(self) -> ResultFiles:
        return ResultFiles(journal=self.path, verdicts=self.verdicts, plans=self.own.path if self.own else None)


def _of_results(now: Source) -> str:
    """The key of a source's results: of a copy, what waits is in the own journal's plans, and a measurement there
    changes no result here."""
    if now.own is None:
        return repr(now)
    own_sweeps = {sweep for sweep, _ in now.plans}
    plans = [plan for plan in now.own.plans if plan[0] in own_sweeps]
    return repr((now.path, now.epoch, now.seq, now.plans, now.imported, now.own.path, now.own.epoch, plans))


KEYS: dict[str | type, Callable[[Any], object]] = {Source: _of_results, type(Path()): str}
"""Caches of results know these types by such keys: Streamlit would take them apart in each of a page's dozen looks."""
EVIDENCE_KEYS: dict[str | type, Callable[[Any], object]] = {Source: lambda now: repr(now.measured)}
"""Caches of jobs, blocks and devices know a source by the journal that has measured."""
