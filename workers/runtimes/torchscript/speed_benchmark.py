"""PyTorch's own `speed_benchmark_torch`: its arguments, its limits, its output.

It runs a fixed number of iterations on one input, and prints their times and, on request, one output. It reports no
version, load time, first inference, memory or number of threads, and it neither sets the quantized engine nor pins to
cores. Source: pytorch's binaries/speed_benchmark_torch.cc, last in v2.8.0.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from sweeps.errors import RunnerError
from sweeps.manifest import Manifest
from sweeps.tool_logs.pytorch import parse_speed_benchmark
from workers.models.package import Images
from workers.runtimes.counting_tool import CountingTool, digest_of, error_text, shown, text_of
from workers.runtimes.interface import RunnerIdentity, RunReport, RunRequest
from workers.runtimes.library_errors import first_words
from workers.runtimes.stock_tool import ToolOutput, ToolRun
from workers.runtimes.torchscript.printed_tensor import read_matrix
from workers.runtimes.torchscript.runner.load import (
    NO_CLASS,
    OPERATORS_NOT_FOUND,
    OTHER_ARGUMENTS,
    UNKNOWN_OPERATOR,
    WAY_OUT,
    main_message,
)

NAME = "speed_benchmark_torch"

_START = "Starting benchmark."
# The C++ libraries of GNU and of LLVM (on phones) report an uncaught exception like this.
_UNCAUGHT = re.compile(r"what\(\): |uncaught exception of type [^\s]{1,200}: ")
# The interpreters add this when an operator fails: the full one, and the lite one with and without source lines. A lite
# one built without debug information adds nothing.
_IN_FORWARD = re.compile(r"failed in the TorchScript interpreter|Traceback of TorchScript|Debug info for handle")
_VERSIONS = {
    "file": re.compile(
        r"file with version (?P<version>\d{1,9}), but the maximum supported version for reading is (?P<highest>\d{1,9})"
    ),
    "bytecode": re.compile(
        r"must be between \d{1,9} and (?P<highest>\d{1,9}) but the model version is (?P<version>\d{1,9})"
    ),
}


@dataclass(frozen=True, slots=True)
class SpeedBenchmark(CountingTool):
    """One build of the tool (see `workers.runtimes.interface.StockTool`)."""

    engine: str
    """The default quantized engine of its library, as the tool cannot set one; `none` if it is not known."""
    name: ClassVar[str] = NAME
    revision: ClassVar[int] = 2
    """Revision 2 sets `OMP_NUM_THREADS`; revision 1, whose names end without a number, did not."""
    answers: ClassVar[bool] = True

    @classmethod
    def of(cls, program: Path, abi: str) -> "SpeedBenchmark":
        """Return the tool for a program on this host, which runs on devices of this ABI."""
        # Libraries for Arm phones use QNNPACK; for x86, the engine that was compiled in is not known.
        return cls(digest_of(program), "qnnpack" if abi.startswith("arm") else "none")

    def identity(self) -> RunnerIdentity:
        return replace(CountingTool.identity(self), qengines=() if self.engine == "none" else (self.engine,))

    def reason_against(self, request: RunRequest) -> str | None:
        if request.backend not in ("cpu", "nnapi"):
            return f"{NAME} runs no {request.backend} model"
        if request.reference is not None:
            return f"{NAME} takes no library that stands in for {request.backend}"
        if request.engine not in ("none", self.engine):
            runs = "which one runs is not known" if self.engine == "none" else f"{self.engine} runs"
            return f"{NAME} sets no quantized engine: {runs}, {request.engine} is asked for"
        if request.cpus != "all":
            return f"{NAME} cannot be bound to cores ({request.cpus})"
        if not request.reuse_input:
            return f"{NAME} has one input for all iterations"
        return None

    def timing(self, request: RunRequest, program: str) -> ToolRun:
        """Return the process that times `request.iterations` iterations. It does one more warm-up than requested, for
        the first inference, which other runners time separately. A float input is all ones; a quantized input comes
        from the file."""
        argv = self._start(request, program, request.model)
        if request.input_dtype == "float":
            dims = ",".join(map(str, request.input_shape))
            argv += [f"--input_dims={dims}", "--input_type=float", f"--input_memory_format={request.memory_format}"]
        else:
            argv.append("--use_bundled_input=0")
        counts = [f"--warmup={request.warmup_iterations + 1}", f"--iter={request.iterations}"]
        return ToolRun(argv=[*argv, *counts, "--report_pep=true"])

    def question(self, request: RunRequest, program: str, file: str, number: int) -> ToolRun:
        argv = self._start(request, program, file)
        # At least one iteration, because the tool prints their mean at the end.
        flags = [f"--use_bundled_input={number}", "--print_output=true", "--warmup=0", "--iter=1"]
        return ToolRun(argv=[*argv, *flags])

    def parse(self, output: ToolOutput, request: RunRequest) -> RunReport:
        """Return the report of a timing. Backend and number of threads are those of the request, as the tool does not
        report them.

        Raises `RunnerError`: `no_report`, `truncated` or `garbled`.
        """
        samples = parse_speed_benchmark(text_of(NAME, output.stdout)).samples_ns
        if len(samples) != request.iterations:
            raise RunnerError("garbled", f"{NAME} reports {len(samples)} iterations of {request.iterations}")
        # Without a quantized operator no engine runs.
        return replace(self.report(request, samples), engine_ran="none" if request.engine == "none" else self.engine)

    def parse_answer(self, output: ToolOutput) -> list[float]:
        """Return the logits of one batch, with the precision of four printed decimals (see `read_matrix`).

        Raises `RunnerError`: those of `parse`, and `bad_output` if the output is not such a matrix.
        """
        text = text_of(NAME, output.stdout)
        parse_speed_benchmark(text)  # checks that the output is complete
        printed, start, _ = text.partition(f"\n{_START}\n")
        if not start:
            raise RunnerError("garbled", f"{NAME} printed no answer")
        return [value for row in read_matrix(printed) for value in row]

    def refusal(self, output: ToolOutput) -> RunnerError | None:
        """Return the tool's error: `no_bundled_input`, `bad_arguments`, `runtime_skew`, `run_failed` with the words of
        the operator that failed, or `crashed` for any other exception. The message is one line, without control
        characters."""
        text = error_text(output.stderr)
        if match := re.search(r"Model has only [0-9]+ bundled inputs\.", text):
            return RunnerError("no_bundled_input", match[0])
        if "Model does not have bundled inputs." in text:
            return RunnerError("no_bundled_input", "the model carries no inputs; its eval sibling does")
        if re.search(r"Failed to parse command[ -]line flags!", text):
            lines = (line for line in text.splitlines() if line.startswith("C10 flag: "))
            return RunnerError("bad_arguments", shown(next(lines, f"{NAME} knows another set of flags")))
        if thrown := _UNCAUGHT.search(text):
            exception = text[thrown.end() :]
            if lacks := _lacks(exception):
                return RunnerError("runtime_skew", f"{shown(lacks)}; {WAY_OUT}")
            if _IN_FORWARD.search(exception):
                return RunnerError("run_failed", shown(main_message(exception)))
            return RunnerError("crashed", f"{NAME} ended with an exception: {shown(first_words(exception))}")
        return None

    def inputs(self, manifest: Manifest, model: Path, images: Images, folder: Path) -> Sequence[Path]:
        """Write a copy of the model with all images bundled (see `bundled.eval_sibling`). Returns this file for each
        batch."""
        from workers.runtimes.torchscript.bundled import eval_sibling  # torch

        sibling = eval_sibling(manifest, model, images, folder)
        return [folder / sibling.file] * (sibling.images // manifest.input.shape[0])

    def _start(self, request: RunRequest, program: str, model: str) -> list[str]:
        # The flag sets only the size of PyTorch's own thread pool. A libtorch with OpenMP runs as many threads as the
        # variable says.
        argv = ["env", f"OMP_NUM_THREADS={request.threads}", program]
        return [*argv, f"--model={model}", f"--pthreadpool_size={request.threads}"]


def _lacks(exception: str) -> str | None:
    """Return the feature that this build of the tool lacks, from its exception; `None` if it is something else."""
    for name, pattern in _VERSIONS.items():
        if (match := pattern.search(exception)) and int(match["version"]) > int(match["highest"]):
            return f"the artifact has {name} version {match['version']}, this {NAME} reads up to {match['highest']}"
    operators = UNKNOWN_OPERATOR.findall(exception) + OPERATORS_NOT_FOUND.findall(exception)
    if operators:
        return f"this {NAME} has no operator {', '.join(operators)[:300]}"
    if changed := OTHER_ARGUMENTS.search(exception):
        return f"this {NAME} knows {changed[1]} with other arguments"
    if classes := NO_CLASS.search(exception):
        return f"this {NAME} has no class {classes[1]}"
    return None
