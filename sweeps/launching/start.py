"""The start of a sweep as a separate process, which outlives the browser and the dashboard."""

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
"""Environment variable with the folders that are searched for models' own code besides the sweep file's, joined as in
PATH."""

LAB_VARIABLE, TOKEN_VARIABLE = "EDGESWEEP_LAB", "EDGESWEEP_TOKEN_FILE"
"""Environment variables that name a lab for all commands of a terminal. They are not passed on: a sweep from the
browser uses a lab only if its options name one."""

DETACH = Path(__file__).with_name("detach.py")
DETACH_LIMIT_S = 60.0
TAIL_BYTES = 8_000
SETTLE, RETRY = "--settle", "--retry-failed"


def command(*arguments: str) -> list[str]:
    """Return the argv of `edgesweep` in this Python environment. The process imports no code from its working
    directory."""
    return [sys.executable, "-P", "-c", "from sweeps.cli.main import main; main()", *arguments]


def environment(models: Sequence[Path]) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if name not in (LAB_VARIABLE, TOKEN_VARIABLE)}
    return {**inherited, MODELS_VARIABLE: os.pathsep.join(map(str, models)), "PYTHONUNBUFFERED": "1"}


def start(workspace: Workspace, text: str, by: str, models: Sequence[Path] = (), options: Sequence[str] = ()) -> Launch:
    """Start `edgesweep run` on a sweep file with this text, which is kept in the workspace.

    `by`: the person who starts it. `models`: the folders that models' own code may come from. `options`: more arguments
    of `run`. Raises `SpecError` if the file is wrong, `WorkspaceError` if a sweep runs here already, or the workspace
    cannot be written.
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
            # The sweep runs already: a record that cannot be written on a full disk is no failure of the start.
            with suppress(OSError):
                keep(workspace, launch)
    except LockedError as error:
        raise _in_use(workspace) from error
    except OSError as error:
        raise unwritable(workspace, error) from error
    return launch


def resume(workspace: Workspace, by: str, models: Sequence[Path] = ()) -> Launch:
    """Start the last sweep from the browser again: it keeps its measurements and continues with the pending jobs.
    Raises as `start`."""
    launch = last(workspace, Launch)
    try:
        text = None if launch is None else Path(launch.file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        text = None
    if launch is None or text is None:
        raise WorkspaceError("the sweep file of the last start is gone", "start it again from its text")
    return start(workspace, text, by, models, launch.options)


def start_again(
    workspace: Workspace, planned: SweepSpec, options: Sequence[str], by: str, models: Sequence[Path] = ()
) -> Launch:
    """Start a sweep again, with these options in addition to those of its last start.

    `planned`: the sweep as it was last planned; the kept sweep file must still describe the same sweep. Raises as
    `start`.
    """
    words = " ".join(("edgesweep run SWEEP.yaml", *options))
    text = text_of(workspace, planned)
    spec = check(workspace, text, models).spec
    # `on_end` may differ: a sweep file from the browser may not choose the receiver of the message at the end.
    if spec is not None and spec != planned.model_copy(update={"on_end": spec.on_end}):
        raise WorkspaceError(
            f"the sweep file of {planned.name} that is kept here is not the one that was measured last",
            f"with that one: {words}",
        )
    before = last(workspace, Launch)
    last_options = before.options if before is not None and before.sweep == planned.name else ()
    return start(workspace, text, by, models, (*_of_every_start(last_options), *options))


def _of_every_start(options: Sequence[str]) -> tuple[str, ...]:
    """Return the options to repeat at the next start, without those that concerned one start only (retries and extra
    rounds)."""
    repeated = [option for option in options if option != RETRY]
    if SETTLE in repeated:
        place = repeated.index(SETTLE)
        del repeated[place : place + 2]
    return tuple(repeated)


def text_of(workspace: Workspace, planned: SweepSpec) -> str:
    """Return the text of a measured sweep's file: the kept file, or for a sweep from a terminal an equivalent text."""
    with suppress(OSError, UnicodeDecodeError):
        return kept_file(workspace, planned.name).read_text(encoding="utf-8")
    return sweep_yaml(planned)


def log_of(workspace: Workspace, sweep: str) -> Path:
    return workspace.logs / f"{sweep}.log"


def last_lines(log: Path, count: int = 20) -> list[str]:
    """Return the last lines of a log, for people; empty if it cannot be read. The text is not trusted: callers must
    escape it."""
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
    """Start `argv` as a process whose parent is init, and return its process id. Raises `OSError`."""
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
