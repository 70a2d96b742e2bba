"""The process-wide torch state of a build, which is restored afterwards."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from workers.models.one_thread import one_thread

_KNOWN_WARNINGS = (
    # torch is pinned to the last release that builds for PyTorch Mobile, so these deprecations are known.
    (DeprecationWarning, r"`torch\.jit\.\w+` is deprecated"),
    (DeprecationWarning, r"torch\.ao\.quantization is deprecated"),
    (UserWarning, r"Please use quant_min and quant_max to specify the range for observers"),
    (UserWarning, r"The TorchScript type system doesn't support instance-level annotations"),
)


@contextmanager
def build_state(engine: str) -> Iterator[None]:
    """Run the block with one thread, no gradients, known deprecations silenced, and the quantized engine set.

    With the engine `none`, the engine stays unchanged. There is one thread, because sums in another order differ in the
    last bit, and so do calibrated scales. Builds with different engines run one at a time in one process, so everything
    is restored. Raises `RuntimeError` if torch does not have the engine.
    """
    engine_before = torch.backends.quantized.engine
    with warnings.catch_warnings(), torch.no_grad(), one_thread():
        for category, message in _KNOWN_WARNINGS:
            warnings.filterwarnings("ignore", message=r"\s*" + message, category=category)
        try:
            if engine != "none":
                torch.backends.quantized.engine = engine
            yield
        finally:
            torch.backends.quantized.engine = engine_before
