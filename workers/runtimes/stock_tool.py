"""The interface of a stock tool: the toolchain's own benchmark program, which does not follow the runner contract."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from sweeps.errors import RunnerError
from sweeps.manifest import Manifest
from workers.models.package import Images

if TYPE_CHECKING:
    from workers.runtimes.interface import RunnerIdentity, RunReport, RunRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRun:
    """One process of a stock tool."""

    argv: list[str]
    """The command line on the device. It may start with `env NAME=VALUE`."""
    output: str = ""
    """Path on the device of the file that the tool leaves; empty if its figures are printed."""
    log_tag: str = ""
    """The tag under which the tool writes to Android's log there, and not to stderr; empty if it prints everything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOutput:
    """The output of one process of a stock tool."""

    stdout: bytes
    stderr: bytes
    """The errors, with the tool's lines in Android's log."""
    output: bytes = b""
    """The content of the file `ToolRun.output`."""


class StockTool(Protocol):
    """The toolchain's own benchmark program, used instead of a runner; it does not follow the runner contract.

    It counts iterations, not seconds; it evaluates inputs that it is given in files, if it tells answers at all; it
    cannot report its identity. Each runtime brings its own (`workers.runtimes.counting_tool` has what they share).
    """

    @property
    def answers(self) -> bool:
        """Tell whether the tool reports the model's answers. If not, the accuracy is that of this host's runner."""
        ...

    def identity(self) -> "RunnerIdentity":
        """The identity that is known without running the tool."""
        ...

    def reason_against(self, request: "RunRequest") -> str | None:
        """The reason why the tool cannot run this request correctly, or `None`."""
        ...

    def trial(self, request: "RunRequest") -> "RunRequest":
        """A short timing with a few iterations, from which `enough` computes the number of iterations."""
        ...

    def enough(self, request: "RunRequest", trial: "RunReport") -> "RunRequest":
        """The request with the number of iterations that fills its seconds, at the speed of the `trial`."""
        ...

    def timing(self, request: "RunRequest", program: str) -> ToolRun:
        """The run of a timing. A quantized input is in the file `request.model`: it is one of `inputs`."""
        ...

    def parse(self, output: ToolOutput, request: "RunRequest") -> "RunReport":
        """The report of a timing. Raises `RunnerError`."""
        ...

    def inputs(self, manifest: Manifest, model: Path, images: Images, folder: Path) -> Sequence[Path]:
        """Write the first of these images into files in `folder`. Returns, for each batch, the file that has it.

        Batches may share a file. Raises `BuildError`, and `RunnerError` if it tells no answers.
        """
        ...

    def question(self, request: "RunRequest", program: str, file: str, number: int) -> ToolRun:
        """The run that evaluates batch `number`, from 0, of `inputs`. `file`: the path on the device of the file that
        has it."""
        ...

    def parse_answer(self, output: ToolOutput) -> list[float]:
        """The logits of one batch, row by row. Raises `RunnerError`."""
        ...

    def refusal(self, output: ToolOutput) -> RunnerError | None:
        """The reason why the tool ended without a report, or `None` if its output does not say it."""
        ...
