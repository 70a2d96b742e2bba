"""The first words between a driver and a host, which may be of different versions: values of dataclasses are restored
by the order of their fields, so nothing else may cross before both know that they have the same ones."""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict

from workers.hosts.away import away
from workers.hosts.interface import Hello, Versions

About = Mapping[str, str | int]
"""What any version can read: a plain dict of texts and numbers. Its keys never change; there may be more."""


def about(name: str, machine: str, boot: int, its: Versions) -> About:
    """What a host tells first."""
    return {"name": name, "machine": machine, "boot": boot, **asdict(its)}


def greet(name: str, ask: Callable[[], About], hello: Callable[[], Hello], own: Versions) -> tuple[Hello, bool]:
    """What the host tells about itself, and whether it has the driver's own versions. If not, all but who it is and
    what it has is left out. `ask` raises `AttributeError` at a host that is older than this call.

    Raises `DeviceError("host_away", ...)`.
    """
    try:
        told = ask()
    except AttributeError:
        told = _of_an_older_one(name, hello)
    its = Versions(
        edgesweep=str(told["edgesweep"]),
        protocol=int(told["protocol"]),
        python=str(told["python"]),
        ray=str(told["ray"]),
    )
    if not its.difference(own):
        return hello(), True
    bare = Hello(
        name=str(told["name"]),
        machine=str(told["machine"]),
        boot=int(told["boot"]),
        versions=its,
        tags=(),
        tools=(),
        change=0,
        devices=(),
        refused=(),
        hints=(),
        stored=0,
        free_bytes=0,
        clock_s=time.time(),
    )
    return bare, False


def _of_an_older_one(name: str, hello: Callable[[], Hello]) -> About:
    """What can be read of what it says: the first fields were the same ones in all versions."""
    with suppress(AttributeError, TypeError):
        its = hello()
        return about(its.name, its.machine, its.boot, its.versions)
    raise away(name, "it has an older EdgeSweep, which this one does not understand: update it")
