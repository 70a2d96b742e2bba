"""The devices of this host: noticed as they come and go, and asked for their facts once each time they come."""

from collections.abc import Callable, Sequence
from threading import Condition

from sweeps.device_facts import DeviceFacts
from sweeps.errors import DeviceError, in_one_line

_AGAIN_S = 10.0
"""A device that could not be used is asked again after this time: a person may have unlocked it."""


class Inventory:
    """Devices by id, with a counter of changes. `refresh` is called regularly, from one thread."""

    def __init__(
        self,
        listed: Callable[[], Sequence[str]],
        look: Callable[[str], DeviceFacts],
        clock: Callable[[], float],
        always: Sequence[str] = (),
        apart: Callable[[Callable[[], None]], object] = lambda call: call(),
    ) -> None:
        """`always`: names of devices that are there whatever `listed` says. `listed`: the names of devices that are
        attached now; it must not disturb them. `look`: the facts of one, which may take long; not called for a device
        that is known, and for one at a time. Both may raise `DeviceError`.
        `apart`: makes a call that may take long."""
        self._listed = listed
        self._look = look
        self._clock = clock
        self._always = tuple(always)
        self._apart = apart
        self._waiting: list[str] = []
        """Names of devices: the first one is looked at, the others are next."""
        self._changed = Condition()
        self._change = 0
        self._found: dict[str, DeviceFacts] = {}
        """By the name under which it is attached; a device with two connections is here twice."""
        self._refused: dict[str, tuple[DeviceError, float]] = {}
        """By name, with the time of the last look."""
        self._present: set[str] = set()
        """Names that the last look had: one may go while it is asked what it is."""
        self._trouble: DeviceError | None = None

    @property
    def change(self) -> int:
        with self._changed:
            return self._change

    def devices(self) -> tuple[DeviceFacts, ...]:
        """Each device once."""
        with self._changed:
            return tuple({facts.device_id: facts for facts in reversed(self._found.values())}.values())[::-1]

    def refused(self) -> tuple[DeviceError, ...]:
        """Devices that cannot be used; and first, why the host cannot list its devices."""
        with self._changed:
            trouble = () if self._trouble is None else (self._trouble,)
            return (*trouble, *(error for error, _ in self._refused.values()))

    def refresh(self) -> None:
        """Look for devices that came or went. If the host cannot list them, those that are known stay."""
        try:
            names = list(dict.fromkeys((*self._always, *self._listed())))
        except DeviceError as error:
            self._set_trouble(error)
            names = list(dict.fromkeys((*self._always, *self._found)))
        else:
            self._set_trouble(None)
        self._drop(set(names))
        new = [name for name in names if self._is_new(name)]
        with self._changed:
            begin = bool(new) and not self._waiting
            self._waiting += new
        if begin:
            self._apart(self._look_at_each)

    def wait(self, timeout_s: float) -> None:
        """Until no device is looked at, at most so long."""
        with self._changed:
            self._changed.wait_for(lambda: not self._waiting, timeout_s)

    def watch(self, change: int, timeout_s: float) -> bool:
        """Wait until the counter is not `change`. Returns `False` if it still is after `timeout_s`."""
        with self._changed:
            return self._changed.wait_for(lambda: self._change != change, timeout_s)

    def _is_new(self, name: str) -> bool:
        with self._changed:
            if name in self._found or name in self._waiting:
                return False
            tried = self._refused.get(name)
            return tried is None or self._clock() - tried[1] >= _AGAIN_S

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

    def _set_trouble(self, error: DeviceError | None) -> None:
        with self._changed:
            if str(error) != str(self._trouble):
                self._trouble = error
                self._count()

    def _drop(self, present: set[str]) -> None:
        with self._changed:
            self._present = present
            gone = (self._found.keys() | self._refused.keys()) - present
            for name in gone:
                self._found.pop(name, None)
                self._refused.pop(name, None)
            if gone:
                self._count()

    def _refuse(self, name: str, error: Exception) -> None:
        told = error if isinstance(error, DeviceError) else DeviceError("worker_error", f"{name}: {in_one_line(error)}")
        with self._changed:
            if name not in self._present:
                return
            before = self._refused.get(name)
            self._refused[name] = told, self._clock()
            if before is None or str(before[0]) != str(told):
                self._count()

    def _add(self, name: str, facts: DeviceFacts) -> None:
        with self._changed:
            if name not in self._present:
                return
            self._refused.pop(name, None)
            self._found[name] = facts
            self._count()

    def _count(self) -> None:
        self._change += 1
        self._changed.notify_all()
