"""The data that the parts of one device's run share."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from sweeps.journal.journal import Journal
from sweeps.planning.plan import Plan
from sweeps.protocol.presets import Protocol
from workers.driver.driver_events import Event, Measuring
from workers.driver.health import Health
from workers.driver.plan_outcomes import Outcomes
from workers.driver.schedule import Schedule
from workers.models.prepared_model import PreparedModel


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """The data that a device's run shares with the rest of the driver."""

    plan: Plan
    protocol: Protocol
    """The protocol of this device."""
    journal: Journal
    outcomes: Outcomes
    prepared: Mapping[str, PreparedModel]
    """Prepared models by name."""
    session: int
    earlier: int
    """The session of the run before this one; 0 if there was none."""
    publish: Callable[[], Iterator[Event]]
    stop: Callable[[], bool]
    more: Mapping[str, int]
    """The number of rounds to add to jobs, by job key, instead of measuring the pending jobs."""
    batches_decide: Mapping[str, float]
    """The spread of blocks that run in separate processes, as the standard deviation of the logarithms of their times,
    by device id. It has the devices on which batches decide in races that begin now."""
    health: Health
    schedule: Schedule


@dataclass(slots=True)
class DeviceProgress:
    """A counter of the finished blocks and accuracy passes of one device, reported against a total that does not
    change.

    A race adds rounds to those expected at first, and drops variants. So the number that is reported as done is the
    first total minus the work that is left: it stays one short of the total while a variant races on.
    """

    device: str
    done: int = 0
    _total: int = 0
    _reported: int = 0

    def measuring(self, total: int, running: str, job: str = "") -> Measuring:
        """Return the progress of work that counts. `total`: `done` plus all work that is known to be left."""
        left = max(0, total - self.done)
        self._total = self._total or left
        self._reported = max(self._reported, self._total - left)
        return self.beside(running, job)

    def beside(self, running: str, job: str = "") -> Measuring:
        """Return the progress while a device does work that does not count. `job`: the key of the job that `running`
        names."""
        return Measuring(self.device, self._reported, self._total, running, job)
