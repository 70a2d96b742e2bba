"""Shared by the parts of one device's run."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from sweeps.journal.journal import Journal
from sweeps.planning.plan import Plan
from sweeps.protocol.presets import Protocol
from workers.driver.events import Event, Measuring
from workers.driver.health import Health
from workers.driver.outcomes import Outcomes
from workers.driver.schedule import Schedule
from workers.models.prepared import PreparedModel


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """Shared by a device's run and the rest of the driver."""

    plan: Plan
    protocol: Protocol
    """Of this device."""
    journal: Journal
    outcomes: Outcomes
    prepared: Mapping[str, PreparedModel]
    """By the model's name."""
    session: int
    earlier: int
    """The session of the run before this one; 0 if there was none."""
    publish: Callable[[], Iterator[Event]]
    stop: Callable[[], bool]
    more: Mapping[str, int]
    """Rounds to add to these jobs, by key, instead of what is pending."""
    batches_decide: Mapping[str, float]
    """By id, the devices that were shown to allow it: in races that begin there, batches decide. With the spread of
    blocks in processes of their own on that device, as the standard deviation of logarithms."""
    health: Health
    schedule: Schedule


@dataclass(slots=True)
class DeviceProgress:
    """Counts the finished blocks and accuracy passes of one device, and tells them by one total that does not change.

    A race adds rounds to what was expected at first, and takes variants out of it. So what is told is the first total,
    less what is left: a variant that races on for longer is the last one that is missing until it is decided.
    """

    device: str
    done: int = 0
    _total: int = 0
    _told: int = 0

    def measuring(self, total: int, running: str, job: str = "") -> Measuring:
        """`total`: of `done` and all that is known to be left."""
        left = max(0, total - self.done)
        self._total = self._total or left
        self._told = max(self._told, self._total - left)
        return self.beside(running, job)

    def beside(self, running: str, job: str = "") -> Measuring:
        """Of work that does not count. `job`: its key, where `running` has its name."""
        return Measuring(self.device, self._told, self._total, running, job)
