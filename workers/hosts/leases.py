"""The leases of a host's devices: one driver at a time, an epoch for each grant, a queue of drivers that wait.

A lease that is not renewed lapses. It still belongs to its driver, which may be cut off and come back, until another
driver asks for the device: then, after the running block has ended, the device is granted to that driver with a higher
epoch.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Lock

from sweeps.errors import DeviceError
from workers.hosts.interface import TIME_TO_LIVE_S, Granted, Queued, Use

_WAITER_S = 2 * TIME_TO_LIVE_S
"""The time after which a driver in the queue that has not asked again counts as gone."""
PATIENCE_S = 60.0
"""The time for which a block of a lapsed lease may keep running while another driver waits. Then the block is ended."""


@dataclass(slots=True)
class _Slot:
    """The lease of one device."""

    who: str = ""
    epoch: int = 0
    since_s: float = 0.0
    until_s: float = 0.0
    running: str = ""
    left_until_s: float = 0.0
    """The time (s, by the clock) until which the driver expects to need the device; 0 if that is not known."""
    at_least: bool = False
    """Tells whether the driver expects to need the device for longer than that."""
    queue: dict[str, float] = field(default_factory=dict)
    """The time at which each waiting driver asked last, in the order in which the drivers came."""
    barred: set[str] = field(default_factory=set)
    """The drivers whose use of the device a person has ended."""

    def left_s(self, now_s: float) -> float:
        return max(0.0, self.left_until_s - now_s) if self.who else 0.0


class Leases:
    """The leases of all devices of one host, by device id. All times are those of `clock`, in seconds."""

    def __init__(
        self, clock: Callable[[], float], next_epoch: Callable[[], int], time_to_live_s: float = TIME_TO_LIVE_S
    ) -> None:
        """Create the leases, none of which is granted yet. `next_epoch` returns a larger number each time, also after
        the host was started again."""
        self._clock = clock
        self._next_epoch = next_epoch
        self._time_to_live_s = time_to_live_s
        self._slots: dict[str, _Slot] = {}
        self._lock = Lock()

    def acquire(self, device_id: str, who: str) -> Granted | Queued:
        """Ask for the lease of a device. Raises `DeviceError("leased", ...)` if a person ended this driver's use of the
        device, and whatever `next_epoch` raises; then nothing has changed."""
        with self._lock:
            now, slot = self._clock(), self._slots.setdefault(device_id, _Slot())
            if who in slot.barred:
                raise DeviceError("leased", f"a person at the host ended this sweep's use of {device_id}")
            if slot.who == who:
                slot.until_s = now + self._time_to_live_s
                return Granted(slot.epoch)
            slot.queue = {name: last for name, last in slot.queue.items() if now - last <= _WAITER_S} | {who: now}
            ahead = list(slot.queue).index(who)
            if ahead or slot.running or now < slot.until_s:
                return Queued(slot.who, slot.running, ahead, now - slot.since_s, slot.left_s(now), slot.at_least)
            epoch = self._next_epoch()
            del slot.queue[who]
            slot.who, slot.epoch = who, epoch
            slot.since_s, slot.until_s, slot.left_until_s = now, now + self._time_to_live_s, 0.0
            return Granted(slot.epoch)

    def beat(self, who: str, epochs: Mapping[str, int]) -> frozenset[str]:
        """Renew these leases. Return the ids of the devices whose lease `who` has lost."""
        with self._lock:
            until_s = self._clock() + self._time_to_live_s
            lost = set()
            for device_id, epoch in epochs.items():
                slot = self._slots.get(device_id)
                if slot is None or (slot.who, slot.epoch) != (who, epoch):
                    lost.add(device_id)
                else:
                    slot.until_s = until_s
            return frozenset(lost)

    def release(self, device_id: str, epoch: int) -> bool:
        """End a lease. Return `False` if the device's lease is another one by now."""
        with self._lock:
            slot = self._slots.get(device_id)
            if slot is None or not slot.who or slot.epoch != epoch:
                return False
            _vacate(slot)
            return True

    def free(self, device_id: str) -> str:
        """End the lease for a person: the driver does not get the device again. Return who had it; empty if nobody
        had."""
        with self._lock:
            slot = self._slots.get(device_id)
            if slot is None or not slot.who:
                return ""
            who = slot.who
            slot.barred.add(who)
            _vacate(slot)
            return who

    def begin(self, device_id: str, epoch: int, block: str, left_s: float = 0.0, *, at_least: bool = False) -> None:
        """Note that a block starts. `left_s`: the seconds for which the driver expects to need the device; 0 if it does
        not know. `at_least`: the driver expects to need the device for longer.

        Raises `DeviceError("lease_lost", ...)` if the lease of this epoch has ended or lapsed.
        """
        with self._lock:
            slot = self._slots.get(device_id)
            now = self._clock()
            if slot is None or not slot.who or slot.epoch != epoch or now >= slot.until_s:
                raise lease_lost(device_id, epoch)
            slot.running = block
            if left_s:
                slot.left_until_s, slot.at_least = now + left_s, at_least

    def end(self, device_id: str) -> None:
        """Note that the block has ended, with or without success."""
        with self._lock:
            self._slots[device_id].running = ""

    def overdue(self) -> tuple[str, ...]:
        """Return the devices on which a block runs on although its lease has ended, while another driver waits."""
        with self._lock:
            now = self._clock()
            return tuple(
                device_id
                for device_id, slot in self._slots.items()
                if slot.running
                and now - slot.until_s > PATIENCE_S
                and any(now - last <= _WAITER_S for last in slot.queue.values())
            )

    def is_live(self, device_id: str, epoch: int) -> bool:
        """Tell whether the lease of this epoch is held and was renewed in time."""
        with self._lock:
            slot = self._slots.get(device_id)
            return slot is not None and bool(slot.who) and slot.epoch == epoch and self._clock() < slot.until_s

    def use(self, device_id: str) -> Use | None:
        """Return the use of the device; `None` if nobody has its lease, runs a block on it or waits for it."""
        with self._lock:
            now, slot = self._clock(), self._slots.get(device_id)
            if slot is None:
                return None
            waiting = tuple(name for name, last in slot.queue.items() if now - last <= _WAITER_S)
            if not (slot.who or slot.running or waiting):
                return None
            return Use(
                who=slot.who,
                epoch=slot.epoch,
                running=slot.running,
                lapsed=now >= slot.until_s,
                waiting=waiting,
                left_s=slot.left_s(now),
                at_least=slot.at_least,
            )


def lease_lost(device_id: str, epoch: int) -> DeviceError:
    return DeviceError("lease_lost", f"the lease {epoch} of {device_id} has ended")


def _vacate(slot: _Slot) -> None:
    slot.who, slot.until_s = "", 0.0
