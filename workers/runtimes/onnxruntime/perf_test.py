"""ONNX Runtime's own `onnxruntime_perf_test`: its arguments, its limits, its output.

It runs a model a number of times on random numbers, prints a summary, and writes the time of each inference to a file.
It reports neither answers, nor a version, nor where operators ran. Only the first inference is reported separately, in
whole milliseconds. Source: onnxruntime's onnxruntime/test/perftest.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import ClassVar

from sweeps.errors import RunnerError
from sweeps.manifest import Manifest
from sweeps.tool_logs.onnxruntime import PERF_TEST, read_results, read_summary
from workers.models.package import Images
from workers.runtimes.counting_tool import CountingTool, error_text, shown, text_of
from workers.runtimes.interface import RunReport, RunRequest
from workers.runtimes.onnxruntime import NO_TELEMETRY
from workers.runtimes.onnxruntime.runner import SKEW
from workers.runtimes.stock_tool import ToolOutput, ToolRun

NAME = PERF_TEST
_LEVELS = {"all": 99, "extended": 2, "basic": 1, "disabled": 0}
_SEED = 1
"""The seed of the tool's random input; without a seed, the input is whatever happens to be in memory."""


@dataclass(frozen=True, slots=True)
class PerfTest(CountingTool):
    """One build of the tool (see `workers.runtimes.interface.StockTool`)."""

    name: ClassVar[str] = NAME
    revision: ClassVar[int] = 2
    answers: ClassVar[bool] = False

    def reason_against(self, request: RunRequest) -> str | None:
        if request.backend != "cpu":
            return f"{NAME} does not tell whether {request.backend} ran"
        if request.graph_optimization not in _LEVELS:
            return f"{NAME} has no graph optimization {request.graph_optimization}"
        if request.input_dtype != "float":
            return f"{NAME} is used with float inputs only"
        if request.cpus != "all":
            return f"{NAME} is not bound to cores ({request.cpus})"
        if not request.reuse_input:
            return f"{NAME} has one input for all iterations"
        return None

    def timing(self, request: RunRequest, program: str) -> ToolRun:
        """Return the process that times the model. The tool runs one inference before the requested ones."""
        model = PurePosixPath(request.model)
        results = str(model.with_name(f"{model.stem}-perf-test.csv"))
        argv = ["env", *map("=".join, NO_TELEMETRY.items()), program, "-e", "cpu"]
        argv += ["-m", "times", "-r", str(request.warmup_iterations + request.iterations)]
        argv += ["-x", str(request.threads), "-o", str(_LEVELS[request.graph_optimization])]
        return ToolRun(argv=[*argv, "-I", "-S", str(_SEED), request.model, results], output=results)

    def parse(self, output: ToolOutput, request: RunRequest) -> RunReport:
        """Return the report of a timing, with the backend of the request. Raises `RunnerError`: `no_report`,
        `truncated` or `garbled`."""
        summary = read_summary(text_of(NAME, output.stdout))
        samples_ns = read_results(text_of(NAME, output.output))
        inferences = request.warmup_iterations + request.iterations
        if not summary.log.iterations == len(samples_ns) == inferences:
            raise RunnerError(
                "garbled",
                f"{NAME} reports {summary.log.iterations} iterations, and its file {len(samples_ns)}, of {inferences}",
            )
        mean_ms = sum(samples_ns) / len(samples_ns) / 1e6
        # Both figures have six digits.
        if abs(mean_ms - summary.log.mean_ms) > 1e-4 * mean_ms + 1e-6:
            raise RunnerError(
                "garbled", f"{NAME} prints a mean of {summary.log.mean_ms} ms, and its file has one of {mean_ms:.6g} ms"
            )
        return replace(
            self.report(request, samples_ns[request.warmup_iterations :], threads=summary.threads),
            load_ns=summary.load_ns,
            first_inference_ns=summary.first_inference_ns,
            warmup_ns=samples_ns[: request.warmup_iterations],
            rss_peak_bytes=summary.peak_bytes,
        )

    def inputs(self, manifest: Manifest, model: Path, images: Images, folder: Path) -> Sequence[Path]:
        raise _no_answers()

    def question(self, request: RunRequest, program: str, file: str, number: int) -> ToolRun:
        raise _no_answers()

    def parse_answer(self, data: ToolOutput) -> list[float]:
        raise _no_answers()

    def refusal(self, output: ToolOutput) -> RunnerError | None:
        """Return the tool's error: `bad_arguments`, `runner_broken`, `runtime_skew`, `load_failed` or `run_failed`;
        `None` if its output shows none."""
        text, printed = error_text(output.stderr), error_text(output.stdout)
        if re.search(r"Unknown command line flag|See 'onnxruntime_perf_test|invalid option", text):
            return RunnerError("bad_arguments", f"{NAME} knows another set of flags: {shown(text)}")
        if "libonnxruntime.so" in text:
            return RunnerError(
                "runner_broken",
                f"{NAME} does not find its library: {shown(text)}",
                "compile it without --build_shared_lib, so that it is one file",
            )
        if SKEW.search(text):
            return RunnerError("runtime_skew", shown(text))
        if run := re.search(r"Run failed:(.{1,1000})", printed):
            return RunnerError("run_failed", shown(run[1]))
        # The tool writes its warnings to stderr, too.
        if re.search(r"fail|exception|error", text, re.IGNORECASE):
            return RunnerError("load_failed", shown(text))
        return None


def _no_answers() -> RunnerError:
    return RunnerError("not_told", f"{NAME} tells no answers", "put EdgeSweep's runner on the device, which tells them")
