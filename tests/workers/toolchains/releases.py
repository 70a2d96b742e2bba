"""Releases that are made up for tests of toolchains."""

RUNS_NOTHING = {
    "onnxruntime/__init__.py": """
import os
from importlib.metadata import version

assert os.environ["ORT_DISABLE_TELEMETRY"] == "1"

__version__ = version("onnxruntime")


class SessionOptions:
    pass


class GraphOptimizationLevel:
    ORT_ENABLE_ALL = 99


def get_available_providers():
    return ["CPUExecutionProvider"]


def InferenceSession(*given, **named):
    raise RuntimeError("tensor does not have a device")
""",
    "onnxruntime/quantization/__init__.py": """
CalibrationDataReader = CalibrationMethod = QuantType = object
quant_pre_process = quantize_dynamic = quantize_static = print
""",
    "onnxruntime/transformers/__init__.py": "",
    "onnxruntime/transformers/float16/__init__.py": "convert_float_to_float16 = print\n",
}
"""Files of a release that exports, since torch does that, and cannot run what was exported."""
