"""ONNX Runtime's own profile of a session: what it says of each node."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRun:
    """One run of one node."""

    node: str
    operator: str
    provider: str
    start_us: int
    us: int


def runs(text: str) -> Iterator[NodeRun]:
    """All runs of nodes, in the file's order. Raises `ValueError` if it is no profile."""
    for event in _events(text):
        name, told = str(event.get("name", "")), event.get("args", {})
        if event.get("cat") == "Node" and name.endswith("_kernel_time"):
            yield NodeRun(
                node=name.removesuffix("_kernel_time"),
                operator=str(told.get("op_name", "")),
                provider=str(told.get("provider", "")),
                start_us=int(event["ts"]),
                us=int(event["dur"]),
            )


def model_runs(text: str) -> Iterator[int]:
    """When each run of the whole model began, in µs. Raises `ValueError` if it is no profile."""
    for event in _events(text):
        if event.get("cat") == "Session" and event.get("name") == "model_run":
            yield int(event["ts"])


def _events(text: str) -> list[dict[str, Any]]:
    found = json.loads(text)
    if not isinstance(found, list) or not all(isinstance(event, dict) for event in found):
        raise ValueError("it is no list of events")
    return found
