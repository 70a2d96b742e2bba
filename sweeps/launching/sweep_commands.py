"""The commands of a sweep in this folder, with its file, if it is known, and its workspace."""

import os
import shlex
from collections.abc import Iterator
from pathlib import Path

from sweeps.command_hints import RUN, Here
from sweeps.launching.live_report import Live, read_live
from sweeps.launching.record import kept_file
from sweeps.workspace import DEFAULT_ROOT, ROOT_VARIABLE, Workspace

SPECS = Path(__file__).parents[1] / "specs"
DEMO = SPECS / "demo.yaml"
"""The sweep of `edgesweep demo`."""


def here(workspace: Workspace, sweep: str | None = None, file: Path | None = None) -> Here:
    """The commands of a sweep, for advice. `file`: the sweep file. Without it that of the workspace's last run, or the
    one that the browser started, if that was this sweep; `sweep` is `None` if it is not known which is meant."""
    usual = Path(os.environ.get(ROOT_VARIABLE) or DEFAULT_ROOT).expanduser().resolve()
    where = "" if workspace.root == usual else f" --workspace {shlex.quote(_from_here(workspace.root))}"
    file = file or (_known_file(workspace, sweep) if sweep else None)
    if file is None:
        return Here(RUN + where, where)
    is_demo = file.resolve() == DEMO
    return Here((f"edgesweep {'demo' if is_demo else f'run {shlex.quote(_from_here(file))}'}") + where, where)


def running_now(workspace: Workspace) -> Iterator[str]:
    """A line if a process has the workspace: a sweep's run, or another command that keeps runs out."""
    holder = workspace.holder()
    if holder is None:
        return
    live = live_run(workspace)
    if live is not None:
        yield f"A run of {live.sweep} goes on in this workspace now: another one cannot start before it has ended"
    else:
        process = f"Process {holder}" if holder else "Another process"
        yield f"{process} uses this workspace now: no run can start before it has finished"


def runs_now(workspace: Workspace, sweep: str) -> bool:
    """Tell whether a driver measures this sweep now."""
    live = live_run(workspace)
    return live is not None and live.sweep == sweep


def live_run(workspace: Workspace) -> Live | None:
    """The run in the process that has the workspace; `None` if that is no sweep. A run that was killed has not told
    that it ended."""
    live = read_live(workspace.live)
    return live if live is not None and live.pid == workspace.holder() and not live.ended else None


def _known_file(workspace: Workspace, sweep: str) -> Path | None:
    live = read_live(workspace.live)
    last = Path(live.file) if live is not None and live.sweep == sweep and live.file else None
    return next((file for file in (last, kept_file(workspace, sweep)) if file is not None and file.is_file()), None)


def _from_here(path: Path) -> str:
    cwd = Path.cwd()
    return str(path.relative_to(cwd) if path.is_absolute() and path.is_relative_to(cwd) else path)
