"""Runs a runner process on a device: returns its report, or the reason why there is none."""

from sweeps.errors import RunnerError
from workers.devices.interface import Completed, Device
from workers.runtimes.interface import RunReport, RunRequest, Runtime


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
        raise death(completed)
    return completed, runtime.parse(completed.stdout)


def death(completed: Completed) -> RunnerError:
    """Why a process ended with an exit code that is not 0.

    A killed process (mostly for lack of memory) ends with SIGKILL: -9 here, 137 in a shell.
    """
    text = completed.stderr[-2000:].decode("utf-8", errors="replace").strip()
    return RunnerError(
        "killed" if completed.exit_code in (-9, 137) else "crashed",
        f"the runner ended with exit code {completed.exit_code}" + (f": {text[-500:]}" if text else ""),
    )
