"""Runs processes of runners on a device: each gives a report, or the reason why there is none."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from sweeps.errors import RunnerError
from sweeps.variant import INSTALLED
from workers.devices.interface import Completed, Device
from workers.runtimes.interface import BatchOutcome, BatchRuntime, RunReport, RunRequest, Runtime
from workers.toolchains.environments import command_within

_SIGALRM = 14
"""The number of SIGALRM on every Linux, so on phones too."""
_ENDED_EARLY = ("no_report", "truncated")
ToldT = TypeVar("ToldT")


def report(
    device: Device,
    runtime: Runtime,
    program: str | None,
    request: RunRequest,
    deadline_s: float,
    toolchain: str = INSTALLED,
) -> tuple[Completed, RunReport]:
    """Run one process of a runner that keeps the runner contract, with the given toolchain: `program`, or this host's
    Python. Return its output and its report.

    Raises `DeviceError`, and `RunnerError`: also if another release than the requested one ran, since a device's
    program may be of another release than its name says.
    """
    argv = runtime.command(request, program)
    argv = argv if program else command_within(argv, toolchain)
    completed, run_report = output_of(device, argv, runtime.parse, deadline_s)
    if wrong := _other_release(run_report, toolchain):
        raise wrong
    return completed, run_report


def output_of(
    device: Device, argv: Sequence[str], parse: Callable[[bytes], ToldT], deadline_s: float
) -> tuple[Completed, ToldT]:
    """Run a runner's process, and return its output, raw and as `parse` reads it. Raises `DeviceError`, and
    `RunnerError`: the one that the runner reported, or the reason why its process ended."""
    completed = device.run(argv, deadline_s)
    return completed, read(completed, parse)


def read(completed: Completed, parse: Callable[[bytes], ToldT]) -> ToldT:
    """Return the output of a process that has ended, as `parse` reads it; raises as in `output_of`."""
    if completed.exit_code != 0:
        try:
            # A runner that knows the fault reports it before it ends.
            parse(completed.stdout)
        except RunnerError as error:
            if error.kind not in _ENDED_EARLY:
                raise
        raise death(completed)
    return parse(completed.stdout)


def batch(
    device: Device,
    runtime: BatchRuntime,
    argv: Sequence[str],
    artifacts: Sequence[str],
    deadline_s: float,
    toolchain: str = INSTALLED,
) -> list[BatchOutcome]:
    """Run one process of a batch. `argv`: as in `batch_command`; the outcomes: as in `parse_batch`.

    If the process ended early, the artifact that it was working on gets the reason as its outcome. If another release
    than `toolchain` ran, every artifact gets that as its outcome. After `deadline_s` nothing is known of any artifact.

    Raises `DeviceError`.
    """
    completed = device.run(argv, deadline_s)
    try:
        outcomes = runtime.parse_batch(completed.stdout, artifacts)
    except RunnerError as error:
        if completed.exit_code != 0 and error.kind in _ENDED_EARLY:
            raise death(completed) from error
        raise
    outcomes = [
        (isinstance(outcome, RunReport) and _other_release(outcome, toolchain)) or outcome for outcome in outcomes
    ]
    if completed.exit_code == 0:
        return outcomes
    return [
        death(completed) if isinstance(outcome, RunnerError) and outcome.kind in _ENDED_EARLY else outcome
        for outcome in outcomes
    ]


def _other_release(run_report: RunReport, toolchain: str) -> RunnerError | None:
    package, _, version = run_report.runtime_version.partition(" ")
    if toolchain == INSTALLED or (ran := f"{package}=={version}") == toolchain:
        return None
    return RunnerError("runtime_skew", f"{toolchain} was to run it, and {ran} did")


def death(completed: Completed) -> RunnerError:
    """Return the reason why a process ended with an exit code other than 0.

    A killed process (mostly for lack of memory) ends with SIGKILL: exit code -9 here, 137 in a shell. The native
    runners end themselves by SIGALRM.
    """
    if completed.exit_code in (-_SIGALRM, 128 + _SIGALRM):
        return RunnerError("timeout", "the artifact took too long, and the runner ended itself")
    text = completed.stderr[-2000:].decode("utf-8", errors="replace").strip()
    return RunnerError(
        "killed" if completed.exit_code in (-9, 137) else "crashed",
        f"the runner ended with exit code {completed.exit_code}" + (f": {text[-500:]}" if text else ""),
    )
