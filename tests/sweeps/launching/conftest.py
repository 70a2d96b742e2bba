"""Sweep files of a few seconds, on a simulated phone."""

import pytest

SMALL = """\
name: small
models:
  - name: net
    source: mobilenet_v2
    arguments: {width_mult: 0.35, num_classes: 10, inverted_residual_setting: [[1, 16, 1, 1], [6, 24, 2, 2]]}
    weights: random
    input_shape: [1, 3, 32, 32]
data:
  calibration: {source: synthetic, images: 8}
  evaluation: {source: synthetic, images: 8}
grids:
  - {precision: [fp32], layout: [nchw, nhwc]}
devices: ["fake:steady"]
protocol: {preset: quick}
objective: {minimize: latency_p50_ms, constraints: []}
"""


@pytest.fixture
def small() -> str:
    return SMALL
