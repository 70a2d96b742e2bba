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

HOST_PROTOCOL = 9
"""The version of the protocol: the number grows when drivers and hosts of different versions would not understand each
other."""

CLOCK_S = 60.0
"""The difference between a host's clock and the driver's (s) above which it is reported. No function of EdgeSweep
depends on it."""
BEAT_S = 1.0
"""The interval at which a driver sends a beat to each host and so renews its leases there."""
SILENT_S = 3.5
"""A host that a driver has not heard for this time counts as away. The time is shorter than a lease lives: a driver
gives up first."""
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
        """Return why this and `other` cannot work together: both values of the version that differs. Empty if they
        can."""
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
    """The seconds for which the driver still expects to need the device; 0 if that is not known."""
    at_least: bool = False
    """Tells whether the driver expects to need the device for longer than `left_s`: a race is not decided yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostDevice:
    """One device of a host."""

    facts: DeviceFacts
    """The facts of the device; `facts.name` is the name on this host: `adb:SERIAL`."""
    use: Use | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hint:
    """A hint that the EdgeSweep of one user leaves a device alone after faults that were the device's own. Other users
    measure on it all the same."""

    device_id: str
    user: str
    text: str
    """The time and the reason, for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """The report of a host about itself."""

    name: str
    machine: str
    """The identifier of the host's state folder, which distinguishes two hosts with one name."""
    boot: int
    """The start of the agent in ms since 1970, or more if the clock was set back. The newest agent of a host has the
    largest value, and is the one that counts."""
    versions: Versions
    tags: tuple[str, ...]
    change: int
    """A counter that grows whenever devices come or go."""
    devices: tuple[HostDevice, ...]
    refused: tuple[DeviceError, ...]
    """The devices that cannot be used, and the faults of the host itself."""
    stored: int
    """The number of results that no driver has acknowledged yet."""
    free_bytes: int
    """The free space (bytes) on the disk of the host's artifacts and results."""
    clock_s: float
    """The seconds since 1970 by the host's own clock."""
    tools: tuple[tuple[str, str], ...]
    """The version of the program that finds devices (for phones adb), by transport, if the program reports it."""
    hints: tuple[Hint, ...]
    """The hints that drivers have sent since the agent started."""

    def clock_trouble(self, now_s: float) -> str:
        """Return the difference between the host's clock and `now_s` in words, whichever of them is right; empty if
        they agree."""
        ahead_s = self.clock_s - now_s
        if abs(ahead_s) <= CLOCK_S:
            return ""
        way = "ahead of" if ahead_s > 0 else "behind"
        return f"its clock is {abs(ahead_s) / 60:.0f} min {way} this computer's: set one of them"

    def named(self, facts: DeviceFacts) -> DeviceFacts:
        """Return the facts of one of the host's devices under the name that a driver uses: `host:NAME/adb:SERIAL`."""
        return replace(facts, name=f"host:{self.name}/{facts.name}")


@dataclass(frozen=True, slots=True)
class Beat:
    """The answer of a host to a driver's beat."""

    lost: frozenset[str]
    """The ids of the devices whose lease the caller has lost."""
    hello: Hello | None
    """The host's report, if its devices have changed; else `None`."""


@dataclass(frozen=True, slots=True)
class Granted:
    """The caller has the lease of the device, until the lease ends."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Queued:
    """Another driver has the lease. A driver that asks again keeps its place in the queue."""

    holder: str
    running: str
    """The block of the holder that runs now; empty if there is none."""
    ahead: int
    """The number of waiting drivers that come before the caller, without the holder."""
    held_s: float
    """The seconds for which the holder has had the device."""
    left_s: float = 0.0
    """The seconds for which the holder still expects to need the device; 0 if that is not known."""
    at_least: bool = False
    """Tells whether the holder expects to need the device for longer, as in `Use`."""


def left_of(holding: Use | Queued) -> str:
    """Return the time for which the holder still needs the device, for people: `about 5 min`; empty if it is not
    known."""
    return f"{'at least' if holding.at_least else 'about'} {duration(holding.left_s)}" if holding.left_s else ""


class Host(Protocol):
    """A device host. All methods may be called from several threads.

    Over a network each method may raise `DeviceError("host_away", ...)`.
    """

    def hello(self) -> Hello: ...

    def acquire(self, device_id: str, who: str) -> Granted | Queued:
        """Ask for a lease. Raises `DeviceError`: `offline` if the host does not have the device, `quarantined` if a
        person quarantined it, `leased` if a person ended this driver's use, `host_leaving`, `host_disk` if the host's
        disk is full."""
        ...

    def beat(self, who: str, epochs: Mapping[str, int], change: int, timeout_s: float) -> "Beat":
        """Renew these leases, by device id; then wait until the host's devices differ from those at the counter
        `change`, at most for `timeout_s`. The call does not wait if a lease has ended."""
        ...

    def has_answered(self) -> bool:
        """Tell whether the answer to `beat` has arrived although its caller has not received it yet: then the driver is
        late, not the host."""
        ...

    def release(self, device_id: str, epoch: int) -> None:
        """Release a device. Does nothing if its lease is another one by now."""
        ...

    def free(self, device_id: str) -> str:
        """End the lease, and the block that runs, for a person. Return who had the lease; empty if nobody had."""
        ...

    def missing(self, build_keys: Collection[str]) -> frozenset[str]:
        """Return the build keys whose artifact is not on the host."""
        ...

    def receive(self, packed: PackedArtifact) -> None:
        """Store an artifact. Raises `StoreError`, and `DeviceError("host_disk", ...)`."""
        ...

    def run(
        self, device_id: str, epoch: int, request: Request[AnswerT], acknowledged: Sequence[str] = ()
    ) -> AnswerT | Failed:
        """Handle a request under the lease `epoch`. A stored answer is returned whatever the epoch.

        Returns a `Failed` of the kind `lease_lost`, before anything is started, if the lease is no longer valid.
        `acknowledged`: the ids of results (`Request.result_id`) that the driver has in its journal; the host deletes
        these results.
        """
        ...

    def acknowledge(self, results: Sequence[str]) -> None: ...

    def hint(self, hint: Hint) -> None:
        """Show this hint instead of the previous one from the same user for the device; none if its text is empty."""
        ...
