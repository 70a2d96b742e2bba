"""What pages read, as it is now: the key of their caches."""

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
    """How many figures of tools that were run by hand."""
    is_copy: bool = False
    own: "Source | None" = None
    """Of a copy, which has neither jobs nor attempts: the workspace's own journal, if it has one."""

    @property
    def measured(self) -> "Source":
        """Where jobs, blocks and devices are, as far as this workspace has them."""
        return self.own or self

    def knows_jobs(self, sweep: str) -> bool:
        """Whether it is known what a sweep still waits for."""
        return not self.is_copy or (self.own is not None and any(name == sweep for name, _ in self.own.plans))

    @property
    def files(self) -> ResultFiles:
        return ResultFiles(journal=self.path, verdicts=self.verdicts, plans=self.own.path if self.own else None)


def _of_results(now: Source) -> str:
    """Of a copy, what waits is in the own journal's plans: that something was measured there changes no result here."""
    if now.own is None:
        return repr(now)
    mine = {sweep for sweep, _ in now.plans}
    plans = [one for one in now.own.plans if one[0] in mine]
    return repr((now.path, now.epoch, now.seq, now.plans, now.imported, now.own.path, now.own.epoch, plans))


KEYS: dict[str | type, Callable[[Any], object]] = {Source: _of_results, type(Path()): str}
"""How caches of results know these: Streamlit would take them apart in each of a page's dozen looks."""
EVIDENCE_KEYS: dict[str | type, Callable[[Any], object]] = {Source: lambda now: repr(now.measured)}
"""How caches of jobs, blocks and devices do: they read the journal that has measured."""
