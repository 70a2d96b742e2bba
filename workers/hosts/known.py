"""One host of a lab as a driver knows it, and which host has a device that several have."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from sweeps.device_facts import DeviceFacts
from sweeps.spec import places
from sweeps.text import duration
from workers.hosts.away import LOST, away
from workers.hosts.interface import SILENT_S, Hello, Host, Queued, left_of

_ITS_OWN = ("127.", "localhost:", "[::1]:")
"""Addresses of emulators, virtual phones and forwarded ports."""


@dataclass(slots=True)
class Known:
    """One host."""

    host: Host
    hello: Hello
    heard_s: float
    wrong: str
    """Why it cannot be used: both versions of what differs. Empty if it can."""
    epochs: dict[str, int] = field(default_factory=dict)
    """Leases that this driver holds, by device id."""
    shared: set[str] = field(default_factory=set)
    """Ids of devices that another host had too while both answered: not one that has moved, but two, or a network."""
    _of: Hello | None = None
    _ids: frozenset[str] = frozenset()
    """Of the devices in `_of`."""

    @property
    def place(self) -> tuple[str, str]:
        return self.hello.name, self.hello.machine

    def is_silent(self, now_s: float) -> bool:
        return now_s - self.heard_s > SILENT_S and not self.host.has_answered()

    @property
    def ids(self) -> frozenset[str]:
        """Of its devices; none if it cannot be used."""
        if self._of is not self.hello:
            self._of, self._ids = self.hello, frozenset(one.facts.device_id for one in self.hello.devices)
        return frozenset() if self.wrong else self._ids

    def has(self, device_id: str) -> bool:
        return device_id in self.ids

    def meet(self, others: Iterable["Known"]) -> None:
        """It has told its devices now. `others`: those that answer."""
        self.shared &= self.ids
        for one in others:
            both = self.ids & one.ids
            self.shared |= both
            one.shared |= both

    def reaches(self, device_id: str) -> bool:
        """Whether it has the device over a network, which another host may do as well; not by an address of its own
        loopback."""
        unit = next((one.facts.name for one in self.hello.devices if one.facts.device_id == device_id), "")
        address = places.on_host(unit).partition(":")[2].rpartition("@")[2]
        return (":" in address and not address.startswith(_ITS_OWN)) or "._adb" in address


def chosen(having: Sequence[Known], device_id: str, now_s: float) -> Host | None:
    """Of the hosts that have the device, the one that all drivers choose; `None` if none answers.

    Raises `DeviceError("host_away", ...)` if one that is silent may be measuring on it: it has it over the network, or
    has what another one reaches over the network, or both had it while both answered.
    """
    answering = [one for one in having if not one.is_silent(now_s)]
    # Where the lease is, if it is on several; its host would not give it to another connection anyway.
    answering.sort(key=lambda one: (device_id not in one.epochs, one.place))
    if not answering:
        return None
    both = any(one.reaches(device_id) or device_id in one.shared for one in having)
    if len(having) > 1 and device_id not in answering[0].epochs and both:
        for one in having:
            if one not in answering:
                raise away(one.hello.name, f"{LOST}, and {device_id}, which others have too, may be measured there")
    return answering[0].host


def used_at(other: Known, device_id: str, who: str) -> str:
    """Why a device that another host has as well cannot be had here: who else uses it there. Empty if nobody does.

    Raises `DeviceError("host_away", ...)`.
    """
    uses = (one.use for one in other.host.hello().devices if one.facts.device_id == device_id)
    for use in uses:
        if use is not None and (use.running or (use.who not in ("", who) and not use.lapsed)):
            return f"{use.who or 'another sweep'} has {device_id} at the host {other.hello.name}"
    return ""


def different(planned: DeviceFacts, there: DeviceFacts, runtimes: Sequence[str]) -> str:
    """What of the job keys of these runtimes is another one than was planned for, in words; empty if nothing is."""
    named = ("maker", "model", "soc", "os_build", "abi", "runtime_versions", "nnapi_level")
    compared: dict[str, tuple[object, object]] = {}
    if there.fingerprint != planned.fingerprint:
        compared = {name: (getattr(there, name), getattr(planned, name)) for name in named}
    for name in runtimes:
        now, before = (dict(facts.runners).get(name, "none") for facts in (there, planned))
        compared[f"runner of {name}"] = now, before
    return "; ".join(f"{what}: {now}, not {before}" for what, (now, before) in compared.items() if now != before)[:300]


def waits_for(queued: Queued, device_id: str) -> str:
    others = f", {queued.ahead} come first" if queued.ahead else ""
    if not queued.holder:
        return f"{device_id} is given to the next in the queue as soon as its block ends{others}"
    measures = f", measures {queued.running}" if queued.running else ""
    left = f", {about} are left" if (about := left_of(queued)) else ""
    return f"{queued.holder} has {device_id} (for {duration(queued.held_s)}{measures}{left}){others}"
