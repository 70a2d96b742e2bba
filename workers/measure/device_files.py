"""The files that a bench pushes to a device: artifacts, which stay there, and evaluation images, which do not."""

import hashlib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sweeps.errors import DeviceError
from sweeps.manifest import Manifest
from workers.artifacts import ArtifactStore
from workers.devices.interface import Device
from workers.models.package import Images


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """The images of one evaluation set in the shape of one model."""

    evaluation_id: str
    images: Images


class DeviceFiles:
    """Files on one device. Each is pushed once."""

    def __init__(self, device: Device, store: ArtifactStore, folder: Path) -> None:
        """`folder`: for short-lived files on this host."""
        self._device = device
        self._store = store
        self._folder = folder
        self._artifacts: dict[str, tuple[Manifest, str]] = {}
        self._images: dict[tuple[str, tuple[int, ...]], str] = {}

    def artifact(self, build_key: str) -> tuple[Manifest, str]:
        """Its manifest and its path on the device. Its bytes are checked before it is pushed. Raises `DeviceError`."""
        if build_key not in self._artifacts:
            manifest = self._store.find(build_key)
            if manifest is None:
                raise DeviceError("no_artifact", f"artifact {build_key[:12]} is not on this host")
            name = f"{build_key[:16]}-{manifest.file}"
            path = self._device.push(self._store.model(manifest), name, sha256=manifest.file_sha256)
            self._artifacts[build_key] = manifest, path
        return self._artifacts[build_key]

    def images(self, evaluation: Evaluation) -> str:
        """Their path on the device, where they stay until `close`."""
        key = evaluation.evaluation_id, evaluation.images.shape
        if key in self._images:
            return self._images[key]
        digest = hashlib.sha256(repr(evaluation.images.shape).encode()).hexdigest()[:8]
        name = f"images-{evaluation.evaluation_id[:16]}-{digest}.bin"
        source = self._folder / name
        try:
            # Not ndarray.tofile: its error does not say that the disk is full.
            source.write_bytes(np.ascontiguousarray(evaluation.images, dtype="<f4").data)
            self._images[key] = self._device.push(source, name)
        finally:
            source.unlink(missing_ok=True)
        return self._images[key]

    def close(self) -> None:
        """Remove the images, which are large."""
        while self._images:
            _, path = self._images.popitem()
            with suppress(DeviceError, OSError):
                self._device.remove(path)
