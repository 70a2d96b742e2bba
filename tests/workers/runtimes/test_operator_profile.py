"""Profiles of runners: whose time is whose, what is refused, and the trace that viewers open."""

import json
from collections.abc import Sequence
from typing import Any, cast

import pytest

from sweeps.errors import RunnerError
from sweeps.report.profile import operators_table
from workers.devices.interface import Completed, Device
from workers.measure.processes import output_of
from workers.runtimes import operator_profile
from workers.runtimes.onnxruntime.runtime import OnnxRuntime

START = {"event": "start", "runner": "native-x", "runner_version": "1", "torch": "x 1.2"}
END = {"event": "end"}


def printed(*events: dict[str, Any]) -> bytes:
    return "".join(json.dumps(event) + "\n" for event in events).encode()


def operator(name: str, start_ns: int, ns: int, where: str = "") -> dict[str, Any]:
    return {"event": "operator", "name": name, "where": where, "start_ns": start_ns, "ns": ns}


def two_iterations() -> operator_profile.Profile:
    operators = [
        operator("forward", 0, 10_000),
        operator("conv", 1_000, 6_000),
        operator("copy", 2_000, 1_000),
        operator("forward", 20_000, 10_000),
        operator("conv", 21_000, 8_000),
        operator("copy", 22_000, 1_000),
    ]
    profile = {"event": "profile", "iteration_ns": [10_000, 10_000]}
    return operator_profile.parse(printed(START, profile, *operators, END))


def test_an_operator_has_its_own_time_and_not_that_of_what_it_calls() -> None:
    two_runs = two_iterations()
    assert [(run.name, run.depth, run.self_ns) for run in two_runs.runs[:3]] == [
        ("forward", 0, 4_000),
        ("conv", 1, 5_000),
        ("copy", 2, 1_000),
    ]
    conv, forward, copy = two_runs.operators()
    assert (conv.name, conv.calls, conv.self_us) == ("conv", 1, 6.0)
    assert (forward.self_us, copy.self_us) == (3.0, 1.0)
    assert conv.percent == 60.0
    operators = operator_profile.kept_operators(two_runs)
    table = operators_table(operators)
    assert [str(column.header) for column in table.columns] == ["operator", "where", "calls", "µs", "%"]
    assert table.row_count == 3
    assert [(operator.name, operator.percent) for operator in operators] == [
        (operator.name, operator.percent) for operator in two_runs.operators()
    ]
    assert (operator_profile.iteration_p50_us(two_runs.iteration_ns), operator_profile.iteration_p50_us(())) == (
        10.0,
        None,
    )


def test_the_trace_is_one_that_viewers_open() -> None:
    trace = json.loads(json.dumps(two_iterations().trace("a job on local")))
    named, *events = trace["traceEvents"]
    assert named["ph"] == "M"
    assert {event["ph"] for event in events} == {"X"}
    assert [(event["ts"], event["dur"]) for event in events[:2]] == [(0.0, 10.0), (1.0, 6.0)]


def test_onnx_runtime_s_own_profile_counts_without_its_warm_up() -> None:
    def node(ts: int) -> dict[str, Any]:
        arguments = {"op_name": "Conv", "provider": "CPUExecutionProvider"}
        return {"cat": "Node", "name": "conv1_kernel_time", "ts": ts, "dur": 7, "args": arguments}

    text = json.dumps(
        [
            {"cat": "Session", "name": "model_run", "ts": 0, "dur": 10},
            node(2),
            {"cat": "Session", "name": "model_run", "ts": 100, "dur": 10},
            node(102),
        ]
    )
    profile = {"event": "profile", "iteration_ns": [10_000], "onnxruntime": text}
    (operator,) = OnnxRuntime().parse_profile(printed(START, profile, END)).operators()
    assert (operator.name, operator.where, operator.calls, operator.self_us) == ("Conv", "CPUExecutionProvider", 1, 7.0)


PROFILE = {"event": "profile", "iteration_ns": [1]}
REFUSED: dict[bytes, str] = {
    b"": "no_report",
    b"\xff\n": "garbled",
    b"[]\n": "garbled",
    b"[" * 100_000: "garbled",
    printed(START): "truncated",
    printed(START, END): "garbled",
    printed(START, PROFILE, END): "no_profile",
    printed(START, PROFILE, operator("conv", 0, -1), END): "garbled",
    printed(START, {**PROFILE, "onnxruntime": "{"}, END): "garbled",
    printed(START, {**PROFILE, "onnxruntime": "[1]"}, END): "garbled",
    printed(START, {**PROFILE, "onnxruntime": "[" * 100_000}, END): "garbled",
    printed(START, {**PROFILE, "onnxruntime": '[{"cat": "Node", "name": "a_kernel_time", "args": 7}]'}, END): "garbled",
    printed(
        START, {**PROFILE, "onnxruntime": '[{"cat": "Session", "name": "model_run", "ts": 1e999}]'}, END
    ): "garbled",
    printed(START, {**PROFILE, "iteration_ns": [float("inf")]}, operator("conv", 0, 1), END): "garbled",
    printed(START, PROFILE, operator("conv", 0, float("inf")), END): "garbled",
    printed(START, PROFILE, operator("conv", 10**400, 1), END): "garbled",
    printed({"event": "error", "kind": "no_model", "message": "gone"}): "no_model",
}


@pytest.mark.parametrize("stdout", REFUSED)
def test_what_is_no_profile_is_refused_with_its_kind(stdout: bytes) -> None:
    with pytest.raises(RunnerError) as caught:
        (OnnxRuntime().parse_profile if b"onnxruntime" in stdout else operator_profile.parse)(stdout)
    assert caught.value.kind == REFUSED[stdout]


class Crashing:
    """A device on which a profiler's process dies after its first line."""

    def run(self, argv: Sequence[str], deadline_s: float) -> Completed:
        return Completed(exit_code=-11, stdout=b'{"event": "start"}\n', stderr=b"")


def test_a_profiler_that_dies_tells_how_and_not_that_its_profile_has_no_end() -> None:
    with pytest.raises(RunnerError) as caught:
        output_of(cast(Device, Crashing()), ["profiler"], operator_profile.parse, 1.0)
    assert (caught.value.kind, "exit code -11" in caught.value.message) == ("crashed", True)
