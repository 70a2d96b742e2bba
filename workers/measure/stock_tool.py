"""Measuring with a stock benchmark tool, which keeps no runner contract.

It counts iterations instead of seconds, and reads quantized inputs and evaluation images only from within the model's
file. So such files are built, pushed and removed here.
"""

import tempfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np

from sweeps.errors import DeviceError, RunnerError
from sweeps.manifest import Manifest
from workers.artifacts import ArtifactStore
from workers.devices.interface import Completed, Device
from workers.measure.device_files import Pushes
from workers.measure.processes import death
from workers.models.package import Images, Logits
from workers.runtimes.interface import RunReport, RunRequest, StockTool


class StockBench:
    """The stock tools of one device. All methods raise `DeviceError`, and `BuildError` if a file cannot be built."""

    def __init__(self, device: Device, pushes: Pushes, store: ArtifactStore, folder: Path) -> None:
        """`folder`: for short-lived files on this host."""
        self._device = device
        self._pushes = pushes
        self._store = store
        self._folder = folder
        self._carriers: dict[str, str] = {}

    def timed_model(self, tool: StockTool, manifest: Manifest, request: RunRequest) -> str:
        """The path on the device of the file to time: a quantized input must be in the model's file.

        Raises `RunnerError` if the tool cannot run this request.
        """
        check(tool, request)
        if request.input_dtype == "float":
            return request.model
        if manifest.build_key not in self._carriers:
            ones = np.ones(manifest.input.shape, dtype=np.float32)
            self._carriers[manifest.build_key], _ = self._push_sibling(tool, manifest, ones)
        return self._carriers[manifest.build_key]

    def timing(
        self, tool: StockTool, program: str, request: RunRequest, deadline_s: float
    ) -> tuple[Completed, RunReport]:
        """Run a few iterations to find how many are needed, then time them."""
        _, seen = self._timed(tool, program, tool.trial(request), deadline_s)
        return self._timed(tool, program, tool.enough(request, seen), deadline_s)

    def logits(
        self,
        tool: StockTool,
        program: str,
        manifest: Manifest,
        images: Images,
        request: RunRequest,
        deadline_s: float,
    ) -> Logits:
        """(n, classes) float32: the logits of the first n images, as many as one file contains.

        They are in a separate file, because the timed and shipped file contains no images. `deadline_s`: for each
        process, one per batch.
        """
        check(tool, request)
        path, count = self._push_sibling(tool, manifest, images)
        request = replace(request, model=path)
        try:
            rows = [
                tool.parse_answer(self._ended(tool, tool.command(request, program, number), deadline_s).stdout)
                for number in range(count // manifest.input.shape[0])
            ]
        finally:
            with suppress(DeviceError, OSError):
                self._device.remove(path)
        if len({len(row) for row in rows}) != 1:
            raise RunnerError("output_shape", f"{len(rows)} inputs got answers of different sizes")
        return np.array(rows, dtype=np.float32).reshape(count, -1)

    def close(self) -> None:
        """Remove the files that contain an input."""
        while self._carriers:
            _, path = self._carriers.popitem()
            with suppress(DeviceError, OSError):
                self._device.remove(path)

    def _timed(
        self, tool: StockTool, program: str, request: RunRequest, deadline_s: float
    ) -> tuple[Completed, RunReport]:
        completed = self._ended(tool, tool.command(request, program), deadline_s)
        return completed, tool.parse(completed.stdout, request)

    def _ended(self, tool: StockTool, argv: list[str], deadline_s: float) -> Completed:
        completed = self._device.run(argv, deadline_s)
        if completed.exit_code != 0:
            raise tool.refusal(completed.stderr) or death(completed)
        return completed

    def _push_sibling(self, tool: StockTool, manifest: Manifest, images: Images) -> tuple[str, int]:
        """Its path on the device, and the number of images in it."""
        with tempfile.TemporaryDirectory(dir=self._folder, prefix="sibling-") as folder:
            sibling = tool.sibling(manifest, self._store.model(manifest), images, Path(folder))
            name = f"{manifest.build_key[:16]}-{sibling.images}-{sibling.file}"
            path = self._pushes.push(manifest.build_key, Path(folder) / sibling.file, name)
            return path, sibling.images


def check(tool: StockTool, request: RunRequest) -> None:
    """Raises `RunnerError` if the tool cannot run this request correctly."""
    if reason := tool.reason_against(request):
        raise RunnerError("not_possible", reason, "use EdgeSweep's own runner: edgesweep explain android-runtime")
