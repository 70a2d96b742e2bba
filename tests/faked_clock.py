"""A clock of their own for processes of a test, which goes as a file says: by PyPI's libfaketime, which `make faults`
installs. It is for drivers and hosts' agents, not for Ray's daemons."""

import importlib.util
from pathlib import Path


def faked_clock(file: str | Path) -> dict[str, str]:
    """The environment of a process whose clock is that of the file, such as `+3600`, in seconds. Empty if the library
    is missing."""
    library = importlib.util.find_spec("libfaketime")
    if library is None or library.origin is None:
        return {}
    return {
        "LD_PRELOAD": str(Path(library.origin).parent / "vendor/libfaketime/src/libfaketime.so.1"),
        "FAKETIME_TIMESTAMP_FILE": str(file),
        "FAKETIME_CACHE_DURATION": "1",  # seconds: to read the file at each call makes them 35 times slower
        # Waits go by the process's monotonic clock, and a jump of that clock is no fault that there is.
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        # The workaround for an old glibc makes waits of Ray's threads end at once, and Ray aborts the process.
        "FAKETIME_FORCE_MONOTONIC_FIX": "0",
    }
