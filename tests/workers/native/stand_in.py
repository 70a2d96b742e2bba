"""PyTorch's `speed_benchmark_torch` is in no wheel: a program that stands in for it, compiled once and kept."""

from pathlib import Path

from workers.native import compiler
from workers.runtimes.torchscript.save import Format

SOURCE = Path(__file__).with_name("speed_benchmark_stand_in.cpp")


def speed_benchmark(form: Format) -> Path:
    """Compile a stand-in of PyTorch's own build for files of this format (`ptl`: with the lite interpreter). 20 s, once
    on a machine."""
    return compiler.program(str(SOURCE), "speed_benchmark_torch", ("-DSTAND_IN_LITE",) if form == "ptl" else ())
