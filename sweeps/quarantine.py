"""The devices that sweeps leave alone (quarantine), and the faults that led to that. A quarantine belongs to the
device, so it holds in every workspace.

There is one file per device in the user's state folder, because a sweep or a workspace may be deleted while the phone
stays as bad as before. `after_fault` and `after_canary` are pure; `QuarantineBook` stores their results.
"""

import hashlib
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from sweeps.device_facts import DeviceFacts
from sweeps.errors import StoreError
from sweeps.json_records import from_json, to_json
from sweeps.locks import locked
from sweeps.whole_file import write_whole

STATE_VARIABLE = "EDGESWEEP_STATE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """The rule by which EdgeSweep quarantines a device."""

    faults: int = 3
    """This many faults of the device itself ..."""
    within_s: float = 3600.0
    """... within this time (seconds) put it in quarantine."""
    apart_s: float = 60.0
    """Faults that are closer together than this are one fault: a phone that restarts first goes away, and then has
    another boot id."""


RULE = Rule()


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault of the device itself, recorded when the fault was over or the device was given up."""

    at_s: float
    """The time in seconds since 1970."""
    kind: str
    message: str
    job_key: str
    """The job that was being measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantine:
    """The quarantine of a device, with its reason. A quarantine by `edgesweep` ends when a canary succeeds; a
    quarantine by a person ends only when a person ends it."""

    since_s: float
    """The start in seconds since 1970."""
    by: Literal["edgesweep", "person"]
    reason: str

    @property
    def text(self) -> str:
        """The text for people: `since 2026-11-23 15:04 UTC by EdgeSweep: 3 faults ...`."""
        author = "EdgeSweep" if self.by == "edgesweep" else "a person"
        reason = f": {self.reason}" if self.reason else ""
        return f"since {datetime.fromtimestamp(self.since_s, UTC):%Y-%m-%d %H:%M} UTC by {author}{reason}"

    @property
    def document(self) -> dict[str, object]:
        """The quarantine as a JSON document."""
        since = datetime.fromtimestamp(self.since_s, UTC).isoformat(timespec="seconds")
        return {"since": since, "by": self.by, "reason": self.reason}

    @property
    def way_out(self) -> str:
        """How the quarantine ends, for people."""
        return (
            "the next run lets it in again if its canary job succeeds"
            if self.by == "edgesweep"
            else "edgesweep devices readmit lets it in again"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRecord:
    """The record of one device's faults and quarantine."""

    device_id: str
    name: str
    """The name of the device in the last sweep file."""
    faults: tuple[Fault, ...] = ()
    """The latest faults, oldest first."""
    quarantine: Quarantine | None = None


def after_fault(record: DeviceRecord, fault: Fault, rule: Rule = RULE) -> DeviceRecord:
    """Return the record with one more fault, and in quarantine if there are too many faults. Pure.

    Faults with one and the same job are not enough: then the job may be the cause, and the job fails instead.
    """
    recent = tuple(past for past in record.faults if 0 <= fault.at_s - past.at_s <= rule.within_s)
    if recent and fault.at_s - recent[-1].at_s < rule.apart_s:
        return replace(record, faults=recent)
    faults = (*recent, fault)
    quarantine = record.quarantine
    if quarantine is None and len(faults) >= rule.faults and len({past.job_key for past in faults}) > 1:
        kinds = ", ".join(past.kind for past in faults)
        quarantine = Quarantine(
            since_s=fault.at_s,
            by="edgesweep",
            reason=f"{len(faults)} faults within {rule.within_s / 60:.0f} min ({kinds}), the last: {fault.message}",
        )
    return replace(record, faults=faults, quarantine=quarantine)


def after_canary(record: DeviceRecord, rule: Rule = RULE) -> DeviceRecord:
    """Return the record of a device whose quarantine ended by its canary: the device is on probation, so one more fault
    soon puts it in quarantine again. Pure."""
    if rule.faults < 2:
        return replace(record, faults=(), quarantine=None)
    return replace(record, faults=record.faults[1 - rule.faults :], quarantine=None)


def state_folder() -> Path:
    """Return the folder `EDGESWEEP_STATE`, else `XDG_STATE_HOME/edgesweep`, else `~/.local/state/edgesweep`."""
    if named := os.environ.get(STATE_VARIABLE):
        return Path(named)
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "edgesweep"


