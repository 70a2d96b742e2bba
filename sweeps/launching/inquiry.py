"""Calls of an EdgeSweep command as a separate process with limits of time, which returns the command's JSON
document."""

import json
import resource
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from sweeps.errors import EdgeSweepError, WorkspaceError
from sweeps.launching.start import command, environment, unwritable
from sweeps.text import plain
from sweeps.workspace import Workspace

CPU_LIMIT_S = 120


def ask(
    words: Sequence[str],
    workspace: Workspace,
    *,
    subject: str,
    limit_s: float,
    next_step: str,
    models: Sequence[Path] = (),
    file: Path | None = None,
) -> tuple[dict[str, Any], str]:
    """Run `edgesweep WORDS --json` in the folder `launches`; return its document and its text on stderr.

    `subject`: the answer in words, for errors. `models`: the folders that models' own code may come from. `file`: a
    temporary file among the words, which messages call "the file" because the user does not know its path. Raises
    `EdgeSweepError` with the command's message if it fails, `WorkspaceError` with `next_step` if it takes longer than
    `limit_s` seconds, or if the workspace cannot be written.
    """
    try:
        workspace.launches.mkdir(parents=True, exist_ok=True)
        code, out, err = _run(words, workspace, subject, limit_s, next_step, models)
    except OSError as error:
        raise unwritable(workspace, error) from error

    def shown(text: str) -> str:
        return plain(text if file is None else text.replace(str(file), "the file"))

    messages = shown(err.decode("utf-8", "replace"))
    try:
        document = json.loads(out)
        if code:
            raise EdgeSweepError(*(shown(document["error"][part]) for part in ("message", "next_step")))
    except (ValueError, KeyError, TypeError) as error:
        if code:
            last = messages.strip().splitlines()[-1:]
            raise EdgeSweepError(*last or (f"{subject} ended with code {code} and said nothing",)) from error
        raise unread(words[0], subject) from error
    return document, messages


def unread(verb: str, subject: str) -> EdgeSweepError:
    """Return the error for a document of unexpected content."""
    return EdgeSweepError(f"{subject} cannot be read", f"run `edgesweep {verb}` in a terminal")


def _run(
    words: Sequence[str], workspace: Workspace, subject: str, limit_s: float, next_step: str, models: Sequence[Path]
) -> tuple[int, bytes, bytes]:
    with (
        subprocess.Popen(  # noqa: S603  # our own argument list
            command(words[0], "--json", *words[1:]),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=workspace.launches,
            env=environment(models),
        ) as process
    ):
        with suppress(OSError):
            resource.prlimit(process.pid, resource.RLIMIT_CPU, (CPU_LIMIT_S, CPU_LIMIT_S))
        try:
            out, err = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired as error:
            process.kill()
            raise WorkspaceError(f"{subject} was not ready after {limit_s:.0f} s", next_step) from error
    return process.returncode, out, err
