"""`edgesweep devices`: lists devices, deletes EdgeSweep's files on phones, queries phones for their accelerators, and
keeps devices out of sweeps."""

import sys
from collections.abc import Sequence
from pathlib import Path

import click
from click.core import ParameterSource

from sweeps.cli.lab import LabOptions, chosen_lab, lab_options, needed_lab, open_lab
from sweeps.cli.options import (
    EXIT_INTERRUPTED,
    ListingGroup,
    executor_option,
    json_option,
    print_json,
    sweep_file_argument,
    workspace_option,
)
from sweeps.cli.quarantine import quarantine, readmit
from sweeps.cli.session import CtrlC
from sweeps.device_facts import DeviceFacts
from sweeps.errors import DeviceError
from sweeps.operations.event_output import show
from sweeps.operations.executor_choice import open_executor
from sweeps.operations.sweep_plan import load_sweep, make_plan, roots_of
from sweeps.planning.plan import Plan
from sweeps.quarantine import Quarantine, QuarantineBook, quarantines_of
from sweeps.report import accelerators_text as accelerators_report
from sweeps.report.devices_text import facts_document, print_devices
from sweeps.report.progress import RunProgress
from sweeps.report.terminal_tables import open_console
from sweeps.spec import catalog, lab_names
from sweeps.spec.model_inputs import ModelSpec
from sweeps.spec.sweep import SweepSpec
from sweeps.text import plain
from sweeps.workspace import Workspace
from workers.accelerators import Inquiry, of_accelerators
from workers.devices import registry
from workers.hosts.away import away
from workers.hosts.interface import Hello
from workers.measure.attach import attach
from workers.models import prepare as models
from workers.models.prepared_model import PreparedModel
from workers.plan_inputs import no_program


@click.group(cls=ListingGroup, invoke_without_command=True)
@workspace_option
@lab_options
@json_option
@click.pass_context
def devices(context: click.Context, root: Path, lab: str | None, token_file: Path | None, as_json: bool) -> None:
    """List the devices that can measure here, with the facts that results depend on.

    \b
    Phones are found with adb; boards are those in EDGESWEEP_BOARDS, as in "pi@board-1 pi@board-2:2222".
    A device that cannot be used is listed with the reason and the next step, and one in quarantine with what put it
    there. With --lab: the devices of all hosts of a lab.
    Example: edgesweep devices --json
    """
    if context.invoked_subcommand is not None:
        for option in ("lab", "token_file"):
            if context.get_parameter_source(option) is ParameterSource.COMMANDLINE:
                written, verb = f"--{option.replace('_', '-')}", context.invoked_subcommand
                raise click.UsageError(f"write {written} after {verb}, if it has it: devices {verb} {written} ...")
        return
    chosen = chosen_lab(lab, token_file)
    usable, refused = _on_this_computer(root) if chosen is None else _of_lab(chosen)
    kept_out = quarantines_of(usable)
    away = [
        record
        for record in QuarantineBook().records()
        if record.quarantine and record.device_id not in {facts.device_id for facts in usable}
    ]
    if as_json:
        troubles = [error.document for error in refused]
        listed = [facts_document(facts) | {"quarantine": _document(kept_out.get(facts.device_id))} for facts in usable]
        quarantined = [
            {"name": record.name, "device_id": record.device_id, "quarantine": _document(record.quarantine)}
            for record in away
        ]
        print_json({"devices": listed, "refused": troubles, "quarantined_and_away": quarantined})
        return
    print_devices(usable)
    for facts in usable:
        if (entry := kept_out.get(facts.device_id)) is not None:
            click.echo(plain(f"{facts.name} is quarantined {entry.text}; {entry.way_out}"))
    for record in away:
        if record.quarantine is not None:
            click.echo(plain(f"{record.name}, which is not here, is quarantined {record.quarantine.text}"))
    _tell(refused)


def _on_this_computer(root: Path) -> tuple[list[DeviceFacts], list[DeviceError]]:
    folder = Workspace.open(root).root
    phones, refused = registry.units()
    usable = []
    for name in (*(entry.name for entry in catalog.devices().values() if not entry.unit), *phones):
        try:
            with registry.faults_of(catalog.devices()[name.partition(":")[0]]):
                attached = attach(name, folder)
                attached.device.release()
        except DeviceError as error:
            refused.append(error)
            continue
        facts = attached.facts
        usable.append(facts)
        if name in phones and (lack := no_program(facts)) is not None:
            refused.append(DeviceError("no_runner", f"{facts.name} has no runner yet: {lack}"))
    return usable, refused


def _of_lab(options: LabOptions) -> tuple[list[DeviceFacts], list[DeviceError]]:
    with open_lab(options, "devices") as lab:
        return of_hosts(lab.hellos(), lab.mute())


