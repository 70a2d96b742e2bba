"""The events of a driver. Each is stored in the journal before it is yielded."""

from dataclasses import dataclass

from sweeps.quarantine import Quarantine
from sweeps.records import Failed
from sweeps.settled import Settled
from workers.devices.interface import Rung


@dataclass(frozen=True, slots=True)
class Preparing:
    """A model's weights or reference outputs are being prepared."""

    model: str


@dataclass(frozen=True, slots=True)
class Building:
    """The number of finished artifacts, and those being built now."""

    done: int
    total: int
    running: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Measuring:
    """The progress of one device in blocks and accuracy passes: how many need not be done any more, the total, which
    does not change (0 before it is known), and the name of the running one (empty at the end)."""

    device: str
    done: int
    total: int
    running: str
    job: str = ""
    """The key of the job that `running` names; empty if it names none."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A device is not ready for its next block. Has the conditions that are not met and the time waited so far."""

    device: str
    lacking: tuple[str, ...]
    waited_seconds: float
    is_host: bool = False
    """Tells whether `device` names a host, for which all of its devices wait."""


@dataclass(frozen=True, slots=True)
class Back:
    """A device answers again after its host was away."""

    device: str
    host: str
    away_seconds: float


@dataclass(frozen=True, slots=True)
class Left:
    """A job's rounds have ended, while other jobs may continue."""

    name: str
    settled: Settled


@dataclass(frozen=True, slots=True)
class DeviceChanged:
    """The sentinel shows a speed of the device that it did not have before."""

    device: str


@dataclass(frozen=True, slots=True)
class Away:
    """A device, or the connection to it, is lost for the rest of this run. Its jobs stay pending."""

    device: str
    failed: Failed
    pending: int
    """The number of jobs that wait for the device."""
    is_host: bool = False
    """Tells whether `device` is a host, as in `Waiting`."""


@dataclass(frozen=True, slots=True)
class Recovering:
    """One recovery step was tried; `refused` has the reason if the step was not taken, else it is empty."""

    device: str
    rung: Rung
    refused: str


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A device had too many faults that were its own, not its host's. From now on it is measured only after a
    canary."""

    device: str
    quarantine: Quarantine


@dataclass(frozen=True, slots=True)
class Readmitted:
    """The canary of a quarantined device succeeded: the device's other jobs follow."""

    device: str
    quarantine: Quarantine


@dataclass(frozen=True, slots=True)
class AttemptFailed:
    """One attempt failed; `final` tells whether no other attempt follows."""

    name: str
    failed: Failed
    final: bool


@dataclass(frozen=True, slots=True)
class MeasuredAlone:
    """The named jobs cannot be measured in one process with others, and are measured in separate processes."""

    names: tuple[str, ...]
    failed: Failed


@dataclass(frozen=True, slots=True)
class Published:
    """Jobs were published after the last measurement: `done` of the `total` jobs that were not in MLflow before are
    there now."""

    done: int
    total: int


@dataclass(frozen=True, slots=True)
class TrackingDown:
    """MLflow does not answer. Nothing is lost: results are published from the journal later."""

    message: str


Event = (
    Preparing
    | Building
    | Measuring
    | Waiting
    | Back
    | Left
    | DeviceChanged
    | Away
    | Recovering
    | Quarantined
    | Readmitted
    | AttemptFailed
    | MeasuredAlone
    | Published
    | TrackingDown
)
