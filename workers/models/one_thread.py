"""Torch on one thread, for computations on the host that are not timed."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def one_thread() -> Iterator[None]:
    """Run torch on one thread in the block. Sums are then computed in the same order on any number of cores, so results
    are equal. It is also faster on busy cores, because waiting torch threads spin: at a load of 14 on two cores, 100
    images took 290 s on two threads and 3 s on one."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
