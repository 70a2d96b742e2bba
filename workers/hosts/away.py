"""The errors for a host that a driver cannot use now. A driver reports such a host once, for all of its devices."""

from sweeps.errors import HostError

LOST = "its connection is lost"


def away(name: str, why: str) -> HostError:
    """Return the error for a host that is away. `why`: the known reason, with the host as "it"."""
    return HostError(
        "host_away",
        f"the host {name}",
        why,
        "what it has measured is kept there; a sweep waits for it, for four minutes: check it and its network",
    )


def no_disk(name: str, why: str, next_step: str = "free space there") -> HostError:
    """Return the error for a host that cannot write to its disk; `why` as in `away`."""
    return HostError("host_disk", f"the host {name}", why, f"{next_step}; a sweep waits for four minutes")


def leaving(name: str) -> HostError:
    """Return the error for a host that a person ends."""
    return HostError("host_leaving", f"the host {name}", "it leaves the lab")
