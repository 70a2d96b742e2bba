"""The executor of a run, opened by its name."""

import os
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from sweeps.errors import ClusterError
from sweeps.operations.notices import notify
from sweeps.planning.plan import Plan
from sweeps.workspace import Workspace
from workers.executors.inline import InlineExecutor
from workers.executors.interface import Executor
from workers.executors.loopback import keep_to_this_machine
from workers.hosts.lab import Lab
from workers.hosts.lab_executor import LabExecutor

LATE_S = 10.0
"""Seconds after which Ray's start counts as slow: it takes less than three seconds on an idle machine."""


@contextmanager
def open_executor(name: str, workspace: Workspace, planned: Plan, lab: Lab | None = None) -> Iterator[Executor]:
    """Open the executor of a run for the `with` block. `lab`: if given, its hosts measure, whatever `name` is."""
    executor: Executor
    with _own_signal_handlers():
        if lab is not None:
            executor = LabExecutor(lab, workspace.root)
        elif name == "inline":
            executor = InlineExecutor(workspace.root)
        else:
            executor = _ray(workspace, [facts.device_id for facts in planned.devices])
    try:
        yield executor
    finally:
        executor.close()


def _ray(workspace: Workspace, device_ids: Sequence[str]) -> Executor:
    """Return Ray's executor, or the inline one if Ray does not start on this machine (for example because it is very
    busy). Raises `ClusterError` instead if `RAY_ADDRESS` names a cluster."""
    keep_to_this_machine()
    from workers.executors.ray import RayExecutor  # the import takes over a second, and inline does not need Ray

    late = threading.Timer(LATE_S, notify, ["Ray is still starting; on a busy computer that may take minutes"])
    late.daemon = True
    late.start()
    try:
        return RayExecutor(workspace.root, device_ids)
    except ClusterError as error:
        if os.environ.get("RAY_ADDRESS"):
            raise
        notify(f"{error.message}. Without it one variant is built after another, as with --executor inline")
        return InlineExecutor(workspace.root)
    finally:
        late.cancel()


@contextmanager
def _own_signal_handlers() -> Iterator[None]:
    """Restore the calling program's signal handlers after the block: Ray's start replaces them."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            for number, handler in before.items():
                if handler is not None:  # a handler that Python did not set cannot be put back
                    signal.signal(number, handler)
