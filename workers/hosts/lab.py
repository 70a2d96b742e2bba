"""A lab as one driver sees it: the hosts, the host of each device, and the leases that the driver holds."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from weakref import WeakKeyDictionary

from sweeps.device_facts import DeviceFacts
from sweeps.errors import DeviceError
from sweeps.spec import lab_names
from workers.hosts.away import LOST, away
from workers.hosts.head import Head, NamedHost
from workers.hosts.host_choice import HostEntry, chosen, used_at, waits_for
from workers.hosts.interface import BEAT_S, Beat, Hello, Hint, Host, Queued, Versions

_JOIN_S = 15.0  # the time exceeds the longest call that a follower waits for


class Lab:
    """The hosts of a lab. Until `close`, a separate thread follows each host and renews the leases there. It is one
    class, since hosts, their reports and the leases on their devices change together, under one lock."""

    def __init__(
        self,
        find: Callable[[], Sequence[NamedHost]],
        who: str,
        versions: Versions,
        clock: Callable[[], float],
        tell: Callable[[str], object] = lambda _: None,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Look for hosts, and follow them. `find` returns the hosts that have joined; it is called whenever no known
        host has a device. `who`: identifies this driver for people and for hosts. `clock` returns seconds and is never
        set. `tell` gets a message for each host that cannot be used, or whose clock is wrong. `now` returns seconds
        since 1970."""
        self._head = Head(find, clock)
        self.who = who
        self._versions = versions
        self._clock = clock
        self._tell = tell
        self._now = now
        self._messages: set[str] = set()
        self._known: dict[str, HostEntry] = {}
        self._last_host: dict[str, str] = {}  # the name of the host that had the device last, by device id
        self._places: WeakKeyDictionary[Host, tuple[str, str]] = WeakKeyDictionary()
        """The name and machine of each start of a host, while that start is referenced anywhere."""
        self._mute: dict[str, DeviceError] = {}
        self._lock = threading.RLock()
        self._looking = threading.Lock()
        self._followers: list[threading.Thread] = []
        self._closed = threading.Event()
        self._looked_s = -BEAT_S
        self.look()

    def look(self) -> None:
        """Look for hosts that joined or left. Raises `DeviceError("head_away", ...)` if the head does not answer."""
        asked_s = self._clock()
        with self._looking:
            self._look(dict(self._head.ask(asked_s)))

    def _look(self, joined: dict[str, Host]) -> None:
        with self._lock:
            self._looked_s = self._clock()
            for key in self._known.keys() - joined.keys():
                del self._known[key]
            new = {key: host for key, host in joined.items() if key not in self._known}
            self._mute.clear()
        if not new:
            return
        with ThreadPoolExecutor(len(new)) as pool:
            for key, hello in zip(new, pool.map(_hello, new.values()), strict=True):
                if isinstance(hello, Hello):
                    self._add(key, new[key], hello)
                else:
                    self._mute[key] = hello

    def hellos(self) -> tuple[tuple[Hello, bool], ...]:
        """Return the last report of each host, and whether the host answers now, ordered by name."""
        with self._lock:
            hosts = sorted(self._known.values(), key=lambda known: known.place)
            return tuple((known.hello, not known.is_silent(self._clock())) for known in hosts)

    def mute(self) -> tuple[DeviceError, ...]:
        """Return the reasons why hosts that have joined, and that this driver has never heard, did not answer the last
        time."""
        return tuple(self._mute.values())

    def select(self, name: str) -> Iterator[DeviceFacts | DeviceError]:
        """Yield the devices that a sweep file names `name`, under their names in the lab; errors for those that cannot
        be used. Nothing if there is none."""
        names: dict[str, str] = {}
        with self._lock:
            usable = [known.hello for known in self._known.values() if not known.wrong]
        for hello in sorted(usable, key=lambda hello: (hello.name, hello.machine)):
            for facts in map(hello.named, (device.facts for device in hello.devices)):
                if not lab_names.matches(name, facts, hello.tags):
                    continue
                if (first := names.get(facts.device_id)) is not None:
                    self._tell_once(
                        f"{facts.name} and {first} both call themselves {facts.device_id}: measured as {first}"
                    )
                    continue
                names[facts.device_id] = facts.name
                yield facts

    def where(self, device_id: str, last_host: str | None = None, *, or_last: bool = False) -> Host:
        """Return the host that has the device now; with `or_last`, the host that had it last, if that host answers.

        `last_host`: the name of the host that had the device before this driver looked. Raises `DeviceError`:
        `head_away`, even if the host answers; `host_away`, also if the host that had the device has left the lab;
        `offline` if that host answers and no longer has the device; `quarantined` if a person quarantined the device
        there.
        """
        for may_repeat in (True, False):
            with self._lock:
                candidates = [known for known in self._known.values() if known.has(device_id)]
                host = chosen(candidates, device_id, self._clock())
                may_look = self._clock() - self._looked_s >= BEAT_S
            if host is not None:
                self._head.check()
                return host
            if may_repeat and may_look:
                self.look()
        if candidates:
            raise away(candidates[0].hello.name, LOST)
        with self._lock:
            name = self._last_host.get(device_id, last_host)
            hosts = [
                known
                for known in self._known.values()
                if known.hello.name == name and not known.is_silent(self._clock())
            ]
        if name is not None and not hosts:
            raise away(name, "it is not in the lab now")
        if hosts and hosts[0].wrong:
            raise away(hosts[0].hello.name, f"it is not used: it has {hosts[0].wrong}")
        if hosts and (or_last or self._is_there(hosts[0], device_id)):
            return hosts[0].host
        raise DeviceError(
            "offline", f"no host of the lab has {device_id} now", "plug it in again; edgesweep hosts lists all devices"
        )

    def _is_there(self, known: HostEntry, device_id: str) -> bool:
        """Tell whether a host has a device that it no longer reports. Raises `DeviceError("quarantined", ...)` if a
        person quarantined the device there."""
        if all(error.kind != "quarantined" for error in known.hello.refused):
            return False
        known.host.acquire(device_id, self.who)
        return True

    def present(self, host: Host) -> Host:
        """Return the last start of this host. Raises `DeviceError("host_away", ...)` if it is not in the lab, or
        silent."""
        place = self._places[host]
        with self._lock:
            for known in self._known.values():
                if known.place == place and not known.is_silent(self._clock()):
                    return known.host
        raise away(place[0], LOST)

    def facts(self, host: Host, device_id: str) -> DeviceFacts | None:
        """Return the facts of the device, as the host last reported them; `None` if the host does not have it now."""
        with self._lock:
            hello = self._entry_of(host).hello
        return next(
            (hello.named(device.facts) for device in hello.devices if device.facts.device_id == device_id), None
        )

    def lease(self, host: Host, device_id: str) -> int:
        """Return the epoch of the lease under which this driver has the device, after asking for the lease if
        necessary. Raises `DeviceError`, also of `QUEUED_KIND`."""
        known = self._entry_of(host)
        with self._lock:
            held = known.epochs.get(device_id)
            if held is not None:
                return held
            now_s = self._clock()
            candidates = [other for other in self._known.values() if other is not known and other.has(device_id)]
            rivals = [other for other in candidates if not other.is_silent(now_s)]
        for other in rivals:
            if used := used_at(other, device_id, self.who):
                raise DeviceError("queued", used)
        answer = host.acquire(device_id, self.who)
        if isinstance(answer, Queued):
            raise DeviceError("queued", waits_for(answer, device_id))
        with self._lock:
            known.epochs[device_id] = answer.epoch
        return answer.epoch

    def lose(self, host: Host, device_id: str) -> None:
        """Delete a lease that has ended."""
        with self._lock:
            self._entry_of(host).epochs.pop(device_id, None)

    def hand_back(self, device_id: str) -> None:
        """Release the device at every host where this driver has its lease. A host that does not answer lets the lease
        lapse."""
        with self._lock:
            holding = [
                (known, known.epochs.pop(device_id)) for known in self._known.values() if device_id in known.epochs
            ]
        for known, epoch in holding:
            with suppress(DeviceError):
                known.host.release(device_id, epoch)

    def hint(self, device_id: str, text: str) -> None:
        """Tell the hosts that have the device, or had it last, that this user's sweeps leave it alone; with an empty
        text, that they no longer do. A host that does not answer shows nothing."""
        with self._lock:
            last = self._last_host.get(device_id)
            usable = [known for known in self._known.values() if not (known.wrong or known.is_silent(self._clock()))]
            hosts = [known.host for known in usable if known.has(device_id) or known.hello.name == last]
        for host in hosts:
            with suppress(DeviceError):
                host.hint(Hint(device_id=device_id, user=self.who.partition(" ")[0], text=text))

    def free(self, name: str) -> str:
        """End the use of the device that `select` names `name`, for a person. Return who had it; empty if nobody had.

        Raises `DeviceError`: `unknown_device`, `host_away`.
        """
        with self._lock:
            hosts = [
                (known.host, device.facts.device_id)
                for known in self._known.values()
                for device in known.hello.devices
                if known.hello.named(device.facts).name == name
            ]
        if not hosts:
            raise DeviceError("unknown_device", f"no host of the lab has {name}", "edgesweep hosts lists all devices")
        return "".join(host.free(device_id) for host, device_id in hosts)

    def close(self) -> None:
        self._closed.set()
        with self._lock:
            held = {device_id for known in self._known.values() for device_id in known.epochs}
        for device_id in held:
            self.hand_back(device_id)
        for follower in self._followers:
            # Ray ends a process that makes a call after it has disconnected.
            follower.join(_JOIN_S)

    def _add(self, key: str, host: Host, hello: Hello) -> None:
        if wrong := hello.versions.difference(self._versions):
            self._tell(f"the host {hello.name} is not used: it has {wrong}; update it, or this computer")
        if trouble := hello.clock_trouble(self._now()):
            self._tell(f"the host {hello.name}: {trouble}")
        with self._lock:
            # A host that was started again replaces its last start.
            for other_key, previous in list(self._known.items()):
                if previous.place == (hello.name, hello.machine):
                    if previous.hello.boot > hello.boot:
                        return
                    del self._known[other_key]
            known = self._known[key] = HostEntry(host, hello, self._clock(), wrong)
            self._places[host] = known.place
            self._remember(known)
        follower = threading.Thread(target=self._follow, args=(key,), name=f"follow {hello.name}", daemon=True)
        follower.start()
        self._followers = [*(thread for thread in self._followers if thread.is_alive()), follower]

    def _follow(self, key: str) -> None:
        """Send a beat to the host every `BEAT_S`, until the host leaves the lab or the lab is closed."""
        while not self._closed.is_set():
            with self._lock:
                known = self._known.get(key)
                if known is None:
                    return
                epochs, change = dict(known.epochs), known.hello.change
            try:
                if known.wrong:
                    # A host of another version may not know the call `beat`.
                    self._closed.wait(BEAT_S)
                    beat = Beat(frozenset(), known.host.hello())
                else:
                    beat = known.host.beat(self.who, epochs, change, BEAT_S)
            except Exception:  # noqa: BLE001  # whatever a host answers: it is heard again, or counts as silent
                self._closed.wait(BEAT_S / 2)
                continue
            with self._lock:
                known.heard_s = self._clock()
                for device_id in beat.lost:
                    if known.epochs.get(device_id) == epochs[device_id]:
                        del known.epochs[device_id]
                if beat.hello:
                    known.hello = beat.hello
                    self._remember(known)

    def _tell_once(self, message: str) -> None:
        if message not in self._messages:
            self._messages.add(message)
            self._tell(message)

    def _remember(self, known: HostEntry) -> None:
        self._last_host |= {device.facts.device_id: known.hello.name for device in known.hello.devices}
        now_s = self._clock()
        known.meet(other for other in self._known.values() if other is not known and not other.is_silent(now_s))

    def _entry_of(self, host: Host) -> HostEntry:
        """Return the entry of a host. Raises `DeviceError("host_away", ...)` if the host is no longer in the lab."""
        with self._lock:
            for known in self._known.values():
                if known.host is host:
                    return known
        raise DeviceError("host_away", "the host was started again")


def _hello(host: Host) -> Hello | DeviceError:
    try:
        return host.hello()
    except DeviceError as error:
        return error
