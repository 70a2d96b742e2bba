"""The outbox: what of one sweep the journal has and MLflow lacks, and publishing it through faults of MLflow."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Self

from sweeps.errors import StoreError
from sweeps.journal.journal import Journal
from sweeps.records import Job
from sweeps.retry import Backoff
from sweeps.store.lag import Marks, read_lag
from sweeps.store.mlflow import Store
from sweeps.store.removal import clear_former_names
from sweeps.workspace import Workspace

FIRST_WAIT_S, LONGEST_WAIT_S = 1.0, 60.0
PATIENCE_S = 60.0
"""`drain` gives up when MLflow has taken nothing for so long."""


class Outbox:
    """Publishes one sweep, and remembers which jobs it published. The order of calls and their number do not matter:
    `Store.publish` is idempotent by attempt key."""

    def __init__(self, workspace: Workspace, journal: Journal, sweep: str, marks: Marks) -> None:
        self._workspace = workspace
        self._journal = journal
        self._sweep = sweep
        self._marks = marks
        self._store = Store(workspace.tracking_uri, workspace.mlflow_artifacts)
        self._version: int | None = None

    @classmethod
    @contextmanager
    def of(cls, workspace: Workspace, journal: Journal, sweep: str) -> Iterator[Self]:
        """`journal` may be open for reading only. The workspace's lock is held by the caller, or by its parent."""
        with Marks.open(workspace, sweep) as marks:
            yield cls(workspace, journal, sweep, marks)

    def has_news(self, *, last: bool) -> bool:
        """Tell whether another connection has written to the journal since the last complete publication, or a snapshot
        has waited for its time. `last`: that has come."""
        return self._journal.data_version != self._version or self._store.waits_for_snapshot(
            self._journal, self._sweep, last=last
        )

    def publish(self, each: Callable[[bool], object] = bool, *, last: bool = True) -> int:
        """Publish all there is. Returns the number of runs that were written. `each` is called after each job that is
        looked at, with whether it was not published before, and with `False` between two parts of a snapshot. Unless
        this is the `last` publication for now, that waits for its time.

        Raises `StoreError` if MLflow refuses something. What it has taken stays, and the next call continues.
        """
        # Both are read first: what is written meanwhile is looked at again.
        version = self._journal.data_version
        position = self._journal.changes.position(self._sweep)

        def count_published(job: Job) -> None:
            newest, _ = self._journal.changes.last_attempt(job)
            each(self._marks.add(job.key, position.attempt_id) < newest)

        count = self._store.publish(self._journal, self._sweep, count_published, last=last, pause=lambda: each(False))
        self._marks.complete(position)
        clear_former_names(self._workspace, self._journal, self._sweep)
        self._version = version
        return count

    def drain(
        self,
        each: Callable[[bool], object] = bool,
        patience_s: float | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> str:
        """Publish until nothing is left. Returns an empty text, or, if MLflow took nothing for `patience_s` seconds
        (`PATIENCE_S`), what it said last."""
        limit_s = PATIENCE_S if patience_s is None else patience_s
        retry = Backoff(FIRST_WAIT_S, LONGEST_WAIT_S, clock)
        taken_at = clock()

        def took(new: bool) -> None:
            nonlocal taken_at
            if new:
                taken_at = clock()
                retry.succeeded()
            each(new)

        while True:
            try:
                self.publish(took)
            except StoreError as error:
                retry.failed()
                if clock() + retry.wait_s - taken_at > limit_s:
                    return error.message
                sleep(retry.wait_s)
            else:
                return ""

    def left(self) -> int:
        """The number of finished jobs that are not published yet."""
        lag = read_lag(self._workspace, self._journal, self._sweep)
        return 0 if lag is None else lag.jobs
