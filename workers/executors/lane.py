"""The lane of one device, which attaches the device at its first use, and again after a failure."""

import time
from dataclasses import fields
from pathlib import Path

from sweeps.device_facts import DeviceFacts, canonical_key
from sweeps.errors import DeviceError, EdgeSweepError, in_one_line
from sweeps.records import Failed, Stage
from workers.artifacts import ArtifactStore, PackedArtifact
from workers.devices.local import from_os_error
from workers.measure.attach import attach
from workers.measure.device_runner import AnswerT, DeviceRunner, Request, failed


class Lane:
    """A `workers.executors.interface.DeviceLane` for a device of this host. It handles one call at a time."""

    def __init__(self, expected: DeviceFacts, folder: Path) -> None:
        self._expected = expected
        self._folder = folder
        self._store = ArtifactStore(folder / "artifacts")
        self._device_runner: DeviceRunner | None = None

    def has(self, build_key: str) -> bool:
        """Tell whether the artifact is on this host already."""
        return self._store.find(build_key) is not None

    def receive(self, packed: PackedArtifact) -> None:
        """Store an artifact on this host. Raises `StoreError`, and `DeviceError` if this host's disk is full."""
        try:
            self._store.unpack(packed)
        except OSError as error:
            raise from_os_error(error) from error

    def ask(self, request: Request[AnswerT]) -> AnswerT | Failed:
        try:
            early_answer = request.answer_without_device(self._expected.name, self._let_go)
            if early_answer is not None:
                return early_answer
            device_runner = self._device_runner = self._device_runner or self._attached()
            answer = device_runner.ask(request)
        except OSError as error:
            return failed(request.stage, from_os_error(error))
        except Exception as error:  # noqa: BLE001  # any error: other devices are being measured
            return failed_by(request.stage, error)
        if isinstance(answer, Failed) and answer.kind == "rebooted":
            # The device may have been updated, or another phone may have the same address.
            self.close()
        return answer

    def rest(self, seconds: float) -> None:
        if self._device_runner is None:
            # A device that cannot be attached has no clock that could be used.
            time.sleep(seconds)
        else:
            self._device_runner.rest(seconds)

    def close(self) -> None:
        if self._device_runner is not None:
            self._device_runner.close()
            self._device_runner = None

    def _let_go(self) -> None:
        """Release the device. Since the device does not answer, nothing is sent to it, except to end a program that
        still runs there."""
        if self._device_runner is not None:
            self._device_runner.device.release()
            self._device_runner = None

    def _attached(self) -> DeviceRunner:
        expected = self._expected
        attached = attach(expected.name, self._folder, dict(expected.runners))
        # The runners are compared too, because they are in the job keys, not in the fingerprint.
        if any(
            getattr(attached.facts, name) != getattr(expected, name) for name in ("device_id", "fingerprint", "runners")
        ):
            attached.device.release()
            raise DeviceError(
                "another_device",
                f"{expected.device_id} is another device here ({_difference(expected, attached.facts)})",
                "run it again, to plan for the present device; on a cluster give the resource "
                f"device:{expected.device_id} only to the host of that device",
            )
        try:
            # Orphans are ended only now, when the phone is about to be measured: listing and planning end nothing.
            attached.device.end_orphans()
            # Lanes of one host run in parallel. The id is text from the device, so it is not used as a folder's name.
            scratch = self._folder / "lanes" / canonical_key({"device": expected.device_id})[:16]
            scratch.mkdir(parents=True, exist_ok=True)
            return DeviceRunner(attached.device, scratch, attached.facts, attached.programs, self._store)
        except BaseException:
            attached.device.release()
            raise


def failed_by(stage: Stage, error: Exception) -> Failed:
    """Return the failure of one attempt for any error that occurred between driver and device."""
    match error:
        case DeviceError():
            return failed(stage, error)
        case EdgeSweepError():
            return Failed(stage=stage, kind="worker_error", message=error.one_line)
        case _:
            return Failed(stage=stage, kind="worker_error", message=in_one_line(error))


def _difference(expected: DeviceFacts, actual: DeviceFacts) -> str:
    if actual.device_id != expected.device_id:
        return actual.device_id
    names = [field.name for field in fields(actual) if getattr(actual, field.name) != getattr(expected, field.name)]
    return "; ".join(f"{name}: {getattr(actual, name)}, not {getattr(expected, name)}" for name in names)[:300]
