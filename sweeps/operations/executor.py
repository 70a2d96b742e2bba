"""Opens the executor of a run by its name."""

from collections.abc import Iterator
from contextlib import contextmanager

from sweeps.planning.plan import Plan
from sweeps.workspace import Workspace
from workers.executors.inline import InlineExecutor
from workers.executors.interface import Executor
from workers.executors.loopback import keep_to_this_machine
from workers.hosts.executor import LabExecutor
from workers.hosts.lab import Lab


@contextmanager
def open_executor(name: str, workspace: Workspace, planned: Plan, lab: Lab | None = None) -> Iterator[Executor]:
    """`lab`: its hosts measure, whatever `name` says."""
    executor: Executor
    if lab is not None:
        executor = LabExecutor(lab, workspace.root)
    elif name == "inline":
        executor = InlineExecutor(workspace.root)
    else:
        keep_to_this_machine()
        from workers.executors.ray import RayExecutor  # takes over a second, and inline does not need Ray

        executor = RayExecutor(workspace.root, [facts.device_id for facts in planned.devices])
    try:
        yield executor
    finally:
        executor.close()
