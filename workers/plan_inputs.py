"""The inputs of a plan: facts of devices, identities of models and data, and whether a runtime supports a variant on a
device."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from sweeps.device_facts import VIRTUAL_PHONE, DeviceFacts
from sweeps.errors import HOST_KINDS, DeviceError, EdgeSweepError, in_one_line
from sweeps.planning.axes import is_calibrated
from sweeps.planning.keys import Identities
from sweeps.planning.plan import Plan, expand
from sweeps.protocol import sentinel_rules
from sweeps.protocol.presets import protocol_of
from sweeps.skip_kinds import Skip
from sweeps.spec import built_in, catalog, folder_levels, lab_names, toolchains
from sweeps.spec.entries import DeviceEntry
from sweeps.spec.sweep import SweepSpec
from sweeps.variant import INSTALLED, Variant
from workers.devices import registry as devices
from workers.measure.attach import attach
from workers.models import image_sets
from workers.models.identity import identify
from workers.models.too_few_images import too_few_images
from workers.native.compiler import compiler
from workers.runtimes import registry as runtimes
from workers.runtimes.interface import ReleaseRuntime
from workers.toolchains import environments

Select = Callable[[str], Iterable[DeviceFacts | DeviceError]]
"""A function that returns the devices that a sweep file names by a name, as the hosts of a lab know them."""
_PUT_THERE = "put it there (edgesweep explain runtimes), then plug the device in again"


def plan_sweep(
    spec: SweepSpec,
    folder: Path,
    roots: Sequence[Path] = (),
    before: Sequence[DeviceFacts] = (),
    tell: Callable[[str], object] = lambda _: None,
    lab: Select | None = None,
    *,
    only_builds: bool = False,
) -> Plan:
    """Return the plan of a sweep for the present devices. Trains nothing and builds no model; a missing runner is
    compiled, and for ExecuTorch's runner libraries are downloaded.

    `folder`: for files of devices on this host. `roots`: the folders in which the user's own modules are searched.
    `before`: the sweep's devices in its last plan. A phone of `before` that cannot be reached now stays in the plan:
    its results are kept, and its jobs wait. `tell` gets a message for each such device, and for each device that
    `adb:*` leaves out. `lab` returns the devices that the hosts of a lab know by a name; with it, phones are those of
    the lab, not of this host. `only_builds`: nothing will be run, so a variant whose backend is checked during the
    build needs no device with that backend.

    Raises `DeviceError`, `ModelError`, `DataError`, and `EdgeSweepError` if a runtime or a toolchain is not on this
    machine.
    """
    _check_toolchains(spec, tell)
    used: list[str] = sorted({name for grid in spec.grids for name in grid.runtime})
    networks = list(spec.models)
    # A budget that is not decided yet may become a race, which has a sentinel.
    if spec.budget is None or protocol_of(spec).sentinel_every:
        used = sorted({*used, sentinel_rules.VARIANT.runtime})
        networks.append(sentinel_rules.MODEL)
    calibration, evaluation = image_sets.manifests(spec.data)
    versions: dict[str, str] = {}
    own_versions: dict[str, dict[str, str]] = {}
    references: dict[str, str] = {}
    own_references: dict[str, dict[str, str]] = {}
    for name in used:
        own_versions[name] = runtimes.get(name).versions()
        # Other packages must not change the keys of builds that do not use them.
        is_built_in = name in built_in.BUILT_IN_NAMES
        versions = versions | own_versions[name] if is_built_in else own_versions[name] | versions
        own_references[name] = runtimes.get(name).references()
        references |= own_references[name]

    attached: set[str] = set()

    def look(name: str) -> DeviceFacts:
        device = device_facts(name, folder, references, used, tell)
        attached.add(device.device_id)
        return device

    def supports(variant: Variant, device: DeviceFacts) -> Skip | None:
        if lack := no_program(device, variant.runtime, attached=device.device_id in attached):
            return Skip("no_program_there", lack)
        if lack := no_program_of_release(device, variant, attached=device.device_id in attached):
            return Skip("no_such_release", lack)
        if only_builds and catalog.backend_of(variant).checked_as_built:
            device = replace(device, backends=((variant.runtime, (variant.backend,)),))
        return runtimes.skip_of(variant, device)

    facts = _devices(spec.devices, folder, look, before, tell, lab)
    identities = Identities(
        models={model.name: identify(model, roots) for model in networks},
        calibration_id=calibration.id,
        evaluation_id=evaluation.id,
        versions=versions,
        own_versions=own_versions,
        runners={name: runtimes.get(name).runner() for name in used},
        references=references,
        own_references=own_references,
    )
    plan = expand(spec, facts, supports, identities)
    if calibration.count == 0 and any(is_calibrated(job.variant) for job in plan.jobs):
        tell(f"builds that are calibrated will fail, data.calibration is {calibration.source}")
    for warning in (*folder_levels.folder_warnings(spec.data), *too_few_images(spec.data, spec.objective)):
        tell(warning)
    return plan


def _check_toolchains(spec: SweepSpec, tell: Callable[[str], object]) -> None:
    """Check that each toolchain can build or verify on this machine. Raises `EdgeSweepError` with the command that
    installs it."""
    for grid in spec.grids:
        for name in grid.runtime:
            chosen = toolchains.of_runtime((*grid.toolchain, *grid.runner_toolchain), name)
            if INSTALLED in chosen or not toolchains.of_runtime(grid.toolchain, name):
                environments.check_installed(name)
    written = {(text, grid.runtime) for grid in spec.grids for text in (*grid.toolchain, *grid.runner_toolchain)}
    releases = {text for text, _ in written if "==" in text}
    used = {text for text, names in written if any(text in toolchains.of_runtime((text,), name) for name in names)}
    for text in sorted(releases):
        if text in used:
            environments.check(text)
        else:
            tell(f"{text} changes nothing: no grid that names it has runtime: [{text.partition('==')[0]}]")


def device_facts(
    name: str, folder: Path, references: Mapping[str, str], used: Iterable[str], tell: Callable[[str], object]
) -> DeviceFacts:
    """Return the facts of a device. Those of this host and its virtual phones include the backends that can be checked
    and not timed there. Raises `DeviceError`."""
    attached = attach(name, folder, used, tell)
    attached.device.release()
    facts = attached.facts
    is_host = catalog.is_host(facts.name)
    if not (is_host or facts.exec_context == VIRTUAL_PHONE):
        return facts
    offered = {backend for _, backends in facts.backends for backend in backends}
    # References in C++ need a compiler; those in Python run on this host.
    possible = {True: is_host, False: compiler() is not None}
    checked = (
        backend for backend in references if possible[catalog.checked_in_python(backend)] and backend not in offered
    )
    return replace(facts, emulates=tuple(sorted(checked)))


def _devices(
    names: Sequence[str],
    folder: Path,
    look: Callable[[str], DeviceFacts],
    before: Sequence[DeviceFacts],
    tell: Callable[[str], object],
    lab: Select | None,
) -> tuple[DeviceFacts, ...]:
    """Return the devices, each unit once, in the order of the sweep file."""
    units: dict[str, DeviceFacts] = {}
    causes: set[str] = set()
    for name in dict.fromkeys(names):
        entry = catalog.device(name)
        discovered = entry if entry is not None and entry.discovery and name == f"{entry.name}:*" else None
        in_lab = lab_names.only_in_a_lab(name) or (lab is not None and entry is not None and bool(entry.discovery))
        if in_lab:
            earlier = [facts for facts in before if lab_names.may_mean(name, facts)]
            present = _of_lab(name, lab)
        else:
            earlier = [
                facts
                for facts in before
                if entry is not None
                and entry.may_be_away
                and catalog.device(facts.name) == entry
                and (discovered or name == facts.name)
            ]
            present = _all(discovered, look, tell) if discovered else iter([_device_or_error(name, look)])
        for facts in present:
            if isinstance(facts, DeviceFacts):
                first = units.setdefault(facts.device_id, facts)
                if first.name != facts.name:
                    _check_one_unit(first, facts, folder)
                    tell(f"{facts.name} is the same device as {first.name}: measured once")
            elif not earlier:
                raise facts
            elif (cause := facts.kind if facts.kind in HOST_KINDS else facts.message) not in causes:
                causes.add(cause)  # a problem of the host affects all its phones
                tell(str(facts))
        for facts in earlier:
            if facts.device_id not in units:
                tell(f"{facts.name} cannot be reached: its results are kept, and its jobs wait for it")
                units[facts.device_id] = facts
    return tuple(units.values())


def _of_lab(name: str, lab: Select | None) -> Iterator[DeviceFacts | DeviceError]:
    """Yield the devices of all hosts of a lab; if there are none, an error."""
    if lab is None:
        yield DeviceError(
            "no_lab",
            f"{name} is a device of a lab",
            "name its head, as plan, run and devices can: --lab HOST:PORT --token-file FILE",
        )
        return
    listed = list(lab(name))
    yield from listed
    if not listed:
        yield DeviceError(
            "no_phone",
            f"no host of the lab has a device {name} that can be measured",
            "edgesweep hosts lists hosts and devices, and says why one cannot be used",
        )


def _check_one_unit(first: DeviceFacts, other: DeviceFacts, folder: Path) -> None:
    """Refuse two devices that report the same id, with a `DeviceError`."""
    entry = catalog.device(first.name)
    if entry is None or not entry.discovery or catalog.device(other.name) != entry:
        return
    if lab_names.host_of(first.name) is not None:
        return  # a lab reports it
    if not devices.discovery(entry).are_one(first.name, other.name, folder):
        raise DeviceError(
            "ambiguous_serial",
            f"{first.name} and {other.name} are two phones that both call themselves {first.device_id}",
            "remove one of them from the sweep: their results could not be distinguished",
        )


def _device_or_error(name: str, look: Callable[[str], DeviceFacts]) -> DeviceFacts | DeviceError:
    try:
        return look(name)
    except DeviceError as error:
        return error
    except Exception as error:  # noqa: BLE001  # any error: one phone must not stop the others
        return DeviceError(
            "worker_error", f"{name} cannot be planned for: {in_one_line(error)}", "take it out of the sweep"
        )


def _all(
    entry: DeviceEntry, look: Callable[[str], DeviceFacts], tell: Callable[[str], object]
) -> Iterator[DeviceFacts | DeviceError]:
    """Yield the devices of one transport on this host, as for `adb:*`; if there are none, an error."""
    transport, count = devices.discovery(entry), 0
    names, refused = transport.attached()
    for facts in (_device_or_error(name, look) for name in names):
        if isinstance(facts, DeviceFacts):
            count += 1
            yield facts
        else:
            refused.append(facts)
    for error in refused:
        tell(str(error))
    if not count:
        yield DeviceError(
            "no_phone",
            f"{entry.name}:* finds no phone that can be measured" + (f" ({refused[0].message})" if refused else ""),
            refused[0].next_step if refused else transport.NEXT_STEP,
        )


def no_program(facts: DeviceFacts, runtime: str = Variant().runtime, *, attached: bool = True) -> str | None:
    """Return why a device without Python cannot run this runtime, with the next step; `None` if it can.

    `attached`: whether programs were pushed to the device for this plan; if not, a missing program is no reason. In a
    lab the device's host pushes its own programs, and reports which.
    """
    is_brought = runtime in built_in.ALWAYS_BROUGHT
    if _has_python(facts) or (facts.runtime_versions and is_brought) or runtime in dict(facts.runners):
        return None
    if (host := lab_names.host_of(facts.name)) is not None:
        lack = f"none for {facts.abi}; {_PUT_THERE}"
        return f"no program of {runtime} can be pushed to {facts.name}: the host {host} has {lack}"
    try:
        runtimes.get(runtime).programs(facts)
    except EdgeSweepError as error:
        return error.one_line
    except (Exception, SystemExit) as error:  # another package's code
        if is_brought:
            raise
        return f"the runtime {runtime} cannot be pushed to {facts.name}: {in_one_line(error)}"
    return None if is_brought or not attached else f"the runtime {runtime} could not be pushed to {facts.name}"


def no_program_of_release(facts: DeviceFacts, variant: Variant, *, attached: bool) -> str | None:
    """Return why a device cannot run the release that is to run a variant; otherwise as `no_program`."""
    host = lab_names.host_of(facts.name)
    if variant.runner_toolchain == INSTALLED or _has_python(facts) or not (attached or host):
        return None
    runtime = runtimes.get(variant.runtime)
    if not isinstance(runtime, ReleaseRuntime):
        return f"{facts.name} runs the {variant.runtime} that it has: write runner_toolchain: [installed]"
    if host:
        if variant.runner_toolchain in facts.releases:
            return None
        lack = f"no library of {variant.runner_toolchain} for {facts.abi} beside its runner; {_PUT_THERE}"
        return f"the host {host} has {lack}, or write runner_toolchain: [installed]"
    try:
        runtime.programs_of(facts, variant.runner_toolchain)
    except EdgeSweepError as error:
        return f"{error.message}; put it there, or write runner_toolchain: [installed]"
    return None


def _has_python(facts: DeviceFacts) -> bool:
    """Tell whether the device runs this host's Python."""
    return catalog.is_host(facts.name) or bool(facts.runtime_versions and not facts.runners)
