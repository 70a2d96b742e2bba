"""The command lines that advice shows for a sweep, with its sweep file (if it is known) and its workspace, as typed in
the working directory."""

import os
import shlex
from collections.abc import Iterator
from pathlib import Path

from sweeps.command_hints import RUN, CommandHints
from sweeps.launching.live_report import Live, read_live
from sweeps.launching.record import kept_file
from sweeps.workspace import DEFAULT_ROOT, ROOT_VARIABLE, Workspace

SPECS = Path(__file__).parents[1] / "specs"
DEMO = SPECS / "demo.yaml"
"""Sweep file of `edgesweep demo`."""


def command_hints(workspace: Workspace, sweep: str | None = None, file: Path | None = None) -> CommandHints:
    """Return the commands of a sweep, for advice. `file`: the sweep file; by default the file of the workspace's last
    run, if that was of this sweep, or the file that was started from the browser. `sweep`: `None` if it is not known
    which sweep is meant."""
    usual = Path(os.environ.get(ROOT_VARIABLE) or DEFAULT_ROOT).expanduser().resolve()
    where = "" if workspace.root == usual else f" --workspace {shlex.quote(_from_here(workspace.root))}"
    file = file or (_known_file(workspace, sweep) if sweep else None)
    if file is None:
        return CommandHints(RUN + where, where)
    is_demo = file.resolve() == DEMO
    return CommandHints((f"edgesweep {'demo' if is_demo else f'run {shlex.quote(_from_here(file))}'}") + where, where)


def running_now(workspace: Workspace) -> Iterator[str]:
    """Yield one line of text if a process uses the workspace: a sweep's run, or another command that blocks runs."""
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
    """Return the run that goes on now; `None` if no run uses the workspace. The live file alone does not tell: a run
    that was killed has not recorded its end, so its process must hold the workspace's lock."""
    live = read_live(workspace.live)
    return live if live is not None and live.pid == workspace.holder() and not live.ended else None


def _known_file(workspace: Workspace, sweep: str) -> Path | None:
    live = read_live(workspace.live)
    last = Path(live.file) if live is not None and live.sweep == sweep and live.file else None
    return next((file for file in (last, kept_file(workspace, sweep)) if file is not None and file.is_file()), None)


def _from_here(path: Path) -> str:
    cwd = Path.cwd()
    return str(path.relative_to(cwd) if path.is_absolute() and path.is_relative_to(cwd) else path)
