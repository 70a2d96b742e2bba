"""ExecuTorch's own `executor_runner`: its arguments, its limits, its output.

It runs a method a number of times on one input (ones, or the bytes of a file), and logs the time of all executions, and
in newer versions the time of each. It times no separate warm-up, and reports neither memory, nor the runtime's version,
nor its backends. It logs to stderr, on phones to Android's log. Source: executorch's
examples/portable/executor_runner/executor_runner.cpp.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np

from sweeps.errors import RunnerError
from sweeps.manifest import Manifest
from sweeps.tool_logs.executorch import EXECUTOR_RUNNER, read_executions
from workers.models.package import Images
from workers.runtimes.counting_tool import MAX_IMAGES, CountingTool, error_text, shown, text_of
from workers.runtimes.interface import RunReport, RunRequest
from workers.runtimes.stock_tool import ToolOutput, ToolRun

NAME = EXECUTOR_RUNNER
_LOG_TAG = "ExecuTorch"
_BACKENDS = ("cpu", "portable")
_STATUS = re.compile(
    r"(?:Loading of method .{0,100} failed with status|Execution of method .{0,100} failed with status)"
    r" 0x:?([0-9a-f]{1,8})"
)
_OPERATOR_MISSING, _NO_BACKEND = 0x14, 0x20


@dataclass(frozen=True, slots=True)
class ExecutorRunner(CountingTool):
    """One build of the tool (see `workers.runtimes.interface.StockTool`)."""

    name: ClassVar[str] = NAME
    revision: ClassVar[int] = 1
    answers: ClassVar[bool] = True

    def reason_against(self, request: RunRequest) -> str | None:
        if request.backend not in _BACKENDS:
            return f"{NAME} does not tell whether it has {request.backend}"
        if request.reference is not None:
            return f"{NAME} takes no library that stands in for {request.backend}"
        if request.input_dtype != "float":
            return f"{NAME} is given float inputs only"
        if request.cpus != "all":
            return f"{NAME} cannot be bound to cores ({request.cpus})"
        if not request.reuse_input:
            return f"{NAME} makes its input outside of the time that it tells"
        return None

    def timing(self, request: RunRequest, program: str) -> ToolRun:
        """Return the process that times the model: its executions are the first inference, the warm-up, which the tool
        does not have itself, and the iterations."""
        executions = 1 + request.warmup_iterations + request.iterations
        return self._run(request, program, [f"--num_executions={executions}"])

    def parse(self, output: ToolOutput, request: RunRequest) -> RunReport:
        """Return the report of a timing: backend and threads are those of the request; the first executions are its
        warm-up if the tool reports the time of each.

        Raises `RunnerError`: `no_report`, `truncated` or `garbled`.
        """
        logged = read_executions(_log(output))
        executions = 1 + request.warmup_iterations + request.iterations
        if logged.log.iterations != executions:
            raise RunnerError("garbled", f"{NAME} reports {logged.log.iterations} executions of {executions}")
        # The tool got a number of threads, and reports the number that its pool has.
        report = replace(self.report(request, (), threads=logged.threads), load_ns=logged.load_ns)
        if not logged.log.samples_ns:
            return replace(report, samples_ns=(round(1e6 * logged.log.mean_ms),), mean_only=True)
        first, *rest = logged.log.samples_ns
        return replace(
            report,
            first_inference_ns=first,
            warmup_ns=tuple(rest[: request.warmup_iterations]),
            samples_ns=tuple(rest[request.warmup_iterations :]),
        )

    def inputs(self, manifest: Manifest, model: Path, images: Images, folder: Path) -> Sequence[Path]:
        """Write a file for each full batch of the first 100 images: float32, in the artifact's layout. Returns the
        files."""
        batch = manifest.input.shape[0]
        files = []
        for number in range(min(len(images), MAX_IMAGES) // batch):
            part = images[number * batch : (number + 1) * batch]
            # The tool copies the bytes as they are: in another layout, the answers would be others without an error.
            laid = part.transpose(0, 2, 3, 1) if manifest.memory_format == "channels_last" else part
            file = folder / f"input-{number}.bin"
            np.ascontiguousarray(laid, dtype="<f4").tofile(file)
            files.append(file)
        return files

    def question(self, request: RunRequest, program: str, file: str, number: int) -> ToolRun:
        argv = ["--num_executions=1", f"--inputs={file}", f"--output_file={file}"]
        return replace(self._run(request, program, argv), output=f"{file}-0.bin")

    def parse_answer(self, data: ToolOutput) -> list[float]:
        """Return the logits of a batch. Raises `RunnerError("bad_output")` if the file is no list of float32."""
        if not data.output or len(data.output) % 4:
            raise RunnerError("bad_output", f"the answer of {NAME} has {len(data.output)} bytes, which are no float32")
        return [float(value) for value in np.frombuffer(data.output, dtype="<f4")]

    def refusal(self, output: ToolOutput) -> RunnerError | None:
        """Return the tool's error: `bad_arguments`, `load_failed`, `runtime_skew`, `backend_missing` or `run_failed`;
        `None` if its output names none."""
        text = error_text(output.stderr)
        if unknown := re.search(r"unknown command line flag '(.{1,60}?)'", text):
            return RunnerError("bad_arguments", f"{NAME} has no flag {shown(unknown[1])}: it is another version")
        lines = [line for line in text.splitlines() if "failed" in line or "Failed" in line or "not registered" in line]
        words = shown("; ".join(lines))
        if match := _STATUS.search(text):
            status = int(match[1], 16)
            if status == _OPERATOR_MISSING:
                return RunnerError("runtime_skew", f"{NAME} lacks a kernel of the model: {words}")
            if status == _NO_BACKEND:
                return RunnerError("backend_missing", f"{NAME} was compiled without a backend of the model: {words}")
            ran = match[0].startswith("Execution")
            return RunnerError("run_failed" if ran else "load_failed", words)
        if re.search(r"Failed to parse model file|FileDataLoader::from\(\) failed", text):
            return RunnerError("load_failed", words)
        return None

    def _run(self, request: RunRequest, program: str, flags: list[str]) -> ToolRun:
        argv = [program, f"--model_path={request.model}", f"--cpu_threads={request.threads}"]
        return ToolRun(argv=[*argv, *flags], log_tag=_LOG_TAG)


def _log(output: ToolOutput) -> str:
    return text_of(NAME, output.stderr)
