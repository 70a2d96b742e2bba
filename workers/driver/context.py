"""Shared by the parts of one device's run."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from sweeps.journal.journal import Journal
from sweeps.planning.plan import Plan
from sweeps.protocol.presets import Protocol
from workers.driver.events import Event, Measuring
from workers.driver.outcomes import Outcomes
from workers.models.prepared import PreparedModel


@dataclass(frozen=True, slots=True)
class AwayWait:
    """How a device that goes away is waited for: a slipped cable, a phone that restarts."""

    limit_s: float
    poll_s: float


AWAY_WAIT = AwayWait(limit_s=60.0, poll_s=2.0)
AWAY_WAIT_IN_LAB = AwayWait(limit_s=180.0, poll_s=2.0)
"""A network may be cut for a minute, and a host may have to start again."""


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
    publish: Callable[[], Iterator[Event]]
    stop: Callable[[], bool]
    more: Mapping[str, int]
    """Rounds to add to these jobs, by key, instead of what is pending."""
    away_wait: AwayWait


@dataclass(slots=True)
class DeviceProgress:
    """Counts the finished blocks and accuracy passes of one device."""

    device: str
    done: int = 0

    def measuring(self, total: int, running: str) -> Measuring:
        return Measuring(self.device, self.done, total, running)
