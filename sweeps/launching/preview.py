"""The plan of a sweep file that is not started yet: `edgesweep plan --json` as a process with limits."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import Any

from sweeps.launching.inquiry import ask, unread
from sweeps.launching.start import unwritable
from sweeps.whole_file import write_whole
from sweeps.workspace import Workspace

LIMIT_S = 180.0
"""The longest wait: a phone may not answer, and the first plan for phones compiles their runner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedDevice:
    """One device of a plan."""

    name: str
    device: str
    """Maker, model and chip, for people."""
    jobs: int
    done: int
    """The number of jobs that were measured already, or failed: they are not measured again."""
    builds_there: int
    """The number of jobs whose artifact is there already."""
    seconds: float
    """A rough estimate of the device's own work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """The work that a run would do."""

    sweep: str
    devices: tuple[PlannedDevice, ...]
    skipped: tuple[tuple[str, str, str], ...]
    """The combination, device and reason of each skip."""
    skip_kinds: tuple[str, ...]
    """The kinds of these reasons (`sweeps.skip_kinds.SKIPS`), each once."""
    jobs: tuple[tuple[str, str, str], ...]
    """The name, device and state of each job: done, failed, built, to build."""
    builds_s: float
    seconds: float
    """A rough estimate of the whole."""
    notes: tuple[str, ...]
    """The messages of the plan beside its document."""


def preview(
    workspace: Workspace,
    text: str,
    models: Sequence[Path] = (),
    options: Sequence[str] = (),
    limit_s: float = LIMIT_S,
) -> Preview:
    """Plan a sweep file with this text. Trains nothing and builds no model; a runner that is missing is compiled.

    `options`: more arguments of `plan`. Raises `EdgeSweepError` with what the plan said if it fails or takes longer
    than `limit_s`.
    """
    file = workspace.launches / f".preview-{token_hex(8)}.yaml"
    try:
        workspace.launches.mkdir(parents=True, exist_ok=True)
        write_whole(file, text)
        document, messages = ask(
            ("plan", "--workspace", str(workspace.root), *options, str(file)),
            workspace,
            subject="the plan",
            limit_s=limit_s,
            next_step="look whether its devices answer: edgesweep devices",
            models=models,
            file=file,
        )
    except OSError as error:
        raise unwritable(workspace, error) from error
    finally:
        with suppress(OSError):
            file.unlink(missing_ok=True)
    try:
        return _read(document, tuple(messages.strip().splitlines()))
    except (ValueError, KeyError, TypeError) as error:
        raise unread("plan", "the plan") from error


def _read(document: dict[str, Any], notes: tuple[str, ...]) -> Preview:
    names = {device["device_id"]: device["name"] for device in document["devices"]}
    devices = []
    for device in document["devices"]:
        states = [job["state"] for job in document["jobs"] if job["device_id"] == device["device_id"]]
        devices.append(
            PlannedDevice(
                name=device["name"],
                device=device["device"],
                jobs=len(states),
                done=sum(state in ("done", "failed") for state in states),
                builds_there=sum(state == "built" for state in states),
                seconds=float(device["estimate_s"]),
            )
        )
    return Preview(
        sweep=document["sweep"],
        devices=tuple(devices),
        skipped=tuple((skip["name"], names.get(skip["device_id"], ""), skip["reason"]) for skip in document["skipped"]),
        skip_kinds=tuple(dict.fromkeys(str(skip["kind"]) for skip in document["skipped"])),
        jobs=tuple((job["name"], names[job["device_id"]], job["state"]) for job in document["jobs"]),
        builds_s=float(document["estimate_builds_s"]),
        seconds=float(document["estimate_s"]),
        notes=notes,
    )
