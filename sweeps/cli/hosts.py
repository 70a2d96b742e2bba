"""`edgesweep hosts`: the device hosts of a lab, with their devices, their versions and what runs."""

import time
from collections.abc import Sequence
from pathlib import Path

import click

from sweeps.cli.lab import lab_options, needed_lab, open_lab
from sweeps.cli.options import json_option, print_json
from sweeps.report.tables import cells, new_table, open_console
from sweeps.text import duration, plain
from workers.hosts.interface import Hello, HostDevice, Versions
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
        told, mute = opened.hellos(), opened.mute()
    own = versions()
    lines = [*(error.one_line for error in mute), *troubles(told, own, time.time())]
    if as_json:
        print_json({"hosts": [_document(hello, own, answers=answers) for hello, answers in told], "troubles": lines})
        return
    table = new_table("Hosts", "host", "device", "class", "used by", "runs")
    for hello, _ in told:
        rows = [_row(device) for device in hello.devices] or [("no device", "", "", "")]
        for number, row in enumerate(rows):
            table.add_row(*cells(hello.name if number == 0 else "", *row))
    open_console().print(table)
    for line in lines:
        click.echo(plain(line), err=True)


def _row(device: HostDevice) -> tuple[str, str, str, str]:
    use = device.use
    who = "" if use is None else use.who + (" (gone)" if use.lapsed and use.who else "")
    waiting = f"; {len(use.waiting)} wait" if use is not None and use.waiting else ""
    left = f", about {duration(use.left_s)} left" if use is not None and use.left_s else ""
    return device.facts.name, device.facts.device_class, who + left + waiting, "" if use is None else use.running


def troubles(told: Sequence[tuple[Hello, bool]], own: Versions, now_s: float) -> list[str]:
    """One line for each thing that is not as it should be. `now_s`: seconds since 1970."""
    lines = [] if told else ["no host has joined: edgesweep host join"]
    names = [hello.name for hello, _ in told]
    for hello, answers in told:
        if not answers:
            lines.append(f"{hello.name} does not answer")
        if why := hello.versions.difference(own):
            lines.append(f"{hello.name} has {why}: update it, or this computer")
        if names.count(hello.name) > 1:
            lines.append(f"{hello.name} is the name of several hosts: give one of them another (--name)")
        if answers and (trouble := hello.clock_trouble(now_s)):
            lines.append(f"{hello.name}: {trouble}")
        lines += [f"{hello.name}: {error.one_line}" for error in hello.refused]
        if hello.stored:
            lines.append(f"{hello.name} keeps {hello.stored} results that no driver has fetched")
    holders: dict[str, list[str]] = {}
    for hello, _ in told:
        for device in hello.devices:
            holders.setdefault(device.facts.device_id, []).append(hello.named(device.facts).name)
    lines += [f"{' and '.join(names)} both call themselves {one}" for one, names in holders.items() if len(names) > 1]
    return list(dict.fromkeys(lines))


def _document(hello: Hello, own: Versions, *, answers: bool) -> dict[str, object]:
    return {
        "name": hello.name,
        "answers": answers,
        "versions": {
            "edgesweep": hello.versions.edgesweep,
            "protocol": hello.versions.protocol,
            "python": hello.versions.python,
            "ray": hello.versions.ray,
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
                "waiting": list(device.use.waiting) if device.use else [],
            }
            for device in hello.devices
        ],
        "refused": [
            {"kind": error.kind, "message": error.message, "next_step": error.next_step} for error in hello.refused
        ],
    }
