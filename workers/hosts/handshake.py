"""The handshake between a driver and a host, which may be of different versions. Values of dataclasses are restored by
the order of their fields, so no such value may cross before both sides know that they have the same versions."""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict

from workers.hosts.away import away
from workers.hosts.interface import Hello, Versions

About = Mapping[str, str | int]
"""The host's identity in a form that any version can read: a plain dict of texts and numbers. Its keys never change;
further keys may be added."""


def about(name: str, machine: str, boot: int, versions: Versions) -> About:
    """Return the identity of a host."""
    return {"name": name, "machine": machine, "boot": boot, **asdict(versions)}


def greet(name: str, ask: Callable[[], About], hello: Callable[[], Hello], own: Versions) -> tuple[Hello, bool]:
    """Return the host's report about itself, and whether the host has the driver's own versions. If not, the report has
    nothing but the host's identity. `ask` raises `AttributeError` at a host that is older than this call.

    Raises `DeviceError("host_away", ...)`.
    """
    try:
        answer = ask()
    except AttributeError:
        answer = _of_an_older_one(name, hello)
    versions = Versions(
        edgesweep=str(answer["edgesweep"]),
        protocol=int(answer["protocol"]),
        python=str(answer["python"]),
        ray=str(answer["ray"]),
    )
    if not versions.difference(own):
        return hello(), True
    bare = Hello(
        name=str(answer["name"]),
        machine=str(answer["machine"]),
        boot=int(answer["boot"]),
        versions=versions,
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
    """Return the readable part of an old host's report: the first fields are the same in all versions."""
    with suppress(AttributeError, TypeError):
        old_hello = hello()
        return about(old_hello.name, old_hello.machine, old_hello.boot, old_hello.versions)
    raise away(name, "it has an older EdgeSweep, which this one does not understand: update it")
