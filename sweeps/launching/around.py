"""What a sweep could run on: the devices that answer now, and the hosts of a lab, as the command line lists them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sweeps.launching.inquiry import ask, unread
from sweeps.workspace import Workspace

LIMIT_S = 120.0
"""An adb server is started, and a phone that does not answer is waited for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One device that answered."""

    name: str
    """As a sweep file calls it."""
    device: str
    """For people: maker, model and chip."""
    quarantined: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRow:
    """One device of a host of a lab; or a host without one."""

    host: str
    answers: bool
    device: str
    """Its name in sweep files; empty: the host has none."""
    device_class: str
    used_by: str
    """Empty: nobody measures on it."""
    running: str
    left_s: float | None
    """Until its user is done with it, if that is known."""
    waiting: int
    """So many others wait for it."""


def devices(
    workspace: Workspace, options: Sequence[str] = (), limit_s: float = LIMIT_S
) -> tuple[tuple[Found, ...], tuple[str, ...]]:
    """The devices that can measure, and why others cannot, one line each.

    `options`: those that name a lab, to ask its hosts instead of this computer. Raises `EdgeSweepError`.
    """
    what, verb = "the list of devices", "devices"
    document, _ = ask(
        (verb, "--workspace", str(workspace.root), *options),
        workspace,
        what=what,
        limit_s=limit_s,
        next_step="look which one does not answer: edgesweep devices",
    )
    try:
        found = tuple(
            Found(name=one["name"], device=one["device_class"], quarantined=one["quarantine"] is not None)
            for one in document["devices"]
        )
        refused = [
            one["message"] + (f"; next step: {one['next_step']}" if one["next_step"] else "")
            for one in document["refused"]
        ]
    except (KeyError, TypeError) as error:
        raise unread(verb, what) from error
    return found, tuple(refused)


def hosts(
    workspace: Workspace, options: Sequence[str], limit_s: float = LIMIT_S
) -> tuple[tuple[HostRow, ...], tuple[str, ...]]:
    """The hosts of the lab that the `options` name, by device; and what is not as it should be, one line each.

    Raises `EdgeSweepError`.
    """
    what, verb = "the list of hosts", "hosts"
    document, _ = ask(
        (verb, *options), workspace, what=what, limit_s=limit_s, next_step="look whether its head runs: edgesweep hosts"
    )
    try:
        rows = tuple(
            HostRow(
                host=host["name"],
                answers=bool(host["answers"]),
                device=one["name"],
                device_class=one["device_class"],
                used_by=one["used_by"] or "",
                running=one["running"] or "",
                left_s=None if one["left_s"] is None else float(one["left_s"]),
                waiting=len(one["waiting"]),
            )
            for host in document["hosts"]
            for one in host["devices"] or (_NO_DEVICE,)
        )
        return rows, tuple(map(str, document["troubles"]))
    except (KeyError, TypeError, ValueError) as error:
        raise unread(verb, what) from error


_NO_DEVICE: dict[str, Any] = {
    "name": "",
    "device_class": "",
    "used_by": None,
    "running": None,
    "left_s": None,
    "waiting": (),
}