def of_hosts(
    hellos: Sequence[tuple[Hello, bool]], mute: Sequence[DeviceError]
) -> tuple[list[DeviceFacts], list[DeviceError]]:
    """Return the devices of a lab, and the errors of devices and hosts that cannot be used. `hellos`, `mute`: as of
    `Lab`."""
    usable = [hello.named(device.facts) for hello, _ in hellos for device in hello.devices]
    refused = [*mute, *(away(hello.name, "it does not answer") for hello, answers in hellos if not answers)]
    for hello, _ in hellos:
        refused += [
            DeviceError(error.kind, f"{hello.name}: {error.message}", error.next_step) for error in hello.refused
        ]
    refused += [
        DeviceError(
            "no_runner",
            f"{facts.name} has no runner yet: its host has no program for {facts.abi}",
            "on that computer: edgesweep runner build; edgesweep explain lab tells more",
        )
        for facts in usable
        if not facts.runtime_versions
    ]
    return usable, refused


@devices.command()
@click.argument("names", nargs=-1, metavar="[adb:SERIAL | ssh:USER@BOARD]...")
def clean(names: tuple[str, ...]) -> None:
    """Delete EdgeSweep's files on phones and boards: on the named ones, or on every one that `devices` lists.

    \b
    Results are not stored there, so none are lost. Files that are needed again are pushed again.
    Example: edgesweep devices clean adb:R58M12ABCDE
    """
    for name in names:
        _check_unit(name)
    targets: Sequence[str] = names
    refused: list[DeviceError] = []
    if not targets:
        targets, refused = registry.units()
        if not targets:
            click.echo("no phone is attached", err=True)
    for name in targets:
        try:
            registry.discovery(catalog.devices()[name.partition(":")[0]]).clean(name)
        except DeviceError as error:
            refused.append(error)
        else:
            click.echo(f"{plain(name)}: clean")
    _tell(refused)
    if refused:
        sys.exit(1)


@devices.command()
@click.argument("name", metavar="host:NAME/DEVICE")
@lab_options
def free(name: str, lab: str | None, token_file: Path | None) -> None:
    """End another sweep's use of a device in a lab, and the block that runs on it.

    Its jobs there wait for its next run.

    \b
    Example: edgesweep devices free host:lab-2/adb:R58M12ABCDE
    """
    with open_lab(needed_lab(lab, token_file), "devices free") as opened:
        user = opened.free(name)
    click.echo(f"{plain(name)}: {f'{plain(user)} has it no more' if user else 'nobody has it'}")


@devices.command()
@sweep_file_argument
@workspace_option
@executor_option
@json_option
def accelerators(sweep_file: Path, root: Path, executor: str, as_json: bool) -> None:
    """Ask each phone of a sweep which accelerators support which operators of its NNAPI models.

    \b
    Pushes one NNAPI build of each model and precision and queries NNAPI; nothing is measured.
    Supported means that a driver accepts the operator; NNAPI does not report where it runs.
    Example: edgesweep devices accelerators sweep.yaml
    """
    spec = of_accelerators(load_sweep(sweep_file, yes=True))
    roots = roots_of(sweep_file)
    workspace = Workspace.open(root)
    with workspace.lock():
        planned = make_plan(spec, roots, workspace)
        inquiry = Inquiry(planned, workspace.root)
        if inquiry.pending() and _build(inquiry, spec, planned, workspace, roots, executor):
            sys.exit(EXIT_INTERRUPTED)
        answers = list(inquiry.answers())
    if as_json:
        print_json(accelerators_report.document(answers))
        return
    open_console().print(accelerators_report.table(answers))


def _build(
    inquiry: Inquiry, spec: SweepSpec, planned: Plan, workspace: Workspace, roots: Sequence[Path], executor: str
) -> bool:
    """Build the models that the query of accelerators needs. Returns whether an end was requested."""
    with (
        RunProgress() as progress,
        open_executor(executor, workspace, planned) as opened,
        # The handler comes after the executor, because Ray's start replaces signal handlers.
        CtrlC(progress.note) as stop,
    ):

        def prepare(model: ModelSpec) -> PreparedModel:
            versions = planned.identities.versions
            return models.prepare(model, spec.data, workspace, versions, progress.preparing, roots)

        for event in inquiry.build(opened, prepare, stop):
            show(event, progress)
        return stop()


def _tell(refused: Sequence[DeviceError]) -> None:
    for error in refused:
        click.echo(plain(str(error)), err=True)


def _document(quarantine: Quarantine | None) -> dict[str, object] | None:
    return None if quarantine is None else quarantine.document


def _check_unit(name: str) -> None:
    entry = catalog.device(name)
    if entry is None or not entry.discovery or name == f"{entry.name}:*" or lab_names.host_of(name) is not None:
        raise DeviceError("unknown_device", f"{name!r} names no phone", "edgesweep devices lists them: adb:SERIAL")


devices.add_command(quarantine)
devices.add_command(readmit)
