"""The devices of this host: noticed as they come and go. Each is asked for its facts once when it comes; a device
without a runner is asked again, because somebody may build one meanwhile."""

from collections.abc import Callable, Mapping, Sequence
from threading import Condition

from sweeps.device_facts import DeviceFacts
from sweeps.errors import DeviceError, in_one_line

_AGAIN_S = 10.0
"""The time after which a device that could not be used is asked again: a person may have unlocked it."""
_RUNNER_S = 30.0
"""The time after which a device without a runner is asked again; nobody measures on it."""


class Inventory:
    """The devices by id, with a counter of changes. `refresh` is called regularly, from one thread. It is one class,
    since the attached devices, the one being asked, and the refused and quarantined ones change together, under one
    lock."""

    def __init__(
        self,
        listed: Callable[[], tuple[Sequence[str], Mapping[str, DeviceError]]],
        look: Callable[[str], DeviceFacts],
        clock: Callable[[], float],
        always: Sequence[str] = (),
        spawn: Callable[[Callable[[], None]], object] = lambda call: call(),
        kept_out: Callable[[DeviceFacts], DeviceError | None] = lambda _: None,
    ) -> None:
        """Create an empty inventory. `always`: names of devices that exist whatever `listed` returns. `listed` returns
        the names of the devices that are attached now, and by transport the reason why it cannot list that transport's
        devices; it must not disturb the devices. `look` returns the facts of one device, which may take long; it is not
        called for a device that is known to have a runner, and for one device at a time. It may raise `DeviceError`.
        `spawn` makes a call that may take long. `kept_out` returns the reason why nobody may use an attached device."""
        self._listed = listed
        self._look = look
        self._clock = clock
        self._always = tuple(always)
        self._spawn = spawn
        self._kept_out = kept_out
        self._waiting: list[str] = []
        """The names of devices to ask for their facts: the first one is being asked."""
        self._changed = Condition()
        self._change = 0
        self._facts: dict[str, DeviceFacts] = {}
        """The facts of devices, by the name under which each is attached; a device with two connections is here
        twice."""
        self._looked_s: dict[str, float] = {}
        """The time at which each of these devices was asked last, by name."""
        self._refused: dict[str, tuple[DeviceError, float]] = {}
        """The errors of devices that were refused, with the time at which each was asked last, by name."""
        self._present: set[str] = set()
        """The names that the last `refresh` found: a device may go while it is asked for its facts."""
        self._troubles: dict[str, DeviceError] = {}
        """The reasons why this host cannot list the devices of a transport, by transport."""
        self._out: set[str] = set()
        """The ids of devices that were quarantined at the last `refresh`."""

    @property
    def change(self) -> int:
        with self._changed:
            return self._change

    def devices(self) -> tuple[DeviceFacts, ...]:
        """Return the devices, each once, without quarantined ones."""
        return tuple(facts for facts in self._attached() if self._kept_out(facts) is None)

    def kept_out(self, device_id: str) -> DeviceError | None:
        """Return the reason why nobody may use this device, if it is attached and quarantined."""
        matching = (facts for facts in self._attached() if facts.device_id == device_id)
        return next(map(self._kept_out, matching), None)

    def refused(self) -> tuple[DeviceError, ...]:
        """Return the errors of devices that cannot be used or are quarantined; before them, the reasons why the host
        cannot list the devices of a transport."""
        out = [why for facts in self._attached() if (why := self._kept_out(facts)) is not None]
        with self._changed:
            return (*self._troubles.values(), *(error for error, _ in self._refused.values()), *out)

    def refresh(self) -> None:
        """Look for devices that came or went, or whose quarantine began or ended. If the host cannot list the devices
        of a transport, the known ones stay."""
        attached, troubles = self._listed()
        self._set_troubles(troubles)
        stay = (name for name in self._facts if name.partition(":")[0] in troubles)
        names = list(dict.fromkeys((*self._always, *attached, *stay)))
        self._drop(set(names))
        self._set_out({facts.device_id for facts in self._attached() if self._kept_out(facts) is not None})
        new = [name for name in names if self._is_new(name)]
        with self._changed:
            begin = bool(new) and not self._waiting
            self._waiting += new
        if begin:
            self._spawn(self._look_at_each)

    def wait(self, timeout_s: float) -> None:
        """Wait until no device is being asked for its facts, at most for `timeout_s`."""
        with self._changed:
            self._changed.wait_for(lambda: not self._waiting, timeout_s)

    def watch(self, change: int, timeout_s: float) -> bool:
        """Wait until the counter differs from `change`. Return `False` if it still is the same after `timeout_s`."""
        with self._changed:
            return self._changed.wait_for(lambda: self._change != change, timeout_s)

    def _attached(self) -> tuple[DeviceFacts, ...]:
        """Return the attached devices, each once."""
        with self._changed:
            return tuple({facts.device_id: facts for facts in reversed(self._facts.values())}.values())[::-1]

    def _is_new(self, name: str) -> bool:
        with self._changed:
            if name in self._waiting:
                return False
            if (facts := self._facts.get(name)) is not None:
                return (
                    not (facts.runtime_versions or facts.runners) and self._clock() - self._looked_s[name] >= _RUNNER_S
                )
            refused = self._refused.get(name)
            return refused is None or self._clock() - refused[1] >= _AGAIN_S

    def _look_at_each(self) -> None:
        more = True
        while more:
            name = self._waiting[0]
            try:
                facts = self._look(name)
            except Exception as error:  # noqa: BLE001  # one device must not hide the others
                self._refuse(name, error)
            else:
                self._add(name, facts)
            finally:
                with self._changed:
                    del self._waiting[0]
                    more = bool(self._waiting)
                    self._changed.notify_all()

    def _set_troubles(self, troubles: Mapping[str, DeviceError]) -> None:
        with self._changed:
            if [*map(str, troubles.values())] != [*map(str, self._troubles.values())]:
                self._count()
            self._troubles = dict(troubles)

    def _set_out(self, out: set[str]) -> None:
        with self._changed:
            if out != self._out:
                self._out = out
                self._count()

    def _drop(self, present: set[str]) -> None:
        with self._changed:
            self._present = present
            absent = (self._facts.keys() | self._refused.keys()) - present
            for name in absent:
                self._facts.pop(name, None)
                self._refused.pop(name, None)
            if absent:
                self._count()

    def _refuse(self, name: str, error: Exception) -> None:
        device_error = (
            error if isinstance(error, DeviceError) else DeviceError("worker_error", f"{name}: {in_one_line(error)}")
        )
        with self._changed:
            if name not in self._present:
                return
            if name in self._facts:  # only asking again failed: the device stays attached
                self._looked_s[name] = self._clock()
                return
            before = self._refused.get(name)
            self._refused[name] = device_error, self._clock()
            if before is None or str(before[0]) != str(device_error):
                self._count()

    def _add(self, name: str, facts: DeviceFacts) -> None:
        with self._changed:
            if name not in self._present:
                return
            self._refused.pop(name, None)
            before, self._facts[name], self._looked_s[name] = self._facts.get(name), facts, self._clock()
            if facts != before:
                self._count()

    def _count(self) -> None:
        self._change += 1
        self._changed.notify_all()
