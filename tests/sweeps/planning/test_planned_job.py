"""A job's accuracy names its program: what another program evaluated is evaluated again."""

from dataclasses import replace

import pytest

from sweeps.planning.planned_job import PlannedJob
from sweeps.protocol.presets import resolve
from sweeps.spec.protocol import ProtocolSpec
from sweeps.variant import Variant
from tests.sweeps.conftest import Records


@pytest.mark.parametrize(
    ("runner", "release", "by_tool"),
    [
        ("edgesweep-onnxruntime 1, onnxruntime 1.32.0", "installed", False),
        ("onnxruntime_perf_test 0123456789ab.1 and unknown (0123456789ab)", "installed", True),
        ("onnxruntime_perf_test 0123456789ab.1 and unknown (0123456789ab)", "onnxruntime==1.31.1", False),
    ],
)
def test_a_runtime_s_own_tool_has_accuracies_of_its_own(
    records: Records, runner: str, release: str, by_tool: bool
) -> None:
    variant = Variant(runtime="onnxruntime", format="onnx", runner_toolchain=release)
    facts = replace(records.facts, runners=(("onnxruntime", runner), ("torchscript", "executor_runner")))
    planned = PlannedJob(
        job=records.job(0, variant=variant),
        protocol=resolve(ProtocolSpec()),
        evaluation_id=records.evaluation_id,
        facts=facts,
    )
    assert planned.executor == facts.fingerprint + f" by {runner}" * by_tool
