"""What a sweep's commands are in this folder: its file, if it is known, and its workspace."""

import os
import shlex
from collections.abc import Iterator
from pathlib import Path

from sweeps.advice import RUN, Here
from sweeps.launching.live import read_live
from sweeps.launching.record import kept_file
from sweeps.workspace import DEFAULT_ROOT, ROOT_VARIABLE, Workspace

SPECS = Path(__file__).parents[1] / "specs"
DEMO = SPECS / "demo.yaml"
"""The sweep of `edgesweep demo`."""


def here(workspace: Workspace, sweep: str | None = None, file: Path | None = None) -> Here:
    """`file`: what measures the sweep. Without it the one of the workspace's last run, or what the browser started, if
    that was this sweep; `sweep` is `None` if it is not known which is meant."""
    usual = Path(os.environ.get(ROOT_VARIABLE) or DEFAULT_ROOT).expanduser().resolve()
    where = "" if workspace.root == usual else f" --workspace {shlex.quote(_from_here(workspace.root))}"
    file = file or (_known_file(workspace, sweep) if sweep else None)
    if file is None:
        return Here(RUN + where, where)
    is_demo = file.resolve() == DEMO
    return Here((f"edgesweep {'demo' if is_demo else f'run {shlex.quote(_from_here(file))}'}") + where, where)


def running_now(workspace: Workspace) -> Iterator[str]:
    """A line if a driver has the workspace: then no other one can start."""
    live = read_live(workspace.live)
    if workspace.holder() is not None:
        what = f" of {live.sweep}" if live is not None and not live.ended else ""
        yield f"A run{what} goes on in this workspace now. Whatever is to be run waits until it has ended"


def runs_now(workspace: Workspace, sweep: str) -> bool:
    """Whether a driver measures this sweep now."""
    live = read_live(workspace.live)
    return live is not None and live.sweep == sweep and not live.ended and workspace.holder() is not None


def _known_file(workspace: Workspace, sweep: str) -> Path | None:
    live = read_live(workspace.live)
    last = Path(live.file) if live is not None and live.sweep == sweep and live.file else None
    return next((file for file in (last, kept_file(workspace, sweep)) if file is not None and file.is_file()), None)


def _from_here(path: Path) -> str:
    cwd = Path.cwd()
    return str(path.relative_to(cwd) if path.is_absolute() and path.is_relative_to(cwd) else path)
