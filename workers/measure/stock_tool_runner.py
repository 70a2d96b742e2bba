"""Measures with a stock benchmark tool, which does not keep the runner contract.

Such a tool counts iterations instead of seconds, and reads quantized inputs and evaluation images only from files in
its own format. So these files are built, pushed and removed here, and the tool's output is collected from where the
tool writes it: stdout, stderr, a file or Android's log.
"""

import secrets
import tempfile
from collections.abc import Iterable
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
from workers.runtimes.interface import RunReport, RunRequest
from workers.runtimes.stock_tool import StockTool, ToolOutput, ToolRun

_LOG_DEADLINE_S = 30.0
# The limit is more than any tool writes in one process.
_MAX_TOLD_BYTES = 64 * 2**20


class StockToolRunner:
    """The runner of the stock tools of one device. All methods raise `DeviceError`, and `BuildError` if a file cannot
    be built."""

    def __init__(self, device: Device, pushes: Pushes, store: ArtifactStore, folder: Path) -> None:
        """Prepare to push files; `folder` is for short-lived files on this host."""
        self._device = device
        self._pushes = pushes
        self._store = store
        self._folder = folder
        self._carriers: dict[str, str] = {}

    def timed_model(self, tool: StockTool, manifest: Manifest, request: RunRequest) -> str:
        """Return the path on the device of the file to time. A quantized input has to be part of the model's file, so
        such a file is built and pushed at the first call.

        Raises `RunnerError` if the tool cannot run this request.
        """
        check(tool, request)
        if request.input_dtype == "float":
            return request.model
        if manifest.build_key not in self._carriers:
            ones = np.ones(manifest.input.shape, dtype=np.float32)
            [self._carriers[manifest.build_key]] = self._push_inputs(tool, manifest, ones)
        return self._carriers[manifest.build_key]

    def timing(
        self, tool: StockTool, program: str, request: RunRequest, deadline_s: float
    ) -> tuple[Completed, RunReport]:
        """Run a few iterations to find how many are needed, then time that many."""
        _, trial = self._timed(tool, program, tool.trial(request), deadline_s)
        return self._timed(tool, program, tool.enough(request, trial), deadline_s)

    def logits(
        self,
        tool: StockTool,
        program: str,
        manifest: Manifest,
        images: Images,
        request: RunRequest,
        deadline_s: float,
    ) -> Logits:
        """Return the logits of the first n images, (n, classes) float32; n is the number of images that the tool is
        given.

        The images are in separate files, because the file that is timed and shipped contains no images. `deadline_s`:
        for each process, of which there is one per batch of images.
        """
        check(tool, request)
        paths = self._push_inputs(tool, manifest, images)
        try:
            rows = [
                tool.parse_answer(self._ended(tool, tool.question(request, program, path, number), deadline_s)[1])
                for number, path in enumerate(paths)
            ]
        finally:
            self._remove(dict.fromkeys(paths))
        if len({len(row) for row in rows}) != 1:
            raise RunnerError("output_shape", f"{len(rows)} inputs got answers of different sizes")
        count = len(rows) * manifest.input.shape[0]
        if len(rows[0]) % manifest.input.shape[0]:
            raise RunnerError("output_shape", f"{len(rows[0])} logits for {manifest.input.shape[0]} images")
        return np.array(rows, dtype=np.float32).reshape(count, -1)

    def close(self) -> None:
        """Remove the files that contain an input from the device."""
        self._remove(self._carriers.values())
        self._carriers.clear()

    def _timed(
        self, tool: StockTool, program: str, request: RunRequest, deadline_s: float
    ) -> tuple[Completed, RunReport]:
        completed, output = self._ended(tool, tool.timing(request, program), deadline_s)
        return completed, tool.parse(output, request)

    def _ended(self, tool: StockTool, run: ToolRun, deadline_s: float) -> tuple[Completed, ToolOutput]:
        if run.output:
            self._device.remove(run.output)  # a tool may append to a file that is there
        mark = self._mark_log(run.log_tag)
        completed = self._device.run(run.argv, deadline_s)
        log = self._log_since(mark, run.log_tag) if mark else b""
        output = ToolOutput(stdout=completed.stdout, stderr=completed.stderr + log)
        if completed.exit_code != 0:
            raise tool.refusal(output) or death(replace(completed, stderr=output.stderr))
        return completed, replace(output, output=self._pulled(run.output)) if run.output else output

    def _pulled(self, path: str) -> bytes:
        with tempfile.TemporaryDirectory(dir=self._folder, prefix="told-") as folder:
            file = Path(folder) / "told"
            self._device.pull(path, file, _MAX_TOLD_BYTES)
            self._remove([path])
            return file.read_bytes()

    def _mark_log(self, tag: str) -> str:
        """Write a marker line into Android's log, after which the lines of the tool begin, and return the marker; empty
        on a device without that log."""
        if not tag or not self._device.facts().os_build.startswith("Android"):
            return ""
        mark = f"edgesweep {secrets.token_hex(8)}"
        done = self._device.run(["log", "-p", "i", "-t", tag, mark], _LOG_DEADLINE_S)
        return mark if done.exit_code == 0 else ""

    def _log_since(self, mark: str, tag: str) -> bytes:
        """Return the lines that were written with this tag after the marker. Raises `RunnerError` if the log no longer
        contains the marker."""
        done = self._device.run(["logcat", "-d", "-v", "raw", "-s", f"{tag}:I"], _LOG_DEADLINE_S)
        _, marked, log = done.stdout.replace(b"\r\n", b"\n").rpartition(mark.encode() + b"\n")
        if done.exit_code == 0 and not marked:
            raise RunnerError(
                "truncated",
                f"the phone's log lost what was written to it under {tag} before",
                "make it larger (adb logcat -G 16M), or ask for fewer iterations (protocol.iterations, min_seconds)",
            )
        return b"\n" + log

    def _push_inputs(self, tool: StockTool, manifest: Manifest, images: Images) -> list[str]:
        """Push the images, and return the paths of their files on the device, one for each batch of images."""
        with tempfile.TemporaryDirectory(dir=self._folder, prefix="inputs-") as folder:
            files = tool.inputs(manifest, self._store.model(manifest), images, Path(folder))
            stem = f"{manifest.build_key[:16]}-{len(files) * manifest.input.shape[0]}"
            paths: dict[Path, str] = {}
            try:
                for file in dict.fromkeys(files):
                    paths[file] = self._pushes.push(manifest.build_key, file, f"{stem}-{file.name}")
            except BaseException:
                self._remove(paths.values())
                raise
            return [paths[file] for file in files]

    def _remove(self, paths: Iterable[str]) -> None:
        for path in paths:
            with suppress(DeviceError, OSError):
                self._device.remove(path)


def check(tool: StockTool, request: RunRequest) -> None:
    """Refuse a request that the tool cannot run correctly, with a `RunnerError`."""
    if reason := tool.reason_against(request):
        raise RunnerError("not_possible", reason, "use EdgeSweep's own runner: edgesweep explain android-runtime")
