"""The start of a sweep as a process of its own, which outlives the browser and the dashboard."""

import errno
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from sweeps.errors import SpecError, WorkspaceError
from sweeps.launching.driver import find
from sweeps.launching.record import Launch, alone, keep, kept_file, last
from sweeps.launching.text_check import check
from sweeps.locks import LockedError
from sweeps.spec.sweep import SweepSpec, sweep_yaml
from sweeps.whole_file import write_whole
from sweeps.workspace import Workspace

MODELS_VARIABLE = "EDGESWEEP_MODELS"
"""Folders to search for models' own code, beside the sweep file's, joined as in PATH."""

LAB_VARIABLE, TOKEN_VARIABLE = "EDGESWEEP_LAB", "EDGESWEEP_TOKEN_FILE"
"""A lab for all commands of a terminal: a sweep that is started from here uses one only if its options say so."""

DETACH = Path(__file__).with_name("detach.py")
DETACH_LIMIT_S = 60.0
TAIL_BYTES = 8_000
SETTLE, RETRY = "--settle", "--retry-failed"


def command(*arguments: str) -> list[str]:
    """The argv of `edgesweep` in this environment. No code of the folder that it runs in is imported."""
    return [sys.executable, "-P", "-c", "from sweeps.cli.main import main; main()", *arguments]


def environment(models: Sequence[Path]) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if name not in (LAB_VARIABLE, TOKEN_VARIABLE)}
    return {**inherited, MODELS_VARIABLE: os.pathsep.join(map(str, models)), "PYTHONUNBUFFERED": "1"}


def start(workspace: Workspace, text: str, by: str, models: Sequence[Path] = (), options: Sequence[str] = ()) -> Launch:
    """Start `edgesweep run` on a sweep file with this text, which is kept in the workspace.

    `by`: who starts it. `models`: the folders that models' own code may come from. `options`: more arguments of `run`.
    Raises `SpecError` if the file is wrong, `WorkspaceError` if a sweep runs here already, or nothing can be written.
    """
    checked = check(workspace, text, models)
    if checked.spec is None:
        raise SpecError("\n".join(problem.text for problem in checked.problems), "correct the sweep file")
    name = checked.spec.name
    try:
        with alone(workspace) as lock:
            if workspace.holder() is not None:
                raise _in_use(workspace)
            file = kept_file(workspace, name)
            write_whole(file, text)
            log = log_of(workspace, name)
            log.parent.mkdir(parents=True, exist_ok=True)
            argv = command("run", str(file), "--workspace", str(workspace.root), *options)
            with log.open("wb") as output:
                pid = _detached(argv, output.fileno(), lock, workspace.launches, models)
            launch = Launch(
                sweep=name,
                file=str(file),
                options=tuple(options),
                by=by,
                started_s=time.time(),
                pid=pid,
                log=str(log),
            )
            # The sweep runs: a disk that is full by now does not make that untrue.
            with suppress(OSError):
                keep(workspace, launch)
    except LockedError as error:
        raise _in_use(workspace) from error
    except OSError as error:
        raise unwritable(workspace, error) from error
    return launch


def resume(workspace: Workspace, by: str, models: Sequence[Path] = ()) -> Launch:
    """Start the last sweep again: what was measured is kept, and what is left is measured. Raises as `start`."""
    launch = last(workspace, Launch)
    try:
        text = None if launch is None else Path(launch.file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        text = None
    if launch is None or text is None:
        raise WorkspaceError("the sweep file of the last start is gone", "start it again from its text")
    return start(workspace, text, by, models, launch.options)


def again(
    workspace: Workspace, planned: SweepSpec, options: Sequence[str], by: str, models: Sequence[Path] = ()
) -> Launch:
    """Start a sweep again, with these options beside those of its last start.

    `planned`: the sweep that was measured, which the kept sweep file must still describe. Raises as `start`.
    """
    words = " ".join(("edgesweep run SWEEP.yaml", *options))
    text = text_of(workspace, planned)
    spec = check(workspace, text, models).spec
    # `on_end` may differ: the people who start a sweep from here do not choose whom its end is told to.
    if spec is not None and spec != planned.model_copy(update={"on_end": spec.on_end}):
        raise WorkspaceError(
            f"the sweep file of {planned.name} that is kept here is not the one that was measured last",
            f"with that one: {words}",
        )
    before = last(workspace, Launch)
    last_options = before.options if before is not None and before.sweep == planned.name else ()
    return start(workspace, text, by, models, (*_of_every_start(last_options), *options))


def _of_every_start(options: Sequence[str]) -> tuple[str, ...]:
    """The options of every start, without those that one start alone was asked for."""
    repeated = [option for option in options if option != RETRY]
    if SETTLE in repeated:
        place = repeated.index(SETTLE)
        del repeated[place : place + 2]
    return tuple(repeated)


def text_of(workspace: Workspace, planned: SweepSpec) -> str:
    """The sweep file of a measured sweep: as it is kept, or, for a sweep from a terminal, one that means the same."""
    with suppress(OSError, UnicodeDecodeError):
        return kept_file(workspace, planned.name).read_text(encoding="utf-8")
    return sweep_yaml(planned)


def log_of(workspace: Workspace, sweep: str) -> Path:
    return workspace.logs / f"{sweep}.log"


def last_lines(log: Path, count: int = 20) -> list[str]:
    """The end of a log, for people; empty if it cannot be read. It is text from outside."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - TAIL_BYTES))
            text = file.read(TAIL_BYTES).decode("utf-8", "replace")
    except OSError:
        return []
    return [line.rstrip() for line in text.splitlines() if line.strip()][-count:]


def unwritable(workspace: Workspace, error: OSError) -> WorkspaceError:
    return WorkspaceError(
        f"the workspace {workspace.root} cannot be written: {error.strerror}",
        "free some space or give write permission, or serve another folder with --workspace",
    )


def _in_use(workspace: Workspace) -> WorkspaceError:
    driver = find(workspace)
    subject = f"the sweep {driver.sweep}" if driver.sweep else "a sweep"
    origin = (
        f"started by {driver.launch.by}" if driver.launched and driver.launch is not None else "started in a terminal"
    )
    return WorkspaceError(
        f"the workspace {workspace.root} runs {subject}, {origin} (process {driver.pid or 'unknown'})",
        "wait until it has ended, or stop it on the page Live",
    )


def _detached(argv: Sequence[str], output: int, lock: int, folder: Path, models: Sequence[Path]) -> int:
    """The process id of `argv`, which belongs to init. Raises `OSError`."""
    with subprocess.Popen(  # noqa: S603  # our own argument list
        [sys.executable, "-I", "-S", str(DETACH), *argv],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=output,
        pass_fds=(lock,),
        cwd=folder,
        env=environment(models),
    ) as process:
        try:
            printed, _ = process.communicate(timeout=DETACH_LIMIT_S)
        except subprocess.TimeoutExpired as error:
            process.kill()
            raise OSError(errno.ETIMEDOUT, "no process was started in time") from error
    if process.returncode or not printed.strip().isdigit():
        raise OSError(process.returncode, "no process could be started")
    return int(printed)
