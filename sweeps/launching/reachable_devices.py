"""The devices that a sweep could run on: those that answer now, and those of a lab's hosts, as the command line lists
them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sweeps.launching.inquiry import ask, unread
from sweeps.workspace import Workspace

LIMIT_S = 120.0
"""The longest wait: an adb server may have to be started, and a phone may not answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One device that answered."""

    name: str
    """The name of the device in sweep files."""
    device: str
    """Maker, model and chip, for people."""
    quarantined: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRow:
    """One device of a host of a lab; or a host without one."""

    host: str
    answers: bool
    device: str
    """The name of the device in sweep files; empty: the host has none."""
    device_class: str
    used_by: str
    """The user that measures on the device; empty: nobody does."""
    running: str
    left_s: float | None
    """The seconds until the user is done with the device, if they are known."""
    waiting: int
    """The number of others that wait for the device."""


def devices(
    workspace: Workspace, options: Sequence[str] = (), limit_s: float = LIMIT_S
) -> tuple[tuple[Found, ...], tuple[str, ...]]:
    """The devices that can measure, and why others cannot, one line each.

    `options`: those that name a lab, to ask its hosts instead of this computer. Raises `EdgeSweepError`.
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
            Found(name=device["name"], device=device["device_class"], quarantined=device["quarantine"] is not None)
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
    """The hosts of the lab that the `options` name, by device; and the troubles of the lab, one line each.

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
