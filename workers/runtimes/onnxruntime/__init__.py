"""ONNX Runtime: from a model to a checked ONNX file, stage by stage, and the runner for it."""
