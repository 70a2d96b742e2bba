"""ONNX Runtime's own profile of a session: what it says of each node."""

import json
from collections.abc import Iterator
from dataclasses import dataclass


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
    for event in json.loads(text):
        name, told = str(event.get("name", "")), event.get("args", {})
        if event.get("cat") == "Node" and name.endswith("_kernel_time"):
            yield NodeRun(
                node=name.removesuffix("_kernel_time"),
                operator=str(told.get("op_name", "")),
                provider=str(told.get("provider", "")),
                start_us=int(event["ts"]),
                us=int(event["dur"]),
            )
