"""Who has a lock of this host, without taking it: whoever only looks must not be in the way of whoever measures."""

import hashlib
import os
from pathlib import Path

HELD = Path("/tmp/edgesweep-held")  # noqa: S108  # not in a user's cache: all users of the host share its phones
"""The files that are locked, one for each name."""

_LOCKS = Path("/proc/locks")


def held_path(name: str) -> Path:
    """The file whose lock stands for `name`."""
    return HELD / hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:32]


def phone_name(device_id: str) -> str:
    """The name under which whoever measures on a phone holds it."""
    return f"phone {device_id}"


def holder(path: Path, locks: Path = _LOCKS) -> int | None:
    """The id of the process that has locked a file; `None` if none has, or where Linux does not say.

    `locks`: lines as `1: FLOCK  ADVISORY  WRITE 1234 08:01:131 0 EOF`, with the device in hex and the inode.
    """
    try:
        found = path.stat(follow_symlinks=False)
        lines = locks.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return None
    wanted = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    for line in lines:
        words = line.split()
        # A lock that is waited for has `->` in its second place.
        if len(words) > 5 and words[1] == "FLOCK" and words[5] == wanted and words[4].isdecimal():
            return int(words[4]) or None
    return None
