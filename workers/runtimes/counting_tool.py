"""The common part of the stock tools of all runtimes: names, the number of iterations, reports."""

import hashlib
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Self

from sweeps.errors import RunnerError
from sweeps.text import plain
from workers.runtimes.interface import RunnerIdentity, RunReport, RunRequest

MAX_IMAGES = 100
"""The most images that a tool evaluates: each batch is a separate process."""
_TRIAL_ITERATIONS = 5
_MAX_STDERR = 100_000
_MAX_MESSAGE = 300


@dataclass(frozen=True, slots=True)
class CountingTool:
    """The methods of `StockTool` that are the same for every tool that counts iterations."""

    digest: str
    """The first 12 hex digits of the program's sha256: its version, because it reports none."""
    name: ClassVar[str]
    revision: ClassVar[int]
    """The revision of how the tool is called, part of its name in job keys: times of two revisions are never pooled."""

    @classmethod
    def from_file(cls, program: Path) -> Self:
        """Return the tool for a program on this host."""
        return cls(digest_of(program))

    @property
    def runner(self) -> str:
        """The tool's name in results and in job keys."""
        return f"{self.name} {self.digest}.{self.revision}"

    @property
    def runtime_version(self) -> str:
        """The text for an unknown version. It differs for each program, because their outputs may differ."""
        return f"unknown ({self.digest})"

    def identity(self) -> RunnerIdentity:
        return RunnerIdentity(runner=self.runner, runtime_version=self.runtime_version, qengines=(), accelerators=())

    def trial(self, request: RunRequest) -> RunRequest:
        return replace(request, warmup_iterations=0, iterations=_TRIAL_ITERATIONS)

    def enough(self, request: RunRequest, trial: RunReport) -> RunRequest:
        """Compute the iterations from the fastest one of the trial: a slower one would end the block too early. At
        least one."""
        fastest_s = min(trial.samples_ns) / 1e9
        iterations = max(request.iterations, math.ceil(request.min_seconds / fastest_s))
        return replace(
            request,
            iterations=max(1, min(iterations, int(request.max_seconds / fastest_s))),
            warmup_iterations=max(request.warmup_iterations, math.ceil(request.warmup_seconds / fastest_s)),
        )

    def report(self, request: RunRequest, samples_ns: tuple[int, ...], *, threads: int | None = None) -> RunReport:
        """Return the report of a run. The backend is that of the request, and so are the threads if `threads` is
        `None`."""
        return RunReport(
            runner=self.runner,
            runtime_version=self.runtime_version,
            file_version_max=None,
            bytecode_version_max=None,
            load_ns=None,
            first_inference_ns=None,
            warmup_ns=(),
            samples_ns=samples_ns,
            rss_before_load_bytes=None,
            rss_peak_bytes=None,
            backend_ran=request.backend,
            engine_ran=request.engine,
            threads_ran=threads or request.threads,
            threads_known=threads is not None,
        )


def digest_of(program: Path) -> str:
    with program.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()[:12]


def text_of(name: str, printed: bytes) -> str:
    """Return the output as text. Raises `RunnerError("garbled")` if it is not UTF-8."""
    try:
        return printed.decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise RunnerError("garbled", f"the output of {name} is not UTF-8 (byte {error.start})") from error


def error_text(printed: bytes) -> str:
    """Return the stderr of a program that failed, at most its first 100,000 bytes; bytes that are not UTF-8 are
    replaced."""
    return printed[:_MAX_STDERR].decode("utf-8", errors="replace")


def shown(words: str) -> str:
    """Return a tool's words for a message: in one line of at most 300 characters, without control characters."""
    return plain(" ".join(words.split())[:_MAX_MESSAGE])
