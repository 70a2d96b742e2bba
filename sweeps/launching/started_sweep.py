"""The files that the workspace keeps of a sweep that was started from the browser: its sweep file, its log, the record
of the last start."""

import json
import re
from contextlib import suppress
from dataclasses import replace

from sweeps.launching.record import Launch, keep, kept_file, last
from sweeps.launching.start import log_of
from sweeps.whole_file import write_whole
from sweeps.workspace import Workspace


def rename_kept(workspace: Workspace, sweep: str, name: str) -> None:
    """Rename the kept sweep file and log after a sweep was renamed, and write the new name into the sweep file. Raises
    `OSError`."""
    file, log = kept_file(workspace, name), log_of(workspace, name)
    with suppress(FileNotFoundError):
        log_of(workspace, sweep).rename(log)
    try:
        text = kept_file(workspace, sweep).read_text(encoding="utf-8")
    except (FileNotFoundError, UnicodeDecodeError):
        return
    text, count = re.subn(r"(?m)^name:.*$", f"name: {json.dumps(name)}", text, count=1)
    if not count:
        return  # the name is written in another form: the old file stays, and does no harm
    write_whole(file, text)
    kept_file(workspace, sweep).unlink()
    launch = last(workspace, Launch)
    if launch is not None and launch.sweep == sweep:
        keep(workspace, replace(launch, sweep=name, file=str(file), log=str(log)))


def remove_kept(workspace: Workspace, sweep: str) -> None:
    """Remove the kept sweep file and log. Raises `OSError`."""
    kept_file(workspace, sweep).unlink(missing_ok=True)
    log_of(workspace, sweep).unlink(missing_ok=True)
