"""Switches `torch.compile` off for models: it compiles for this machine, and never ends in a forked process."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

_SWITCH = "TORCHDYNAMO_DISABLE"


@contextmanager
def uncompiled() -> Iterator[None]:
    """Switch `torch.compile` off in the block, which defines or makes a model: `torch.compile(model)` returns `model`,
    and a decorated function stays as it is."""
    before = os.environ.get(_SWITCH)
    os.environ[_SWITCH] = "1"
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(_SWITCH, None)
        else:
            os.environ[_SWITCH] = before
