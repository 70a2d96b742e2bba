"""ONNX Runtime: from a model to a checked ONNX file, stage by stage, and the runner for it.

From 1.29 on it sends telemetry from a thread of each process, the one that is timed too, unless the environment says
otherwise before it is loaded. Source: onnxruntime's docs/Privacy.md.
"""

import os

NO_TELEMETRY = {"ORT_DISABLE_TELEMETRY": "1"}
os.environ.update(NO_TELEMETRY)
