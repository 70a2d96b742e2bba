"""The types that cross between drivers and hosts change only with the protocol."""

import dataclasses
import hashlib
import typing
from collections.abc import Iterator

from sweeps.device_facts import DeviceFacts
from sweeps.records import Failed
from workers.artifacts import PackedArtifact
from workers.hosts.interface import HOST_PROTOCOL, Beat, Granted, Hello, Queued
from workers.measure import batch_request, evaluation_request, recovery_request, timed_block
from workers.measure.device_runner import Request

_DIGESTS = {9: "f3c757434020f0ea"}
"""The digest of the fields of all that crosses, by protocol."""


def test_a_protocol_has_its_fields() -> None:
    """Values are restored by the order of their fields: another EdgeSweep with other fields and the same number would
    take one for another. Raise `HOST_PROTOCOL`, and add its digest, if you change them."""
    assert list(_DIGESTS) == [HOST_PROTOCOL]
    assert _digest() == _DIGESTS[HOST_PROTOCOL], _digest()


def test_the_digest_sees_the_requests_and_what_they_hold() -> None:
    names = {kind.__name__ for kind in _crossing()}
    assert {"BlockRequest", "BatchRequest", "RecoverRequest", "LogitsRequest", "ReadyRequest"} <= names
    assert {"Block", "Job", "Variant", "Use", "HostDevice", "DeviceFacts", "Failed", "Queued"} <= names


def _digest() -> str:
    lines = sorted(
        f"{kind.__name__}: {', '.join(field.name for field in dataclasses.fields(kind))}" for kind in _crossing()
    )
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def _crossing() -> set[type]:
    modules = (timed_block, evaluation_request, batch_request, recovery_request)
    request_kinds = [
        member
        for module in modules
        for member in vars(module).values()
        if isinstance(member, type) and issubclass(member, Request) and member is not Request
    ]
    kinds: set[type] = set()
    for root in (Beat, Hello, Granted, Queued, PackedArtifact, DeviceFacts, Failed, *request_kinds):
        _visit(root, kinds)
    return kinds


def _visit(hint: object, kinds: set[type]) -> None:
    """Each dataclass that a type names, also as an argument of another one."""
    for argument in typing.get_args(hint):
        _visit(argument, kinds)
    if isinstance(hint, type) and dataclasses.is_dataclass(hint) and hint not in kinds:
        kinds.add(hint)
        for kind in _named(hint):
            _visit(kind, kinds)


def _named(kind: type) -> Iterator[object]:
    hints = typing.get_type_hints(kind)
    yield from (hints[field.name] for field in dataclasses.fields(kind))
    for base in getattr(kind, "__orig_bases__", ()):  # `Request[Block]` names its answer
        yield from typing.get_args(base)
