"""The devices that a sweep could run on: this computer's or a lab's devices that answer now, as `edgesweep devices` and
`edgesweep hosts` list them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sweeps.launching.inquiry import ask, unread
from sweeps.workspace import Workspace

LIMIT_S = 120.0
"""Time limit in seconds: an adb server may have to be started, and a phone may not answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachedDevice:
    """Device that answered."""

    name: str
    """Name of the device in sweep files."""
    device: str
    """Maker, model and chip, for people."""
    quarantined: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRow:
    """One device of a lab's host, or a host that has no device."""

    host: str
    answers: bool
    device: str
    """Name of the device in sweep files; empty if the host has no device."""
    device_class: str
    used_by: str
    """User that measures on the device; empty if nobody does."""
    running: str
    left_s: float | None
    """Seconds until this user is done with the device; `None` if they are not known."""
    waiting: int
    """Number of other users that wait for the device."""


def devices(
    workspace: Workspace, options: Sequence[str] = (), limit_s: float = LIMIT_S
) -> tuple[tuple[AttachedDevice, ...], tuple[str, ...]]:
    """Return the devices that can measure, and for each other device one line that says why it cannot.

    `options`: command-line options that name a lab; with them, the devices are those of the lab's hosts instead of this
    computer's. Raises `EdgeSweepError`.
    """
    subject, verb = "the list of devices", "devices"
    document, _ = ask(
        (verb, "--workspace", str(workspace.root), *options),
        workspace,
        subject=subject,
        limit_s=limit_s,
        next_step="look which one does not answer: edgesweep devices",
    )
    try:
        usable = tuple(
            AttachedDevice(
                name=device["name"], device=device["device_class"], quarantined=device["quarantine"] is not None
            )
            for device in document["devices"]
        )
        refused = [
            refusal["message"] + (f"; next step: {refusal['next_step']}" if refusal["next_step"] else "")
            for refusal in document["refused"]
        ]
    except (KeyError, TypeError) as error:
        raise unread(verb, subject) from error
    return usable, tuple(refused)


def hosts(
    workspace: Workspace, options: Sequence[str], limit_s: float = LIMIT_S
) -> tuple[tuple[HostRow, ...], tuple[str, ...]]:
    """Return one row for each device of the hosts of the lab that the `options` name, and the troubles of the lab, one
    line each.

    Raises `EdgeSweepError`.
    """
    subject, verb = "the list of hosts", "hosts"
    document, _ = ask(
        (verb, *options),
        workspace,
        subject=subject,
        limit_s=limit_s,
        next_step="look whether its head runs: edgesweep hosts",
    )
    try:
        rows = tuple(
            HostRow(
                host=host["name"],
                answers=bool(host["answers"]),
                device=device["name"],
                device_class=device["device_class"],
                used_by=device["used_by"] or "",
                running=device["running"] or "",
                left_s=None if device["left_s"] is None else float(device["left_s"]),
                waiting=len(device["waiting"]),
            )
            for host in document["hosts"]
            for device in host["devices"] or (_NO_DEVICE,)
        )
        return rows, tuple(map(str, document["troubles"]))
    except (KeyError, TypeError, ValueError) as error:
        raise unread(verb, subject) from error


_NO_DEVICE: dict[str, Any] = {
    "name": "",
    "device_class": "",
    "used_by": None,
    "running": None,
    "left_s": None,
    "waiting": (),
}
