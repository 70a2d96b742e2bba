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
    """Path on the device of the file that the tool writes; empty if it prints its figures."""
    log_tag: str = ""
    """The tag under which the tool writes to Android's log instead of stderr on phones; empty if it prints
    everything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOutput:
    """The output of one process of a stock tool."""

    stdout: bytes
    stderr: bytes
    """The stderr, with the tool's lines in Android's log."""
    output: bytes = b""
    """The content of the file `ToolRun.output`."""


class StockTool(Protocol):
    """The toolchain's own benchmark program, used instead of a runner; it does not follow the runner contract.

    It counts iterations, not seconds; it evaluates inputs from files, if it reports answers at all; it cannot report
    its identity. Each runtime has its own tool (`workers.runtimes.counting_tool` has the code that they share).
    """

    @property
    def answers(self) -> bool:
        """Tell whether the tool reports the model's answers. If not, the accuracy is that of this host's runner."""
        ...

    def identity(self) -> "RunnerIdentity":
        """Return the identity that is known without running the tool."""
        ...

    def reason_against(self, request: "RunRequest") -> str | None:
        """Return the reason why the tool cannot run this request correctly, or `None`."""
        ...

    def trial(self, request: "RunRequest") -> "RunRequest":
        """Return the request of a short timing with a few iterations, from which `enough` computes the number of
        iterations."""
        ...

    def enough(self, request: "RunRequest", trial: "RunReport") -> "RunRequest":
        """Return the request with the number of iterations that fills its seconds, at the speed of the `trial`."""
        ...

    def timing(self, request: "RunRequest", program: str) -> ToolRun:
        """Return the process that times the model. A quantized input is in the file `request.model`, which is then one
        of `inputs`."""
        ...

    def parse(self, output: ToolOutput, request: "RunRequest") -> "RunReport":
        """Return the report of a timing. Raises `RunnerError`."""
        ...

    def inputs(self, manifest: Manifest, model: Path, images: Images, folder: Path) -> Sequence[Path]:
        """Write the first of these images into files in `folder`. Returns, for each batch, the file that contains it.

        Batches may share a file. Raises `BuildError`, and `RunnerError` if the tool reports no answers.
        """
        ...

    def question(self, request: "RunRequest", program: str, file: str, number: int) -> ToolRun:
        """Return the process that evaluates batch `number`, counted from 0, of `inputs`. `file`: the path on the device
        of the file with this batch."""
        ...

    def parse_answer(self, output: ToolOutput) -> list[float]:
        """Return the logits of one batch, row by row. Raises `RunnerError`."""
        ...

    def refusal(self, output: ToolOutput) -> RunnerError | None:
        """Return the reason why the tool ended without a report, or `None` if its output does not say it."""
        ...