class QuarantineBook:
    """The records of all devices of this user, shared by several processes. All methods raise `StoreError`."""

    def __init__(
        self, folder: Path | None = None, *, rule: Rule = RULE, now_s: Callable[[], float] = time.time
    ) -> None:
        """Open the records. `folder`: the folder of the state, if it is not `state_folder()`. `now_s`: returns seconds
        since 1970."""
        self._folder = (folder or state_folder()) / "devices"
        self._rule = rule
        self._now_s = now_s

    def record(self, device_id: str) -> DeviceRecord | None:
        return self._read(self._path(device_id))

    def quarantine(self, device_id: str) -> Quarantine | None:
        record = self.record(device_id)
        return None if record is None else record.quarantine

    def records(self) -> list[DeviceRecord]:
        """Return the records of all devices, by name."""
        with self._translated(self._folder):
            paths = sorted(self._folder.glob("*.json")) if self._folder.is_dir() else []
        records = [record for path in paths if (record := self._read(path)) is not None]
        return sorted(records, key=lambda record: (record.name, record.device_id))

    def add_fault(self, device_id: str, name: str, kind: str, message: str, job_key: str) -> Quarantine | None:
        """Record one fault of the device itself. Return the quarantine if this fault begins one."""
        with self._changing():
            before = self.record(device_id) or DeviceRecord(device_id=device_id, name=name)
            fault = Fault(at_s=self._now_s(), kind=kind, message=message[:500], job_key=job_key)
            after = after_fault(replace(before, name=name), fault, self._rule)
            self._write(after)
        return after.quarantine if before.quarantine is None else None

    def put(self, device_id: str, name: str, reason: str) -> Quarantine:
        """Put a device in quarantine on behalf of a person, even if EdgeSweep had quarantined it: no canary ends it."""
        quarantine = Quarantine(since_s=self._now_s(), by="person", reason=reason[:500])
        with self._changing():
            before = self.record(device_id) or DeviceRecord(device_id=device_id, name=name)
            self._write(replace(before, name=name, quarantine=quarantine))
        return quarantine

    def readmit(self, device_id: str) -> Quarantine | None:
        """Delete the device's quarantine and its faults. Return the quarantine, if there was one."""
        with self._changing():
            before = self.quarantine(device_id)
            with self._translated(self._path(device_id)):
                self._path(device_id).unlink(missing_ok=True)
        return before

    def pass_canary(self, device_id: str) -> None:
        """End a quarantine by EdgeSweep after its canary succeeded. A quarantine that a person set meanwhile stays."""
        with self._changing():
            record = self.record(device_id)
            if record is not None and record.quarantine is not None and record.quarantine.by == "edgesweep":
                self._write(after_canary(record, self._rule))

    def _path(self, device_id: str) -> Path:
        # The name is a hash, because device ids may contain any character, including slashes.
        return self._folder / f"{hashlib.sha256(device_id.encode('utf-8', 'surrogateescape')).hexdigest()[:32]}.json"

    def _read(self, path: Path) -> DeviceRecord | None:
        try:
            with self._translated(path):
                return from_json(DeviceRecord, path.read_text(encoding="utf-8")) if path.exists() else None
        except (StoreError, UnicodeDecodeError) as error:
            if isinstance(error.__cause__, OSError):
                raise
            raise StoreError(f"{path} does not say whether a device is quarantined", "delete it") from error

    def _write(self, record: DeviceRecord) -> None:
        path = self._path(record.device_id)
        with self._translated(path):
            write_whole(path, to_json(record), durable=True)

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Hold the lock with which only one process at a time changes the records. The kernel releases it when the
        process ends."""
        path = self._folder / "lock"
        with ExitStack() as stack:
            with self._translated(path):
                stack.enter_context(locked(path))
            yield

    @contextmanager
    def _translated(self, path: Path) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StoreError(
                f"{path}, which keeps what is known of devices, cannot be used: {error.strerror}",
                f"see that you may write there, or name another folder in {STATE_VARIABLE}",
            ) from error


def quarantines_of(devices: Iterable[DeviceFacts]) -> dict[str, Quarantine]:
    """Return the quarantines by device id, for display only: a file that cannot be read is skipped."""
    book = QuarantineBook()
    quarantines: dict[str, Quarantine] = {}
    for facts in devices:
        with suppress(StoreError):
            quarantine = book.quarantine(facts.device_id)
            if quarantine is not None:
                quarantines[facts.device_id] = quarantine
    return quarantines
