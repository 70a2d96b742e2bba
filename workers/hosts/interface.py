"""The interface of a device host, and the values that it returns. A driver sees devices only through hosts."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from sweeps.device_facts import DeviceFacts
from sweeps.errors import DeviceError
from sweeps.records import Failed
from sweeps.text import duration
from workers.artifacts import PackedArtifact
from workers.measure.device_runner import AnswerT, Request

HOST_PROTOCOL = 8
"""The number grows when drivers and hosts of different versions would not understand each other."""

CLOCK_S = 60.0
"""The difference between a host's clock and the driver's from which it is reported. Nothing that EdgeSweep does depends
on it."""
BEAT_S = 1.0
"""The interval at which a driver hears each host and renews its leases there."""
SILENT_S = 3.5
"""A host that a driver has not heard for so long counts as away. Less than a lease lives: a driver gives up first."""
TIME_TO_LIVE_S = 5.0
"""A lease ends this long after it was last renewed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """The versions that driver and hosts must have in common."""

    edgesweep: str
    protocol: int
    python: str
    ray: str
    """The version of Ray; empty on a host without it."""

    def difference(self, other: "Versions") -> str:
        """The reason why this and `other` cannot work together: both versions of what differs. Empty if they can."""
        if self.protocol != other.protocol or self.edgesweep != other.edgesweep:
            return (
                f"EdgeSweep {self.edgesweep} (protocol {self.protocol}), "
                f"not {other.edgesweep} (protocol {other.protocol})"
            )
        if self.python != other.python:
            return f"Python {self.python}, not {other.python}"
        return f"Ray {self.ray}, not {other.ray}" if self.ray != other.ray else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """The use of a host's device by a driver."""

    who: str
    epoch: int
    running: str
    """The name of the job that is measured now; empty if none is."""
    lapsed: bool
    """Tells whether the driver has not renewed the lease in time."""
    waiting: tuple[str, ...]
    """The drivers that wait for the device, first come first."""
    left_s: float
    """The seconds for which its driver still expects to need the device; 0 if that is not known."""
    at_least: bool = False
    """Tells whether its driver expects to need the device for longer than that: a race is not decided yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostDevice:
    """One device of a host."""

    facts: DeviceFacts
    """`facts.name` is the host's own name of it: `adb:SERIAL`."""
    use: Use | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hint:
    """A hint that EdgeSweep of one user leaves a device alone after faults of its own. Others measure on it all the
    same."""

    device_id: str
    user: str
    text: str
    """The time and the reason, for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """The report of a host about itself."""

    name: str
    machine: str
    """Identifier of the host's state folder, which distinguishes two hosts with one name."""
    boot: int
    """Start of the agent in ms since 1970, or more if the clock was set back. The newest agent of a host has the
    largest, and is the one that counts."""
    versions: Versions
    tags: tuple[str, ...]
    change: int
    """The counter grows whenever devices come or go."""
    devices: tuple[HostDevice, ...]
    refused: tuple[DeviceError, ...]
    """The devices that cannot be used, and the faults of the host itself."""
    stored: int
    """Results that no driver has acknowledged yet."""
    free_bytes: int
    """The free space on the disk of the host's artifacts and results."""
    clock_s: float
    """Seconds since 1970 by the host's own clock."""
    tools: tuple[tuple[str, str], ...]
    """The version of the program that finds devices (adb's), by transport, as far as the program says it."""
    hints: tuple[Hint, ...]
    """The hints that drivers have sent since the agent began."""

    def clock_trouble(self, now_s: float) -> str:
        """The fault of the host's clock in words, whoever's `now_s` is right. Empty if they agree."""
        ahead_s = self.clock_s - now_s
        if abs(ahead_s) <= CLOCK_S:
            return ""
        way = "ahead of" if ahead_s > 0 else "behind"
        return f"its clock is {abs(ahead_s) / 60:.0f} min {way} this computer's: set one of them"

    def named(self, facts: DeviceFacts) -> DeviceFacts:
        """The facts of one of its devices under the name that a driver uses: `host:NAME/adb:SERIAL`."""
        return replace(facts, name=f"host:{self.name}/{facts.name}")


@dataclass(frozen=True, slots=True)
class Beat:
    """The answer of a host to a driver's beat."""

    lost: frozenset[str]
    """Devices that are no longer the caller's."""
    hello: Hello | None
    """The host's report if its devices have changed."""


@dataclass(frozen=True, slots=True)
class Granted:
    """The device is the caller's, until the lease ends."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Queued:
    """Another driver has the device. A driver that asks again keeps its place in the queue."""

    holder: str
    running: str
    """The holder's block that is under way; empty if there is none."""
    ahead: int
    """The number of drivers that come first, the holder not counted."""
    held_s: float
    """The seconds for which the holder has had the device."""
    left_s: float = 0.0
    """The seconds for which the holder still expects to need the device; 0 if that is not known."""
    at_least: bool = False
    """Tells whether the holder expects to need it for longer, as in a `Use`."""


def left_of(holding: Use | Queued) -> str:
    """The time for which the holder still needs the device, for people: `about 5 min`; empty if that is not known."""
    return f"{'at least' if holding.at_least else 'about'} {duration(holding.left_s)}" if holding.left_s else ""


class Host(Protocol):
    """A device host. All methods may be called from several threads.

    Over a network each method may raise `DeviceError("host_away", ...)`.
    """

    def hello(self) -> Hello: ...

    def acquire(self, device_id: str, who: str) -> Granted | Queued:
        """Ask for a lease. Raises `DeviceError`: `offline` if the host lacks the device, `quarantined` if a person
        keeps it out, `leased` if a person ended this driver's use, `host_leaving`, `host_disk` if its disk is full."""
        ...

    def beat(self, who: str, epochs: Mapping[str, int], change: int, timeout_s: float) -> "Beat":
        """Renew these leases, by device id; then wait until the devices are others than at `change`, at most so long.
        The call does not wait if a lease has ended."""
        ...

    def has_answered(self) -> bool:
        """Tell whether the answer to `beat` is there and its caller has not had its turn: the driver is late."""
        ...

    def release(self, device_id: str, epoch: int) -> None:
        """Hand a device back. Does nothing if the lease is another one by now."""
        ...

    def free(self, device_id: str) -> str:
        """A person ends the lease, and the block that runs. Returns who had it; empty if nobody had."""
        ...

    def missing(self, build_keys: Collection[str]) -> frozenset[str]:
        """The build keys whose artifact is not on the host."""
        ...

    def receive(self, packed: PackedArtifact) -> None:
        """Store an artifact. Raises `StoreError`, and `DeviceError("host_disk", ...)`."""
        ...

    def run(
        self, device_id: str, epoch: int, request: Request[AnswerT], acknowledged: Sequence[str] = ()
    ) -> AnswerT | Failed:
        """Handle a request under the lease `epoch`. A stored answer is returned whatever the epoch.

        `Failed` of the kind `lease_lost`, before anything is started, if the lease is no longer valid. `acknowledged`:
        results (`Request.result_id`) that the driver has in its journal; the host forgets them.
        """
        ...

    def acknowledge(self, results: Sequence[str]) -> None: ...

    def hint(self, hint: Hint) -> None:
        """Show this hint instead of the one that this user's sweeps sent for the device before; none if its text is
        empty."""
        ...
