"""The publisher's own process: writes what comes into the journal to MLflow, as it is told on stdin.

    python -P -m sweeps.store.publisher WORKSPACE SWEEP

An order is a line, a word and a number that grows: `go 1` (publish whenever there is something), `hold 2` (stop after
the job that is being written), `turn 3` (publish what there is, then hold), `drain 4` (publish everything, then end).
An answer is a line of JSON: `{"held": 2}`, `{"published": 1}` for each job, `{"down": "MLflow at ..."}`, `{"up": 1}`,
`{"left": 3}` when it begins to drain. It holds at its start, and ends when stdin does, in the middle of whatever it
does: nothing is lost by that, and nothing is written twice.
"""

import json
import os
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from sweeps.errors import StoreError
from sweeps.journal.journal import Journal
from sweeps.retry import Backoff
from sweeps.store.mlflow import Store
from sweeps.store.outbox import FIRST_WAIT_S, LONGEST_WAIT_S, PATIENCE_S, Outbox
from sweeps.with_parent import end_with_parent
from sweeps.workspace import Workspace

LOOK_S = 0.3
"""The process looks into the journal once in so long."""
NICENESS = 10
"""The process gives way to whatever else runs on this computer."""


class Orders:
    """The last order on stdin, which a thread reads."""

    def __init__(self, lines: TextIO) -> None:
        self._lines = lines
        self._changed = threading.Condition()
        self._order = ("hold", 0)
        threading.Thread(target=self._read, daemon=True).start()
        # The end of stdin is not enough: a process that the driver has forked may hold its other end open.
        end_with_parent(os.getppid())

    @property
    def now(self) -> tuple[str, int]:
        with self._changed:
            return self._order

    def wait(self, order: tuple[str, int], limit_s: float | None = None) -> None:
        """Until there is another order than this one, or the time is over."""
        with self._changed:
            self._changed.wait_for(lambda: self._order != order, limit_s)

    def hold_after(self, turn: tuple[str, int]) -> None:
        """A turn has ended; unless another order has come, it holds."""
        with self._changed:
            if self._order == turn:
                self._order = ("hold", turn[1])

    def _read(self) -> None:
        for line in self._lines:
            word, _, number = line.strip().partition(" ")
            with self._changed:
                self._order = (word, int(number))
                self._changed.notify_all()
        os._exit(0)  # the process also ends in a request that MLflow does not answer


class Answers:
    """Says on stdout how far it is."""

    def __init__(self) -> None:
        # Text that a library prints must not come between the answers.
        self._file = os.fdopen(os.dup(sys.stdout.fileno()), "w")
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def __call__(self, **answer: object) -> None:
        self._file.write(f"{json.dumps(answer)}\n")
        self._file.flush()


def serve(outbox: Outbox, orders: Orders, say: Answers) -> None:
    """Follow the orders until the outbox is drained."""
    retry = Backoff(FIRST_WAIT_S, LONGEST_WAIT_S)
    draining_since = taken_at = 0.0

    def each(new: bool) -> None:
        nonlocal taken_at
        if new:
            taken_at = time.monotonic()
            retry.succeeded()
            say(published=1)
        while (order := orders.now)[0] == "hold":
            say(held=order[1])
            orders.wait(order)

    while True:
        order = orders.now
        if order[0] == "hold":
            say(held=order[1])
            orders.wait(order)
            continue
        if order[0] == "drain" and not draining_since:
            draining_since = time.monotonic()
            retry.succeeded()
            say(left=outbox.left())
        news = outbox.has_news(last=bool(draining_since))
        if news and not retry.wait_s:
            try:
                outbox.publish(each, last=bool(draining_since))
            except StoreError as error:
                retry.failed()
                say(down=error.message)
            else:
                news = False
                retry.succeeded()
                say(up=1)
        if draining_since and (not news or time.monotonic() - max(draining_since, taken_at) > PATIENCE_S):
            return
        if order[0] == "turn":
            orders.hold_after(order)
        else:
            orders.wait(order, LOOK_S)


def main() -> None:
    with suppress(OSError):
        os.nice(NICENESS)
    orders, say = Orders(sys.stdin), Answers()
    workspace, sweep = Workspace(Path(sys.argv[1])), sys.argv[2]
    with suppress(StoreError):  # the first publication says why
        # The import of MLflow takes seconds of a CPU, which must not be while something is timed.
        Store(workspace.tracking_uri, workspace.mlflow_artifacts).check()
    with (
        Journal.open(workspace.journal, read_only=True) as journal,
        Outbox.of(workspace, journal, sweep) as outbox,
    ):
        serve(outbox, orders, say)
    os._exit(0)  # the modules that MLflow has imported take a second to take down


if __name__ == "__main__":
    main()
