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
    """The numbers of blocks and accuracy passes of one device: those that need not be made any more, the total, which
    does not change (0 before it is known), and the name of the running one (empty at the end)."""

    device: str
    done: int
    total: int
    running: str
    job: str = ""
    """Key of the job whose name is in `running`; empty without one."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A device is not ready for its next block, with the reasons and the waiting time."""

    device: str
    lacking: tuple[str, ...]
    waited_seconds: float
    is_host: bool = False
    """Tells whether `device` is a host, in words, for which all of its devices wait."""


@dataclass(frozen=True, slots=True)
class Back:
    """A device answers again whose host was away."""

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
    """Number of jobs that wait for the device."""
    is_host: bool = False
    """Tells whether `device` is a host, as in `Waiting`."""


@dataclass(frozen=True, slots=True)
class Recovering:
    """One step was taken to bring a device back; `refused` is the reason if it was not."""

    device: str
    rung: Rung
    refused: str


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A device had too many faults of its own. From now on it needs a canary."""

    device: str
    quarantine: Quarantine


@dataclass(frozen=True, slots=True)
class Readmitted:
    """The canary job of a quarantined device succeeded: its other jobs follow."""

    device: str
    quarantine: Quarantine


@dataclass(frozen=True, slots=True)
class AttemptFailed:
    """One attempt failed; `final` tells that there is no other attempt."""

    name: str
    failed: Failed
    final: bool


@dataclass(frozen=True, slots=True)
class MeasuredAlone:
    """The named jobs cannot be measured in a process with others. They are measured in processes of their own."""

    names: tuple[str, ...]
    failed: Failed


@dataclass(frozen=True, slots=True)
class Published:
    """The number of jobs that are in MLflow now, of those that were not before, after the last measurement."""

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
