"""One host of a lab as a driver knows it, and the choice of a host for a device that several hosts have."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from sweeps.device_facts import DeviceFacts
from sweeps.spec import lab_names
from sweeps.text import duration
from workers.hosts.away import LOST, away
from workers.hosts.interface import SILENT_S, Hello, Host, Queued, left_of

_ITS_OWN = ("127.", "localhost:", "[::1]:")
"""The beginnings of addresses of emulators, virtual phones and forwarded ports."""


@dataclass(slots=True)
class HostEntry:
    """One host, with the leases that this driver holds on its devices."""

    host: Host
    hello: Hello
    heard_s: float
    wrong: str
    """The reason why the host cannot be used: the two versions that differ. Empty if the host can be used."""
    epochs: dict[str, int] = field(default_factory=dict)
    """The epochs of the leases that this driver holds, by device id."""
    shared: set[str] = field(default_factory=set)
    """The ids of devices that another host had too while both hosts answered: such a device has not moved; there are
    two of them, or it is on a network."""
    _ids_of: Hello | None = None
    _ids: frozenset[str] = frozenset()
    """The ids of the devices in `_ids_of`."""

    @property
    def place(self) -> tuple[str, str]:
        return self.hello.name, self.hello.machine

    def is_silent(self, now_s: float) -> bool:
        return now_s - self.heard_s > SILENT_S and not self.host.has_answered()

    @property
    def ids(self) -> frozenset[str]:
        """Return the ids of the host's devices; none if the host cannot be used."""
        if self._ids_of is not self.hello:
            self._ids_of, self._ids = self.hello, frozenset(device.facts.device_id for device in self.hello.devices)
        return frozenset() if self.wrong else self._ids

    def has(self, device_id: str) -> bool:
        return device_id in self.ids

    def meet(self, answering: Iterable["HostEntry"]) -> None:
        """Compare the devices that this host has just reported with those of the other hosts that answer."""
        self.shared &= self.ids
        for host in answering:
            common = self.ids & host.ids
            self.shared |= common
            host.shared |= common

    def reaches(self, device_id: str) -> bool:
        """Tell whether the host has the device over a network, as another host may have too; an address of the host's
        own loopback does not count."""
        unit = next((device.facts.name for device in self.hello.devices if device.facts.device_id == device_id), "")
        address = lab_names.on_host(unit).partition(":")[2].rpartition("@")[2]
        return (":" in address and not address.startswith(_ITS_OWN)) or "._adb" in address


def chosen(candidates: Sequence[HostEntry], device_id: str, now_s: float) -> Host | None:
    """Choose the same host as all drivers do among those that have the device; `None` if none answers.

    Raises `DeviceError("host_away", ...)` if a silent host may be measuring on the device: if one of the hosts has the
    device over the network, or if two of them had the device while both answered.
    """
    answering = [known for known in candidates if not known.is_silent(now_s)]
    # The host with the lease comes first, if there are several; it would not give the device to another connection
    # anyway.
    answering.sort(key=lambda known: (device_id not in known.epochs, known.place))
    if not answering:
        return None
    ambiguous = any(known.reaches(device_id) or device_id in known.shared for known in candidates)
    if len(candidates) > 1 and device_id not in answering[0].epochs and ambiguous:
        for known in candidates:
            if known not in answering:
                raise away(known.hello.name, f"{LOST}, and {device_id}, which others have too, may be measured there")
    return answering[0].host


def used_at(other: HostEntry, device_id: str, who: str) -> str:
    """Return why this driver cannot use a device that another host has as well: who uses it at that host. Empty if
    nobody does.

    Raises `DeviceError("host_away", ...)`.
    """
    uses = (device.use for device in other.host.hello().devices if device.facts.device_id == device_id)
    for use in uses:
        if use is not None and (use.running or (use.who not in ("", who) and not use.lapsed)):
            return f"{use.who or 'another sweep'} has {device_id} at the host {other.hello.name}"
    return ""


def different(planned: DeviceFacts, current: DeviceFacts, runtimes: Sequence[str]) -> str:
    """Return the differences between a device and the one that was planned for, in all that enters the job keys of
    these runtimes, in words; empty if there are none."""
    named = ("maker", "model", "soc", "os_build", "abi", "runtime_versions", "nnapi_level")
    compared: dict[str, tuple[object, object]] = {}
    if current.fingerprint != planned.fingerprint:
        compared = {name: (getattr(current, name), getattr(planned, name)) for name in named}
    for name in runtimes:
        now, before = (dict(facts.runners).get(name, "none") for facts in (current, planned))
        compared[f"runner of {name}"] = now, before
    return "; ".join(f"{name}: {now}, not {before}" for name, (now, before) in compared.items() if now != before)[:300]


def waits_for(queued: Queued, device_id: str) -> str:
    queue = f", {queued.ahead} come first" if queued.ahead else ""
    if not queued.holder:
        return f"{device_id} is given to the next in the queue as soon as its block ends{queue}"
    measures = f", measures {queued.running}" if queued.running else ""
    left = f", {about} are left" if (about := left_of(queued)) else ""
    return f"{queued.holder} has {device_id} (for {duration(queued.held_s)}{measures}{left}){queue}"
