"""`edgesweep devices quarantine` and `readmit`: keep a device out of all sweeps, and let it in again."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sweeps.cli.lab import LabOptions, chosen_lab, lab_options, open_lab
from sweeps.cli.options import workspace_option
from sweeps.device_facts import DeviceFacts
from sweeps.errors import DeviceError
from sweeps.journal.journal import Journal
from sweeps.quarantine import QuarantineBook
from sweeps.spec import catalog, lab_names
from sweeps.text import plain
from sweeps.workspace import Workspace
from workers.devices import registry

if TYPE_CHECKING:
    from workers.hosts.lab import Lab

_device_argument = click.argument("name", metavar="DEVICE")


@click.command()
@_device_argument
@click.option("--reason", default="", help="Why, for whoever reads it later.")
@workspace_option
@lab_options
def quarantine(name: str, reason: str, root: Path, lab: str | None, token_file: Path | None) -> None:
    """Leave a device alone in all sweeps of this user, until `readmit`. Its jobs wait, its results stay.

    \b
    DEVICE is a name as in sweep files, or an id as `edgesweep devices` lists it; with --lab also of a lab's device.
    Example: edgesweep devices quarantine adb:R58M12ABCDE --reason "battery swells"
    """
    with _opener(chosen_lab(lab, token_file)) as opened:
        device_id, device_name = _device(name, root, opened)
    entry = QuarantineBook().put(device_id, device_name, reason)
    click.echo(plain(f"{device_name} is quarantined {entry.text}; {entry.way_out}"))


@click.command()
@_device_argument
@workspace_option
@lab_options
def readmit(name: str, root: Path, lab: str | None, token_file: Path | None) -> None:
    """Let a quarantined device in again, without a canary job, and forget its faults.

    \b
    Example: edgesweep devices readmit adb:R58M12ABCDE
    """
    with _opener(chosen_lab(lab, token_file)) as opened:
        device_id, device_name = _device(name, root, opened)
        was = QuarantineBook().readmit(device_id)
        outcome = "was not quarantined" if was is None else f"was quarantined {was.text}; it is let in again"
        click.echo(plain(f"{device_name} {outcome}"))
        if opened is not None and was is not None and was.by == "edgesweep":
            # The lab's hosts show the quarantine to other users until they get this hint.
            opened().hint(device_id, "")


@contextmanager
def _opener(options: LabOptions | None) -> "Iterator[Callable[[], Lab] | None]":
    """Yield a function that opens the lab at its first call, because that may start a Ray node, and returns the same
    lab later; `None` if no lab is named."""
    with ExitStack() as stack:
        yield None if options is None else cache(lambda: stack.enter_context(open_lab(options, "devices")))


def _device(name: str, root: Path, lab: "Callable[[], Lab] | None") -> tuple[str, str]:
    """Return the id of a device, and its display name. Raises `DeviceError`: `unknown_device`, or the error by which
    its id could not be read."""
    entry = catalog.device(name)
    refused = DeviceError(
        "unknown_device", f"{name!r} names no device", "edgesweep devices lists them: local, adb:SERIAL"
    )
    in_lab = lab_names.host_of(name) is not None or (lab is not None and entry is not None and bool(entry.discovery))
    if entry is not None and name != f"{entry.name}:*" and not (in_lab and lab):
        try:
            return registry.connect(name, Workspace.open(root).root).facts().device_id, name
        except DeviceError as error:
            refused = error
    # The device may be away, or given by its id. A lab is queried last.
    candidates = [(record.device_id, record.name) for record in QuarantineBook().records()]
    candidates += [(facts.device_id, facts.name) for facts in _planned(Workspace(root))]
    match = next((entry for entry in candidates if name in entry), None)
    if match is None and lab is not None:
        match = device_of_lab(name, lab())
    if match is None:
        raise refused
    return match


def device_of_lab(name: str, lab: "Lab") -> tuple[str, str] | None:
    """Return the id and the name of a lab's device with this name or id; `None` if there is none. Raises `DeviceError`
    if several match."""
    facts = [device for device in lab.select(name) if isinstance(device, DeviceFacts)]
    facts = facts or [
        hello.named(device.facts)
        for hello, _ in lab.hellos()
        for device in hello.devices
        if device.facts.device_id == name
    ]
    if len({device.device_id for device in facts}) > 1:
        raise DeviceError(
            "unknown_device",
            f"{name!r} names {len(facts)} devices",
            f"name one: {', '.join(device.name for device in facts)}",
        )
    return (facts[0].device_id, facts[0].name) if facts else None


def _planned(workspace: Workspace) -> list[DeviceFacts]:
    """Return the devices of this workspace's sweeps, which may be away now; those of the latest sweep come first."""
    if not workspace.journal.exists():
        return []
    with Journal.open(workspace.journal, read_only=True) as journal:
        return [facts for info in journal.sweeps.all() for facts in journal.plans.devices(info.name)]
