"""Processes of a runner on a device: what each reports, or why it ended without."""

from sweeps.errors import RunnerError
from workers.devices.interface import Completed, Device
from workers.runtimes.interface import RunReport, RunRequest, Runtime, StockTool


def report(
    device: Device, runtime: Runtime, program: str | None, request: RunRequest, deadline_s: float
) -> tuple[Completed, RunReport]:
    """One process of a runner that keeps the contract: `program`, or this host's Python. Raises `DeviceError`."""
    completed = device.run(runtime.command(request, program), deadline_s)
    if completed.exit_code != 0:
        try:
            # A runner that knows what went wrong says so before it ends.
            runtime.parse(completed.stdout)
        except RunnerError as error:
            if error.kind not in ("no_report", "truncated"):
                raise
        raise _death(completed)
    return completed, runtime.parse(completed.stdout)


def stock_timing(
    device: Device, tool: StockTool, program: str, request: RunRequest, deadline_s: float
) -> tuple[Completed, RunReport]:
    """A timing by a tool that counts iterations: a few first, which tell how many are enough. Raises `DeviceError`."""

    def timed(asked: RunRequest) -> tuple[Completed, RunReport]:
        completed = _ended(device, tool, tool.command(asked, program), deadline_s)
        return completed, tool.parse(completed.stdout, asked)

    _, seen = timed(tool.glance(request))
    return timed(tool.enough(request, seen))


def stock_answers(
    device: Device, tool: StockTool, program: str, request: RunRequest, inputs: int, deadline_s: float
) -> list[list[float]]:
    """Of each of so many inputs in the model's file the logits, in a process of its own. Raises `DeviceError`."""
    return [
        tool.parse_answer(_ended(device, tool, tool.command(request, program, number), deadline_s).stdout)
        for number in range(inputs)
    ]


def _ended(device: Device, tool: StockTool, argv: list[str], deadline_s: float) -> Completed:
    completed = device.run(argv, deadline_s)
    if completed.exit_code != 0:
        raise tool.refusal(completed.stderr) or _death(completed)
    return completed


def _death(completed: Completed) -> RunnerError:
    """A process that was killed for memory ends with SIGKILL, here -9, in a shell 137."""
    text = completed.stderr[-2000:].decode("utf-8", errors="replace").strip()
    return RunnerError(
        "killed" if completed.exit_code in (-9, 137) else "crashed",
        f"the runner ended with exit code {completed.exit_code}" + (f": {text[-500:]}" if text else ""),
    )
