"""Prepares a device to run artifacts: pushes the runtimes' programs to a device that is not this host."""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from sweeps.device_facts import AND, BOARD, DeviceFacts
from sweeps.errors import ABSENT_KINDS, BuildError, DeviceError, EdgeSweepError, RunnerError, in_one_line
from sweeps.spec import built_in, catalog
from sweeps.variant import Variant
from workers.devices import registry as devices
from workers.devices.interface import Device
from workers.devices.local import from_os_error
from workers.runtimes import registry as runtimes
from workers.runtimes.interface import InstalledRuntime, Program, ReleaseRuntime, RunnerIdentity, Runtime

# A board may load torch from a slow card.
_INTRODUCTION_DEADLINE_S = 120.0


@dataclass(frozen=True, slots=True)
class Attached:
    """A device, its facts with the identities of the programs that were pushed to it, and the paths of these programs
    on it."""

    device: Device
    facts: DeviceFacts
    programs: Mapping[tuple[str, str], Program] = field(default_factory=dict)
    """The programs by runtime and format. Empty if the device runs this host's Python."""


def attach(
    name: str, folder: Path, used: Iterable[str] = (), tell: Callable[[str], object] = lambda _: None
) -> Attached:
    """Return the device that a sweep file names `name`, with the runtimes' programs on it. `folder`: for the device's
    files on this host.

    The programs of PyTorch's runtimes are always pushed, so that the fingerprint is the same in every sweep; those of
    other runtimes only if the runtimes are in `used`. If one of the latter cannot be pushed, `tell` gets the reason,
    and the others are used. If there is no program for the device's ABI, its facts name no runtime. The phone stays
    locked after this call: pushing programs would disturb another process that measures on it. Raises `DeviceError`.
    """
    device = devices.connect(name, folder)
    facts = device.facts()
    if facts.runtime_versions:
        return Attached(device, _with_backends_here(facts, used))
    device.take_lock()
    try:
        return _with_programs(device, facts, sorted({*used} - built_in.ALWAYS_BROUGHT), tell)
    except BaseException:
        device.release()
        raise


def _with_programs(
    device: Device, facts: DeviceFacts, further: Iterable[str], tell: Callable[[str], object]
) -> Attached:
    programs: dict[tuple[str, str], Program] = {}
    identities: dict[str, tuple[RunnerIdentity, ...]] = {}
    for name in sorted(built_in.ALWAYS_BROUGHT):
        pushed, identities[name] = _push_programs(device, facts, name)
        programs |= pushed
    facts = _with(facts, {name: of_runtime for name, of_runtime in identities.items() if of_runtime})
    for name in further:
        try:
            pushed, new_identities = _push_programs(device, facts, name)
            runtime = runtimes.get(name)
            releases = runtime.releases(facts) if isinstance(runtime, ReleaseRuntime) else ()
        except (Exception, SystemExit) as error:  # another package's code
            if isinstance(error, DeviceError) and error.kind in ABSENT_KINDS:
                raise
            why = error.one_line if isinstance(error, EdgeSweepError) else in_one_line(error)
            tell(f"{facts.name}: the runtime {name} is left out: {why}")
            continue
        programs |= pushed
        if new_identities:
            # The versions of such a runtime are not in the fingerprint, which says what PyTorch's jobs ran on.
            words = _all(word for identity in new_identities for word in (identity.runner, identity.runtime_version))
            facts = replace(facts, runners=(*facts.runners, (name, words)), releases=(*facts.releases, *releases))
            if offered := _each(backend for identity in new_identities for backend in identity.backends):
                facts = replace(facts, backends=(*facts.backends, (name, offered)))
    return Attached(device, facts, programs)


def _with_backends_here(facts: DeviceFacts, used: Iterable[str]) -> DeviceFacts:
    """Return the facts with the backends, besides the CPU, that the libraries of this machine have. No key contains
    these."""
    for name in sorted(used) if catalog.is_host(facts.name) else ():
        with suppress(EdgeSweepError):  # a library that cannot be loaded is reported where it is used
            runtime = runtimes.get(name)
            if isinstance(runtime, InstalledRuntime) and len(backends := runtime.backends_here()) > 1:
                facts = replace(facts, backends=(*facts.backends, (name, backends)))
    return facts


def _push_programs(
    device: Device, facts: DeviceFacts, name: str
) -> tuple[dict[tuple[str, str], Program], tuple[RunnerIdentity, ...]]:
    """Return the programs of one runtime on the device, by runtime and format, and their identities; both are empty if
    there is no program for the device."""
    runtime = runtimes.get(name)
    try:
        programs = runtime.programs(facts)
    except BuildError as error:
        if error.kind == "no_runner":
            return {}, ()
        raise DeviceError(error.kind, error.message, error.next_step) from error
    pushed = {program: replace(program, path=push_program(device, program)) for program in programs.values()}
    identities = tuple(dict.fromkeys(_introduction(device, runtime, program) for program in pushed.values()))
    return {(name, kind): pushed[program] for kind, program in programs.items()}, identities


def program_of_release(device: Device, facts: DeviceFacts, variant: Variant) -> Program:
    """Return the runner of another release than the one on the device, after pushing it there. Raises `DeviceError`,
    `BuildError`."""
    runtime = runtimes.get(variant.runtime)
    programs = runtime.programs_of(facts, variant.runner_toolchain) if isinstance(runtime, ReleaseRuntime) else {}
    if variant.format not in programs:
        raise DeviceError("not_possible", f"{facts.name} gets no runner of {variant.runner_toolchain}")
    program = programs[variant.format]
    return replace(program, path=push_program(device, program))


def push_program(device: Device, program: Program) -> str:
    """Push a program. Return its path on the device; its libraries are in the same folder. Raises `DeviceError`."""
    file = Path(program.path)
    try:
        for library in program.libraries:
            file = Path(library)
            device.push(file, file.name)
        file = Path(program.path)
        with file.open("rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
        return device.push(file, f"{file.name}-{digest[:16]}")
    except OSError as error:
        local_error = from_os_error(error)
        raise DeviceError(
            local_error.kind, f"{device.facts().name} cannot be sent {file.name}: {local_error.message}"
        ) from error


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
            "edgesweep explain boards says which runners a board takes"
            if device.facts().exec_context == BOARD
            else "edgesweep explain android-runtime says how to compile the runner for the phone's ABI",
        ) from error


def _with(facts: DeviceFacts, identities: Mapping[str, tuple[RunnerIdentity, ...]]) -> DeviceFacts:
    """Return the facts with all programs of each runtime. If formats have separate programs, a runtime's identity
    consists of all of them: with another program it is another runtime."""
    all_identities = [identity for of_runtime in identities.values() for identity in of_runtime]
    return replace(
        facts,
        runtime_versions=tuple(
            (name, _all(identity.runtime_version for identity in of_runtime)) for name, of_runtime in identities.items()
        ),
        runners=tuple(
            (name, _all(identity.runner for identity in of_runtime)) for name, of_runtime in identities.items()
        ),
        qengines=tuple(sorted({engine for identity in all_identities for engine in identity.qengines})),
        accelerators=tuple(dict.fromkeys(name for identity in all_identities for name in identity.accelerators)),
    )


def _all(words: Iterable[str]) -> str:
    return AND.join(_each(words))


def _each(words: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(words))
