"""`edgesweep hosts`: lists a lab's device hosts with their devices, versions and running work."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import click
from rich.table import Table

from sweeps.cli.lab import lab_options, needed_lab, open_lab
from sweeps.cli.options import json_option, print_json
from sweeps.quarantine import Quarantine, quarantines_of
from sweeps.report.terminal_tables import cells, new_table, open_console
from sweeps.text import plain
from workers.hosts.interface import Hello, HostDevice, Versions, left_of
from workers.hosts.result_buffer import KEPT_DAYS
from workers.hosts.this_machine import versions


@click.command()
@lab_options
@json_option
def hosts(lab: str | None, token_file: Path | None, as_json: bool) -> None:
    """List the hosts of a lab with their devices, versions, health, and what is measured.

    \b
    Example: edgesweep hosts --lab 10.0.0.5:6379 --token-file lab-token
    """
    with open_lab(needed_lab(lab, token_file), "hosts") as opened:
        hellos, mute = opened.hellos(), opened.mute()
    own = versions()
    kept_out = quarantines_of(device.facts for hello, _ in hellos for device in hello.devices)
    lines = [*(error.one_line for error in mute), *troubles(hellos, own, time.time(), kept_out)]
    if as_json:
        documents = [_document(hello, own, kept_out, answers=answers) for hello, answers in hellos]
        print_json({"hosts": documents, "troubles": lines})
        return
    console = open_console()
    for hello, answers in hellos:
        console.print(_table(hello, own, answers=answers))
    for line in lines:
        click.echo(plain(line), err=True)


def _table(hello: Hello, own: Versions, *, answers: bool) -> Table:
    host_versions = hello.versions
    health = "does not answer" if not answers else "is not used" if host_versions.difference(own) else "answers"
    disk = f", {hello.free_bytes / 1e9:.0f} GB free" if hello.free_bytes else ""
    tools = "".join(f", {name} {version}" for name, version in hello.tools)
    title = (
        f"{hello.name}: {health}, EdgeSweep {host_versions.edgesweep}, Python {host_versions.python}, "
        f"Ray {host_versions.ray}{tools}{disk}"
    )
    table = new_table(title, "device", "class", "used by", "runs")
    for row in [_row(device) for device in hello.devices] or [("no device", "", "", "")]:
        table.add_row(*cells(*row))
    return table


def _row(device: HostDevice) -> tuple[str, str, str, str]:
    use = device.use
    user = "" if use is None else use.who + (" (gone)" if use.lapsed and use.who else "")
    waiting = f"; {len(use.waiting)} wait" if use is not None and use.waiting else ""
    left = f", {about} left" if use is not None and (about := left_of(use)) else ""
    return device.facts.name, device.facts.device_class, user + left + waiting, "" if use is None else use.running


def troubles(
    hellos: Sequence[tuple[Hello, bool]],
    own: Versions,
    now_s: float,
    kept_out: Mapping[str, Quarantine] = MappingProxyType({}),
) -> list[str]:
    """Return one line for each trouble of a lab: hosts that do not answer, other versions, clocks, names, quarantines.
    `now_s`: seconds since 1970. `kept_out`: quarantines by device id."""
    lines = [] if hellos else ["no host has joined: edgesweep host join"]
    names = [hello.name for hello, _ in hellos]
    for hello, answers in hellos:
        if not answers:
            lines.append(f"{hello.name} does not answer")
        if why := hello.versions.difference(own):
            lines.append(f"{hello.name} has {why}: update it, or this computer")
        if names.count(hello.name) > 1:
            lines.append(f"{hello.name} is the name of several hosts: give one of them another (--name)")
        if answers and (trouble := hello.clock_trouble(now_s)):
            lines.append(f"{hello.name}: {trouble}")
        lines += [f"{hello.name}: {error.one_line}" for error in hello.refused]
        lines += [
            f"{hello.name}: sweeps of {hint.user} leave {hint.device_id} alone, quarantined {hint.text}"
            for hint in hello.hints
            if hint.device_id not in kept_out
        ]
        if hello.stored:
            lines.append(
                f"{hello.name} keeps {hello.stored} results that no driver has fetched, {KEPT_DAYS} days at most"
            )
    holders: dict[str, list[str]] = {}
    for hello, _ in hellos:
        for device in hello.devices:
            holders.setdefault(device.facts.device_id, []).append(hello.named(device.facts).name)
    lines += [
        f"{name} is quarantined {kept_out[device_id].text}; {kept_out[device_id].way_out}"
        for device_id, names in holders.items()
        if device_id in kept_out
        for name in names
    ]
    lines += [
        f"{' and '.join(names)} both call themselves {device_id}"
        for device_id, names in holders.items()
        if len(names) > 1
    ]
    return list(dict.fromkeys(lines))


def _document(hello: Hello, own: Versions, kept_out: Mapping[str, Quarantine], *, answers: bool) -> dict[str, object]:
    return {
        "name": hello.name,
        "answers": answers,
        "versions": {
            "edgesweep": hello.versions.edgesweep,
            "protocol": hello.versions.protocol,
            "python": hello.versions.python,
            "ray": hello.versions.ray,
            **dict(hello.tools),
        },
        "usable": not hello.versions.difference(own),
        "tags": list(hello.tags),
        "started_ms": hello.boot,
        "clock_s": hello.clock_s,
        "free_bytes": hello.free_bytes,
        "stored_results": hello.stored,
        "devices": [
            {
                "name": hello.named(device.facts).name,
                "device_id": device.facts.device_id,
                "device_class": device.facts.device_class,
                "used_by": device.use.who if device.use else None,
                "running": device.use.running if device.use else None,
                "left_s": device.use.left_s if device.use and device.use.left_s else None,
                "left_at_least": bool(device.use and device.use.at_least),
                "waiting": list(device.use.waiting) if device.use else [],
                "quarantine": quarantine.document if (quarantine := kept_out.get(device.facts.device_id)) else None,
            }
            for device in hello.devices
        ],
        "hints": [{"device_id": hint.device_id, "user": hint.user, "text": hint.text} for hint in hello.hints],
        "refused": [error.document for error in hello.refused],
    }
