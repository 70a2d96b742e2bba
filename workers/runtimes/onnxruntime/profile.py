"""ONNX Runtime's own profile of a session: the time of each node."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from workers.runtimes.operator_profile import OperatorRun, nanoseconds


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRun:
    """One run of one node."""

    node: str
    operator: str
    provider: str
    start_ns: int
    ns: int


def runs(text: str) -> Iterator[NodeRun]:
    """Yield all runs of nodes, in the file's order. Raises `ValueError` if `text` is no profile."""
    for event in _events(text):
        name, details = str(event.get("name", "")), event.get("args", {})
        if event.get("cat") == "Node" and name.endswith("_kernel_time"):
            yield NodeRun(
                node=name.removesuffix("_kernel_time"),
                operator=str(details.get("op_name", "")),
                provider=str(details.get("provider", "")),
                start_ns=nanoseconds(event["ts"], times=1000),
                ns=nanoseconds(event["dur"], times=1000),
            )


def operators(line: Mapping[str, Any], iterations: int) -> Iterator[OperatorRun]:
    """Yield the operators of the last `iterations` runs of the whole model: the runs before them are the warm-up. Has
    the form of `operator_profile.OwnForm`."""
    text = str(line["onnxruntime"])
    whole = [event for event in _events(text) if event.get("cat") == "Session" and event.get("name") == "model_run"]
    begins = sorted(nanoseconds(event["ts"], times=1000) for event in whole)[-iterations:]
    for run in runs(text):
        if begins and run.start_ns >= begins[0]:
            name = run.operator or run.node
            yield OperatorRun(name=name, where=run.provider, start_ns=run.start_ns, ns=run.ns)


def _events(text: str) -> list[dict[str, Any]]:
    events = json.loads(text)
    if not isinstance(events, list) or not all(isinstance(event, dict) for event in events):
        raise ValueError("it is no list of events")
    return events
