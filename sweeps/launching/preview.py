"""The plan of a sweep file that is not started yet: `edgesweep plan --json` in a separate process with limits of
time."""

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
"""Time limit in seconds: a phone may not answer, and the first plan for phones compiles their runner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedDevice:
    """One device of a plan."""

    name: str
    device: str
    """Display name of the device: maker, model and chip."""
    jobs: int
    done: int
    """Number of jobs that were measured already, or failed; a run does not measure them again."""
    builds_there: int
    """Number of jobs whose artifact exists already."""
    seconds: float
    """Rough estimate of the device's own work, in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """Work that a run would do."""

    sweep: str
    devices: tuple[PlannedDevice, ...]
    skipped: tuple[tuple[str, str, str], ...]
    """Name, device and reason of each skipped combination."""
    skip_kinds: tuple[str, ...]
    """Kinds of the skipped combinations' reasons (`sweeps.skip_kinds.SKIPS`), each once."""
    jobs: tuple[tuple[str, str, str], ...]
    """Name, device and state of each job: done, failed, built, to build."""
    builds_s: float
    seconds: float
    """Rough estimate of the whole run, in seconds."""
    notes: tuple[str, ...]
    """Messages that the plan printed on stderr."""


def preview(
    workspace: Workspace,
    text: str,
    models: Sequence[Path] = (),
    options: Sequence[str] = (),
    limit_s: float = LIMIT_S,
) -> Preview:
    """Plan a sweep file with this text. It trains nothing and builds no model; a runner that is missing is compiled.

    `options`: more arguments of `plan`. Raises `EdgeSweepError` with the plan's message if it fails or takes longer
    than `limit_s` seconds.
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
