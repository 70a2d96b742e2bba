"""Models without `torch.compile`, which compiles for this machine, and in a forked process does not come to an end."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

_SWITCH = "TORCHDYNAMO_DISABLE"


@contextmanager
def uncompiled() -> Iterator[None]:
    """Run code that defines or makes a model so that `torch.compile(model)` is the model, and a function that it
    decorates is the function."""
    before = os.environ.get(_SWITCH)
    os.environ[_SWITCH] = "1"
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(_SWITCH, None)
        else:
            os.environ[_SWITCH] = before
