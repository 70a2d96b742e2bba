"""Makes a device ready to run artifacts: pushes the runtimes' programs to one that has no Python."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from sweeps.device_facts import DeviceFacts
from sweeps.errors import BuildError, DeviceError, RunnerError
from workers.devices import registry as devices
from workers.devices.interface import Device
from workers.devices.local import from_os_error
from workers.runtimes import registry as runtimes
from workers.runtimes.interface import Program, RunnerIdentity, Runtime

_INTRODUCTION_DEADLINE_S = 30.0


@dataclass(frozen=True, slots=True)
class Attached:
    """A device, its facts with what is known of the programs that were brought there, and where they are."""

    device: Device
    facts: DeviceFacts
    programs: Mapping[tuple[str, str], Program] = field(default_factory=dict)
    """By runtime and format. Empty where this host's Python is the device's too."""


def attach(name: str, folder: Path) -> Attached:
    """The device that a sweep file calls `name`; `folder` is where it may keep files on this host.

    Where there is no program for its ABI, its facts name no runtime. A phone is leased from here on: pushing programs
    would disturb what another process measures there. Raises `DeviceError`.
    """
    device = devices.connect(name, folder)
    facts = device.facts()
    if facts.runtime_versions:
        return Attached(device, facts)
    device.take_lease()
    try:
        return _with_programs(device, facts)
    except BaseException:
        device.release()
        raise


def _with_programs(device: Device, facts: DeviceFacts) -> Attached:
    programs: dict[tuple[str, str], Program] = {}
    told: dict[str, tuple[RunnerIdentity, ...]] = {}
    for runtime_name in runtimes.RUNTIMES:
        runtime = runtimes.get(runtime_name)
        try:
            found = runtime.programs(facts)
        except BuildError as error:
            if error.kind == "no_runner":
                continue
            raise DeviceError(error.kind, error.message, error.next_step) from error
        there = {program: replace(program, path=_push(device, Path(program.path))) for program in found.values()}
        programs |= {(runtime_name, kind): there[program] for kind, program in found.items()}
        told[runtime_name] = tuple(dict.fromkeys(_introduction(device, runtime, one) for one in there.values()))
    return Attached(device, _with(facts, told), programs)


def _push(device: Device, file: Path) -> str:
    try:
        with file.open("rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
        return device.push(file, f"{file.name}-{digest[:16]}")
    except OSError as error:
        told = from_os_error(error)
        raise DeviceError(told.kind, f"{device.facts().name} cannot be brought {file.name}: {told.message}") from error


def _introduction(device: Device, runtime: Runtime, program: Program) -> RunnerIdentity:
    if program.tool is not None:
        return program.tool.identity()
    completed = device.run(runtime.introduction(program.path), _INTRODUCTION_DEADLINE_S)
    try:
        return runtime.identity(completed.stdout)
    except RunnerError as error:
        words = completed.stderr[-500:].decode("utf-8", "replace").strip()
        raise DeviceError(
            "runner_broken",
            f"{device.facts().name}: {Path(program.path).name} does not start there (exit code {completed.exit_code}): "
            f"{words or error.message}",
            "infra/android-runtime.md says how to compile the runner for the phone's ABI",
        ) from error


def _with(facts: DeviceFacts, told: Mapping[str, tuple[RunnerIdentity, ...]]) -> DeviceFacts:
    """Where formats have programs of their own, a runtime is all of them: another one of them is another runtime."""
    everyone = [one for several in told.values() for one in several]
    return replace(
        facts,
        runtime_versions=tuple((name, _all(one.runtime_version for one in several)) for name, several in told.items()),
        runners=tuple((name, _all(one.runner for one in several)) for name, several in told.items()),
        qengines=tuple(sorted({engine for one in everyone for engine in one.qengines})),
        accelerators=tuple(dict.fromkeys(name for one in everyone for name in one.accelerators)),
    )


def _all(words: Iterable[str]) -> str:
    return " and ".join(dict.fromkeys(words))
