"""Quoting of command lines for a shell on a device, and the outcome of a program in words. Every remote command line is
quoted here."""

import shlex
from collections.abc import Sequence

from sweeps.errors import DeviceError
from workers.devices.interface import Completed

TAIL_BYTES = 500
"""The length (bytes) of the end of a program's output that a message contains."""


def quoted(argv: Sequence[str]) -> str:
    """Return the words as one command for a POSIX shell, which reads each word literally. Raises
    `DeviceError("bad_name", ...)`."""
    if any("\0" in word for word in argv):
        raise DeviceError("bad_name", "a name or argument contains a NUL")
    return shlex.join(argv)


def outcome_text(done: Completed) -> str:
    """Return the exit code and the last output of a program, to append to a message."""
    tail = (done.stderr or done.stdout)[-TAIL_BYTES:].decode("utf-8", "replace").strip()
    return f" (exit code {done.exit_code}{': ' if tail else ''}{tail})"
