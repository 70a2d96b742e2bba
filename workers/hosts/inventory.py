"""The devices of this host: noticed as they come and go, and asked for their facts once each time they come; those
without a runner again, which somebody may build meanwhile."""

from collections.abc import Callable, Mapping, Sequence
from threading import Condition

from sweeps.device_facts import DeviceFacts
from sweeps.errors import DeviceError, in_one_line

_AGAIN_S = 10.0
"""A device that could not be used is asked again after this time: a person may have unlocked it."""
_RUNNER_S = 30.0
"""The time after which a device without a runner is asked again; nobody measures on it."""


class Inventory:
    """Devices by id, with a counter of changes. `refresh` is called regularly, from one thread. One class, since what
    is attached, looked at, refused and kept out changes together, under one lock."""

    def __init__(
        self,
        listed: Callable[[], tuple[Sequence[str], Mapping[str, DeviceError]]],
        look: Callable[[str], DeviceFacts],
        clock: Callable[[], float],
        always: Sequence[str] = (),
        apart: Callable[[Callable[[], None]], object] = lambda call: call(),
        kept_out: Callable[[DeviceFacts], DeviceError | None] = lambda _: None,
    ) -> None:
        """`always`: names of devices that are there whatever `listed` says. `listed`: the names of devices that are
        attached now, and by transport why it cannot list its own; it must not disturb them. `look`: the facts of one,
        which may take long; not called for a device that is known to have a runner, and for one at a time. It may
        raise `DeviceError`. `apart`: makes a call that may take long. `kept_out`: the reason why nobody is to have an
        attached device."""
        self._listed = listed
        self._look = look
        self._clock = clock
        self._always = tuple(always)
        self._spawn = apart
        self._kept_out = kept_out
        self._waiting: list[str] = []
        """Names of devices: the first one is looked at, the others are next."""
        self._changed = Condition()
        self._change = 0
        self._facts: dict[str, DeviceFacts] = {}
        """The facts of devices, by the name under which each is attached; a device with two connections is here
        twice."""
        self._looked_s: dict[str, float] = {}
        """The time at which each of those devices was looked at last, by name."""
        self._refused: dict[str, tuple[DeviceError, float]] = {}
        """The errors of devices that were refused, with the time of the last look, by name."""
        self._present: set[str] = set()
        """Names that the last look had: a device may go while it is asked for its facts."""
        self._troubles: dict[str, DeviceError] = {}
        """The reasons why this host cannot list the devices of a transport, by transport."""
        self._out: set[str] = set()
        """Ids of devices that the last look kept out."""

    @property
    def change(self) -> int:
        with self._changed:
            return self._change

    def devices(self) -> tuple[DeviceFacts, ...]:
        """The devices, each once, without those that are kept out."""
        return tuple(facts for facts in self._attached() if self._kept_out(facts) is None)

    def kept_out(self, device_id: str) -> DeviceError | None:
        """The reason why nobody is to have this device, if it is attached and kept out."""
        matching = (facts for facts in self._attached() if facts.device_id == device_id)
        return next(map(self._kept_out, matching), None)

    def refused(self) -> tuple[DeviceError, ...]:
        """Devices that cannot be used or are kept out; before them, the reasons why the host cannot list those of a
        transport."""
        out = [why for facts in self._attached() if (why := self._kept_out(facts)) is not None]
        with self._changed:
            return (*self._troubles.values(), *(error for error, _ in self._refused.values()), *out)

    def refresh(self) -> None:
        """Look for devices that came or went, also into quarantine. If the host cannot list those of a transport, its
        known ones stay."""
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
        """Wait until no device is looked at, at most so long."""
        with self._changed:
            self._changed.wait_for(lambda: not self._waiting, timeout_s)

    def watch(self, change: int, timeout_s: float) -> bool:
        """Wait until the counter is not `change`. Returns `False` if it still is after `timeout_s`."""
        with self._changed:
            return self._changed.wait_for(lambda: self._change != change, timeout_s)

    def _attached(self) -> tuple[DeviceFacts, ...]:
        """The attached devices, each once."""
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
            if name in self._facts:  # the device was asked again, and is attached as before
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
