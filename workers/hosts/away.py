"""A host that a driver cannot use now: one form of the error, so that it is told once for all of the host's devices."""

from sweeps.errors import DeviceError
from sweeps.records import Failed

LOST = "its connection is lost"
_KINDS = frozenset({"head_away", "host_away", "host_leaving", "host_disk"})


def away(name: str, why: str) -> DeviceError:
    """`why`: what is known, with the host as "it"."""
    return DeviceError(
        "host_away",
        f"the host {name}: {why}",
        "what it has measured is kept there; a sweep waits for it, for four minutes: check it and its network",
    )


def no_disk(name: str, why: str, next_step: str = "free space there") -> DeviceError:
    """As `away`, of a host that cannot write to its disk."""
    return DeviceError("host_disk", f"the host {name}: {why}", f"{next_step}; a sweep waits for four minutes")


def host_away(failed: Failed) -> tuple[str, str] | None:
    """Which host is away and why, in words; `None` if it is not a host that is."""
    whose, colon, why = failed.message.partition(": ")
    return (whose, why) if failed.kind in _KINDS and colon else None
