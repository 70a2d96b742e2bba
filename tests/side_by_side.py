"""Tests on several workers (pytest-xdist): which stay together, and which have the machine to themselves."""

import fcntl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests import shared


def group(item: pytest.Item) -> str | None:
    """Tests of one group run on one worker. Ray's clusters disturb each other, and so do boards: all are this machine,
    and who begins on a board ends the programs that another driver left there. What a module makes once for its tests
    is made on one worker only."""
    for marker in ("ray", "sshd"):
        if item.get_closest_marker(marker):
            return marker
    fixtures = (fixture for definitions in item._fixtureinfo.name2fixturedefs.values() for fixture in definitions)
    return item.nodeid.partition("::")[0] if any(fixture.scope == "module" for fixture in fixtures) else None


@contextmanager
def turn(folder: Path, *, alone: bool) -> Iterator[None]:
    """Waits until a test may run: `alone` once no other test runs, the others while none is alone.

    `folder` is the same for all workers.
    """
    with (folder / "running").open("a") as running:
        # Whoever waits to be alone keeps the door: else the other workers would go on past it for ever.
        with (folder / "door").open("a") as door:
            fcntl.flock(door, fcntl.LOCK_EX)
            fcntl.flock(running, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield


def with_its_turn(item: pytest.Item) -> ExitStack:
    """The turn of this test, where tests run side by side."""
    stack = ExitStack()
    if hasattr(item.config, "workerinput"):
        stack.enter_context(turn(shared.folder(), alone=item.get_closest_marker("alone") is not None))
    return stack
