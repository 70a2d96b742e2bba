"""The files that a run pushes to a device: artifacts, which stay there, and evaluation images, which do not."""

import hashlib
from collections import defaultdict
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
    """The images of one evaluation set, in the input shape of one model."""

    evaluation_id: str
    images: Images


class Pushes:
    """The pushes of files to one device. Their time is counted for the record of the measurement that needs the
    files."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._untaken_s: defaultdict[str, float] = defaultdict(float)
        self.total_s = 0.0
        """The seconds that all pushes so far took, including those that failed, on the device's clock."""

    def push(self, build_key: str, source: Path, name: str, *, sha256: str | None = None) -> str:
        """Push a file as `Device.push` does, for a measurement of this build. Raises `DeviceError`."""
        began_s = self._device.now_s()
        try:
            return self._device.push(source, name, sha256=sha256)
        finally:
            # The block shows whether the clock jumped back.
            seconds = max(0.0, self._device.now_s() - began_s)
            self._untaken_s[build_key] += seconds
            self.total_s += seconds

    def take_s(self, build_key: str) -> float:
        """Return the seconds of pushes for this build since the last call for it, so that no two records count the same
        push."""
        return self._untaken_s.pop(build_key, 0.0)


class DeviceFiles:
    """The files that this process has pushed to one device. Each file is pushed once."""

    def __init__(self, device: Device, pushes: Pushes, store: ArtifactStore, folder: Path) -> None:
        """Prepare to push files. `folder`: for short-lived files on this host."""
        self._device = device
        self._pushes = pushes
        self._store = store
        self._folder = folder
        self._artifacts: dict[str, tuple[Manifest, str]] = {}
        self._images: dict[tuple[str, tuple[int, ...]], str] = {}

    def artifact(self, build_key: str) -> tuple[Manifest, str]:
        """Return the manifest of a build's artifact, and its path on the device, after pushing it if necessary. The
        bytes are checked before they are pushed. Raises `DeviceError`."""
        if build_key not in self._artifacts:
            manifest = self._store.find(build_key)
            if manifest is None:
                raise DeviceError("no_artifact", "what was built is not on this host")
            name = f"{build_key[:16]}-{manifest.file}"
            path = self._pushes.push(build_key, self._store.model(manifest), name, sha256=manifest.file_sha256)
            self._artifacts[build_key] = manifest, path
        return self._artifacts[build_key]

    def folder_of(self, manifest: Manifest) -> Path:
        """Return the artifact's folder on this host."""
        return self._store.model(manifest).parent

    def images(self, evaluation: Evaluation, build_key: str) -> str:
        """Push the images if necessary, and return their path on the device, where they stay until `close`.
        `build_key`: the build that needs them now, to which the time of the push is charged."""
        key = evaluation.evaluation_id, evaluation.images.shape
        if key in self._images:
            return self._images[key]
        digest = hashlib.sha256(repr(evaluation.images.shape).encode()).hexdigest()[:8]
        name = f"images-{evaluation.evaluation_id[:16]}-{digest}.bin"
        source = self._folder / name
        try:
            # `ndarray.tofile` is not used: its error does not say that the disk is full.
            source.write_bytes(np.ascontiguousarray(evaluation.images, dtype="<f4").data)
            self._images[key] = self._pushes.push(build_key, source, name)
        finally:
            source.unlink(missing_ok=True)
        return self._images[key]

    def close(self) -> None:
        """Remove the images, which are large."""
        while self._images:
            _, path = self._images.popitem()
            with suppress(DeviceError, OSError):
                self._device.remove(path)
