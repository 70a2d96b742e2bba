"""What a build changes in torch's process-wide state, and puts back."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from workers.models.one_thread import one_thread

_ANNOUNCED = (
    # torch is pinned to the last release that builds for PyTorch Mobile, so these deprecations are known.
    (DeprecationWarning, r"`torch\.jit\.\w+` is deprecated"),
    (DeprecationWarning, r"torch\.ao\.quantization is deprecated"),
    (UserWarning, r"Please use quant_min and quant_max to specify the range for observers"),
    (UserWarning, r"The TorchScript type system doesn't support instance-level annotations"),
)


@contextmanager
def build_state(engine: str) -> Iterator[None]:
    """One thread, no gradients, known deprecations silenced, and the quantized engine (`none` leaves it alone).

    One thread, because sums in another order differ in the last bit, and a calibrated scale with them. Builds with
    different engines run one after another in one process, so everything is restored. Raises `RuntimeError` where
    torch does not have the engine.
    """
    engine_before = torch.backends.quantized.engine
    with warnings.catch_warnings(), torch.no_grad(), one_thread():
        for category, message in _ANNOUNCED:
            warnings.filterwarnings("ignore", message=r"\s*" + message, category=category)
        try:
            if engine != "none":
                torch.backends.quantized.engine = engine
            yield
        finally:
            torch.backends.quantized.engine = engine_before
