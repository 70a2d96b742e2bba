"""A driver and a host that may be of different versions."""

import base64
import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import NoReturn

import pytest

from sweeps.errors import DeviceError
from tests.workers.hosts.hosts import VERSIONS
from workers.hosts.handshake import about, greet
from workers.hosts.interface import Hello

# A host of protocol 2 has told this: one device in use, without the fields that came later.
OLD = base64.b64decode(
    "gASVpgAAAAAAAACMF3dvcmtlcnMuaG9zdHMuaW50ZXJmYWNllIwFSGVsbG+Uk5QpgZRdlCiMBWxhYi0xlIwCYWGUSwdoAIwIVmVyc2lvbnOUk5Qp"
    "gZRdlCiMBTAuMC45lEsCjAEzlIwBMpRlYilLAWgAjApIb3N0RGV2aWNllJOUKYGUXZQoTmgAjANVc2WUk5QpgZRdlCiMA2FubpRLAYwAlIkpZWJl"
    "YoWUKUsAZWIu"
)


def old() -> Hello:
    hello: Hello = pickle.loads(OLD)
    return hello


def older_than_the_call() -> NoReturn:
    raise AttributeError("about")


def never() -> NoReturn:
    pytest.fail("what another version has packed was asked for")


def test_a_host_of_an_older_version_is_read_as_far_as_both_versions() -> None:
    with pytest.raises(AttributeError):
        _ = old().devices[0].use.left_s  # type: ignore[union-attr]
    hello, alike = greet("lab-1", older_than_the_call, old, VERSIONS)
    assert not alike
    assert (hello.name, hello.machine, hello.boot, hello.devices) == ("lab-1", "aa", 7, ())
    assert hello.versions.difference(VERSIONS) == "EdgeSweep 0.0.9 (protocol 2), not 1 (protocol 1)"


@pytest.mark.parametrize("other", [replace(VERSIONS, protocol=9), replace(VERSIONS, edgesweep="2")])
def test_a_host_of_another_version_is_asked_for_nothing_but_who_it_is(other: object) -> None:
    greeting = about("lab-1", "aa", 7, other) | {"what comes later": "x"}  # type: ignore[arg-type]
    assert {type(value) for value in greeting.values()} == {str, int}, "any version can read it"
    hello, alike = greet("lab-1", lambda: greeting, never, VERSIONS)
    assert not alike
    assert hello.versions == other
    assert (hello.name, hello.machine, hello.boot) == ("lab-1", "aa", 7)


@pytest.mark.parametrize("ask", [lambda: about("lab-1", "aa", 7, VERSIONS), older_than_the_call])
def test_a_host_of_the_same_version_tells_everything(ask: Callable[[], NoReturn]) -> None:
    whole = replace(old(), versions=VERSIONS, refused=(), free_bytes=1, clock_s=2.0, tools=(), hints=())
    assert greet("lab-1", ask, lambda: whole, VERSIONS) == (whole, True)


def test_a_host_that_cannot_be_read_at_all_is_away_and_named() -> None:
    def unreadable() -> Hello:
        raise TypeError("an older class")

    with pytest.raises(DeviceError, match="the host lab-1: it has an older EdgeSweep"):
        greet("lab-1", older_than_the_call, unreadable, VERSIONS)
