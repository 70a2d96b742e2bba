"""What a driver tells of while it works. Everything is in the journal before its event is yielded."""

from dataclasses import dataclass

from sweeps.records import Failed, Settled


@dataclass(frozen=True, slots=True)
class Preparing:
    """A model's weights or reference answers are being made ready."""

    model: str


@dataclass(frozen=True, slots=True)
class Building:
    """Artifacts: how many are done, and which are being built now."""

    done: int
    total: int
    running: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Measuring:
    """Blocks and accuracy passes of one device: how many are done, of how many as far as it is known now, and what
    runs (empty at the end)."""

    device: str
    done: int
    total: int
    running: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """A device is not ready for its next block: why, and for how long it was waited for."""

    device: str
    lacking: tuple[str, ...]
    waited_seconds: float


@dataclass(frozen=True, slots=True)
class Left:
    """A job's rounds ended before all others'."""

    name: str
    settled: Settled


@dataclass(frozen=True, slots=True)
class DeviceChanged:
    """The sentinel shows that a device is not what it was at the start of the run."""

    device: str


@dataclass(frozen=True, slots=True)
class Away:
    """A device, or the way to it, is gone: nothing more of it in this run. Its jobs stay pending."""

    device: str
    failed: Failed
    pending: int
    """Jobs that wait for it now."""


@dataclass(frozen=True, slots=True)
class AttemptFailed:
    """One try went wrong; `final` when there is no other."""

    name: str
    failed: Failed
    final: bool


@dataclass(frozen=True, slots=True)
class TrackingDown:
    """MLflow does not answer. Nothing is lost: the journal feeds it later."""

    message: str


Event = Preparing | Building | Measuring | Waiting | Left | DeviceChanged | Away | AttemptFailed | TrackingDown
