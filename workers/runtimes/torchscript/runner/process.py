"""The runner's own process: its CPUs, its allocator, its memory. Standard library only."""

import argparse
import ctypes
import os
import re
import resource
import signal
import sys
from pathlib import Path
from types import ModuleType

from workers.cores import clusters
from workers.runtimes.torchscript.runner.events import GiveUp

PATIENCE_S = 60.0
"""The seconds that a load, one inference, or the time beyond a block's own limit may take if the file's hash is not
known: a damaged file may run for ever. A file with a known hash gets the time that it needs, and the harness has
deadlines."""

_FOR_COMPILERS = ("torch._meta_registrations", "torch.distributed._meta_registrations")
"""Modules that `import torch` imports for its compilers: operators for tensors without data, written in Python."""
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h


def pin(cpus: str) -> None:
    """Set the CPUs: `all`, `big`, `little` or a list such as `0,1`. Call it before threads start, as they inherit CPUs.

    Raises `GiveUp("bad_cpus")`, also if the system grants fewer CPUs than requested.
    """
    if cpus == "all":
        return
    try:
        cores = _of_kind(cpus) if cpus in ("big", "little") else {int(word) for word in cpus.split(",")}
        os.sched_setaffinity(0, cores)
        missing = cores - os.sched_getaffinity(0)
    except (ValueError, OSError, AttributeError) as error:
        raise GiveUp("bad_cpus", f"the CPUs {cpus!r} can not be had: {error}") from error
    if missing:
        raise GiveUp("bad_cpus", f"the CPUs {cpus!r} can not be had: {sorted(missing)} are off or not allowed")


def _of_kind(kind: str) -> set[int]:
    kinds = clusters()
    if len(kinds) < 2:
        raise GiveUp(
            "bad_cpus", f"this machine has one kind of core as far as it tells, so there are no {kind} ones; use all"
        )
    return set(kinds[-1] if kind == "big" else kinds[0])


def cpus_now() -> list[int] | None:
    """Return the CPUs that this process may run on; `None` if the system does not report them."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None


def end_after(seconds: float) -> None:
    """End this process by SIGALRM after so many seconds, also in native code; 0 cancels that."""
    # The default action: nothing of Python has to run.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds)


def be_patient(options: argparse.Namespace, seconds: float = 0.0) -> None:
    """If the run has a limit for files of unknown hash, end this process when the next step takes `PATIENCE_S` longer
    than `seconds`, the step's own limit."""
    if options.patience:
        end_after(options.patience + seconds)


def rewrites(backend: str, reference: str | None) -> bool:
    """Tell whether the backend's reference is made from the model in PyTorch (Metal, Vulkan), by torch's compilers."""
    return reference is not None and backend not in ("cpu", "nnapi")


def leave_out_compilers() -> None:
    """Let `import torch` leave out modules that only its compilers use: 0.5 s of 2.2, in each process. Call it before
    that import. These modules have no operator that computes."""
    if "torch" not in sys.modules:
        sys.modules.update({name: ModuleType(name) for name in _FOR_COMPILERS})


def keep_memory() -> None:
    """Keep freed memory in the process, as the allocators of phones do.

    Depending on earlier allocations, glibc returns freed memory to the kernel and faults it in again at every
    iteration: this alone changed the time of the same fp32 MobileNetV2 from 6.1 to 7.4 ms, and to 15 ms at the lowest
    threshold.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return  # this is not glibc
    for option in (_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD):
        mallopt(option, 2**30)


def return_memory() -> None:
    """Give freed memory back to the system, in spite of `keep_memory`, so that the next artifact of a batch starts
    without it."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (OSError, AttributeError):
        return  # this is not glibc


def resident_bytes() -> int | None:
    return _status("VmRSS")


def reset_peak() -> None:
    """Reset peak memory: importing torch may have used more memory than a small model."""
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return  # the peak then includes the import, so it is an upper bound


def peak_bytes() -> int:
    unit = 1 if sys.platform == "darwin" else 1024
    return _status("VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _status(field: str) -> int | None:
    """Return a field of /proc/self/status in bytes; `None` if the system does not have it."""
    try:
        text = Path("/proc/self/status").read_text(encoding="ascii")
    except OSError:
        return None
    match = re.search(rf"^{field}:\s+(\d+) kB$", text, re.MULTILINE)
    return int(match[1]) * 1024 if match else None
