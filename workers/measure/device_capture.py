"""Captures: profilers on a device that record its other programs, started before a block and stopped after it.

A recorded block is slower than others: its times are labelled `profiled`, and are kept apart from all measurements.
"""

import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from sweeps.errors import DeviceError, EdgeSweepError, RunnerError
from workers.devices.interface import Completed, Device
from workers.measure.attach import push_program
from workers.runtimes.interface import Program

SCRIPT = Path(__file__).with_name("captured.sh")
_NOTHING_RECORDED = 97
_ASK_S = 30.0
# The limit is more than any capture records of one block.
_MAX_RECORDING_BYTES = 2**30
# A shell's exit codes for a program that does not exist, or cannot be run.
_ABSENT = (126, 127)


@dataclass(frozen=True, slots=True, kw_only=True)
class Capture:
    """One profiler."""

    name: str
    suffix: str
    """The ending of the recording's file name."""
    argv: Callable[[str, str, float], list[str]]
    """The function that returns the command line, given the path of the profiler, the path of its output, and the
    longest time (s)."""
    around: bool
    """Tells whether the profiler starts the program that it records; otherwise it runs beside that program until it is
    told to stop."""
    output_path: Callable[[str, bool], str]
    """The function that returns the path of the profiler's output, given a path in the run folder, and whether the
    device is an Android phone."""
    is_there: bool
    """Tells whether phones come with the profiler."""
    without: str
    """The next step for the user if the profiler is missing."""
    opens: str
    """The programs that open the recording, in words for the user."""


def _perfetto(program: str, output: str, seconds: float) -> list[str]:
    return [program, "-o", output, "-t", f"{seconds:.0f}s", "-b", "64mb", "sched", "freq", "idle"]


def _simpleperf(program: str, output: str, seconds: float) -> list[str]:
    return [program, "record", "-o", output, "--call-graph", "fp", "--"]


def _gatord(program: str, output: str, seconds: float) -> list[str]:
    # The program that gatord starts is its last option.
    return [program, "-o", output, "-t", f"{seconds:.0f}", "-A"]


CAPTURES: Mapping[str, Capture] = MappingProxyType(
    {
        capture.name: capture
        for capture in (
            Capture(
                name="perfetto",
                suffix="perfetto-trace",
                argv=_perfetto,
                around=False,
                # The service of perfetto may write nowhere else on a phone.
                output_path=lambda name, android: (
                    f"/data/misc/perfetto-traces/{name.rpartition('/')[2]}" if android else f"{name}.made"
                ),
                is_there=True,
                without="it is part of Android 9 and newer; give a program of your own: --capture perfetto=PATH",
                opens="ui.perfetto.dev opens it",
            ),
            Capture(
                name="simpleperf",
                suffix="simpleperf.data",
                argv=_simpleperf,
                around=True,
                output_path=lambda name, _: f"{name}.made",
                is_there=True,
                without="give that of the NDK (simpleperf/bin/android/ABI/simpleperf): --capture simpleperf=PATH",
                opens="`simpleperf report -i FILE` and report_html.py of the NDK read it",
            ),
            Capture(
                name="gatord",
                suffix="apc.tar",
                argv=_gatord,
                around=True,
                output_path=lambda name, _: f"{name}.apc",
                is_there=False,
                without="give the gatord of your Arm Performance Studio (streamline/bin/android/arm64/gatord): "
                "--capture gatord=PATH",
                opens="unpack it with tar, and import the .apc folder into Streamline",
            ),
        )
    }
)
"""All captures, by name."""


def prepared(device: Device, capture: Capture, own_program: Path | None) -> str:
    """Return the path of the profiler on the device: `own_program`, a file of this host, is pushed; without it the
    device's own profiler is used.

    Raises `EdgeSweepError`, which says what to install or give, if the device has none.
    """
    name = device.facts().name
    if own_program is not None:
        if not own_program.is_file():
            raise EdgeSweepError(f"{own_program} is no file", f"name the {capture.name} for {name}'s ABI")
        return push_program(device, Program(path=str(own_program)))
    if not capture.is_there:
        raise EdgeSweepError(f"no phone has {capture.name}", capture.without)
    if device.run([capture.name, "--version"], _ASK_S).exit_code in _ABSENT:
        raise EdgeSweepError(f"{name} has no {capture.name}", capture.without)
    return capture.name


def run(
    device: Device, capture: Capture, program: str, argv: Sequence[str], deadline_s: float, target: Path
) -> Completed:
    """Run `argv` on the device with the capture `program`, and pull the recording to `target`.

    The result is that of `argv`. Whatever happens, no process of the capture keeps running. Raises `DeviceError`, and
    `RunnerError` if nothing was recorded.
    """
    script = push_program(device, Program(path=str(SCRIPT)))
    name = f"{script.rpartition('/')[0]}/capture-{secrets.token_hex(8)}"
    output = capture.output_path(name, device.facts().os_build.startswith("Android"))
    recording = capture.argv(program, output, deadline_s)
    if capture.around:
        words = ["around", name, output, *recording, "sh", script, "inside", name, *argv]
    else:
        words = ["beside", name, output, str(len(recording)), *recording, *argv]
    try:
        completed = device.run(["sh", script, *words], deadline_s)
        if completed.exit_code == _NOTHING_RECORDED:
            complaint = completed.stderr[-500:].decode("utf-8", "replace").strip()
            raise RunnerError("no_profile", f"{capture.name} recorded nothing: {complaint or 'it said nothing'}")
        device.pull(f"{name}.made", target, _MAX_RECORDING_BYTES)
    except BaseException:
        # A capture may have started the program in a separate process group.
        with suppress(DeviceError, OSError):
            device.end_orphans()
        raise
    finally:
        for suffix in ("made", "out", "err", "code", "log"):
            with suppress(DeviceError, OSError):
                device.remove(f"{name}.{suffix}")
        if output != f"{name}.made":
            # The output may be a folder, or outside of EdgeSweep's own folder: the script moves it away, unless it was
            # ended.
            with suppress(DeviceError, OSError):
                device.run(["rm", "-rf", output], _ASK_S)
    return completed
