"""This machine's CPU may saturate sums of 8-bit products, and processes can run as on another CPU."""

import os
import subprocess
import sys
from functools import cache

import pytest

from sweeps.planning.axes import saturates_int8
from workers.devices.local import local_facts

VNNI = pytest.mark.vnni
ENGINES = ["qnnpack", "x86", pytest.param("onednn", marks=VNNI), "onednn in a reduced range"]
"""Every way in which a CPU gets int8: onednn in its full range only where the plan would let it have that."""

# Both are read when torch is loaded.
_AS_AVX2 = {"ONEDNN_MAX_CPU_ISA": "AVX2", "FBGEMM_ENABLE_INSTRUCTIONS": "AVX2", "ATEN_CPU_CAPABILITY": "avx2"}


@cache
def here_sums_are_exact() -> bool:
    """Tell whether sums of 8-bit products are exact here, as a plan for this machine sees it."""
    facts = local_facts()
    return not saturates_int8(facts.abi, facts.cpu_features)


def engine_of(way: str) -> tuple[str, bool]:
    """The quantized engine of one of `ENGINES`, and whether its range is reduced."""
    engine, _, reduced = way.partition(" in a ")
    return engine, bool(reduced)


def printed_as_avx2(program: str) -> list[str]:
    """The words that `program` prints in a process whose libraries take this CPU for one with AVX2 and no more."""
    argv = [sys.executable, "-W", "ignore", "-c", program]
    ended = subprocess.run(argv, capture_output=True, text=True, check=True, env=os.environ | _AS_AVX2)
    return ended.stdout.split()
