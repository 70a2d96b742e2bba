"""All tools whose logs can be imported."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from sweeps.tool_logs.executorch import EXECUTOR_RUNNER, parse_executor_runner
from sweeps.tool_logs.log import ToolLog
from sweeps.tool_logs.onnxruntime import PERF_TEST, parse_perf_test
from sweeps.tool_logs.pytorch import parse_speed_benchmark, parse_testapp

WITHOUT_FINGERPRINT = (EXECUTOR_RUNNER, PERF_TEST)
"""The tools that are not part of a device's fingerprint."""
Parse = Callable[[str], ToolLog]

TOOLS: Mapping[str, tuple[Parse, str]] = MappingProxyType(
    {
        "speed-benchmark": (parse_speed_benchmark, "The output of speed_benchmark_torch (Android)."),
        "testapp": (parse_testapp, "The output of TestApp (iOS)."),
        "executor-runner": (parse_executor_runner, "What ExecuTorch's executor_runner logs, on stderr or in logcat."),
        "onnxruntime-perf-test": (parse_perf_test, "What onnxruntime_perf_test prints, or its file of results."),
    }
)
"""The parser of each option of `edgesweep import` and, for people, its input. Every parser raises `RunnerError`."""
