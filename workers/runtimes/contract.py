"""The common part of runtimes whose runners follow the runner contract: arguments, batches and reports. Torch-free.

`workers.runtimes.torchscript.runner_report` lists the events of a report.
"""

import json
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from sweeps.device_facts import DeviceFacts
from workers.runtimes import operator_profile
from workers.runtimes.interface import BatchOutcome, Program, RunnerIdentity, RunReport, RunRequest
from workers.runtimes.torchscript import batch_report, runner_report


class KeepsContract:
    """The methods of `BatchRuntime` that follow from the contract. A runtime inherits them."""

    module: str
    """The module of the Python runner, for `python -m`."""

    def arguments(self, request: RunRequest) -> list[str]:
        """Return the arguments of the runtime's runners, which are the same in Python and C++."""
        return arguments(request)

    def introduction(self, program: str) -> list[str]:
        return [program, "--nnapi-devices"]

    def identity(self, stdout: bytes) -> RunnerIdentity:
        return runner_report.identity(stdout)

    def command(self, request: RunRequest, program: str | None = None) -> list[str]:
        """Return the command of the C++ runner `program`; if `program` is `None`, that of the Python runner in this
        interpreter. Both take the same arguments."""
        return [*self._start(program), *self.arguments(request)]

    def parse(self, stdout: bytes) -> RunReport:
        return runner_report.parse(stdout)

    def batch_file(self, requests: Sequence[RunRequest]) -> bytes:
        return batch_of(requests, self.arguments)

    def batch_command(self, file: str, item_seconds: float, program: str | None = None) -> list[str]:
        return [*self._start(program), "--batch", file, "--item-seconds", repr(item_seconds)]

    def parse_batch(self, stdout: bytes, artifacts: Sequence[str]) -> list[BatchOutcome]:
        return batch_report.parse(stdout, artifacts)

    def _start(self, program: str | None) -> list[str]:
        return [sys.executable, "-m", self.module] if program is None else [program]


class Profiles(KeepsContract, ABC):
    """The methods of `ProfilingRuntime` that follow from the contract if the runtime's runners have the option
    `--profile`."""

    @abstractmethod
    def programs(self, facts: DeviceFacts) -> Mapping[str, Program]: ...

    def profilers(self, facts: DeviceFacts) -> Mapping[str, Program]:
        """Return the runtime's runners, which profile unless a runtime has other programs for it. Stock tools are left
        out."""
        return {form: program for form, program in self.programs(facts).items() if program.tool is None}

    def profile_command(
        self, request: RunRequest, iterations: int, warmup: int, program: str | None = None
    ) -> list[str]:
        counted = replace(request, iterations=iterations, warmup_iterations=warmup)
        return [*self.command(counted, program), "--profile"]

    def parse_profile(self, stdout: bytes) -> operator_profile.Profile:
        return operator_profile.parse(stdout)


def with_sha256(request: RunRequest) -> list[str]:
    """Return the arguments for runners that refuse a file with another sha256; none if the sha256 is not known."""
    return ["--sha256", request.sha256] if request.sha256 else []


def batch_of(requests: Sequence[RunRequest], arguments: Callable[[RunRequest], list[str]]) -> bytes:
    """Return one line per request: its arguments, as a JSON array of strings. See `BatchRuntime.batch_file`."""
    if not requests:
        raise ValueError("a batch has at least one request")
    if any(request.eval_inputs is not None for request in requests):
        raise ValueError("a batch only times")
    if len({(request.threads, request.cpus) for request in requests}) > 1:
        raise ValueError("threads and CPUs are those of the process: all requests of a batch ask for the same")
    lines = (json.dumps(arguments(request), ensure_ascii=False) for request in requests)
    # File names need not be UTF-8.
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")


def arguments(request: RunRequest) -> list[str]:
    """Return the arguments that every runner takes."""
    argv = ["--model", request.model, "--backend", request.backend, "--engine", request.engine]
    argv += ["--warmup", str(request.warmup_iterations), "--warmup-seconds", repr(request.warmup_seconds)]
    argv += ["--iter", str(request.iterations)]
    argv += ["--min-seconds", repr(request.min_seconds), "--max-seconds", repr(request.max_seconds)]
    argv += ["--threads", str(request.threads), "--cpus", request.cpus]
    argv += ["--input-dims", ",".join(map(str, request.input_shape)), "--input-type", request.input_dtype]
    if request.input_scale is not None and request.input_zero_point is not None:
        argv += ["--input-scale", repr(request.input_scale), "--input-zero-point", str(request.input_zero_point)]
    argv += ["--memory-format", request.memory_format, "--reuse-input", str(int(request.reuse_input))]
    if request.eval_inputs is not None and request.eval_outputs is not None:
        argv += ["--eval-inputs", request.eval_inputs, "--eval-outputs", request.eval_outputs]
    if request.reference is not None:
        argv += ["--reference", request.reference]
    argv += ["--exact-int8"] * request.exact_int8
    return argv
