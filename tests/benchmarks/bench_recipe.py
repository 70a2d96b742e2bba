"""The recipe's figures on this machine: NHWC against NCHW, int8 against the best fp32.

python tests/benchmarks/bench_recipe.py

MobileNetV2, 1x3x224x224, one thread, 5 inferences to warm up, then 200; the median over 7 fresh processes, arms in
turn. Needs a machine with nothing else to do.
"""

import platform
import statistics
import tempfile
from functools import partial
from pathlib import Path

from recipe_case import build, in_turn, load, p50_ms, table
from report import Figure, at_least, finish

from sweeps.records import Variant

NHWC_OVER_NCHW = 2.2
INT8_OVER_FP32 = 1.8
ARMS = {
    "fp32 nchw": Variant(fuse=True, optimize=True, layout="nchw"),
    "fp32 nhwc": Variant(fuse=True, optimize=True, layout="nhwc"),
}


def int8(layout: str) -> Variant:
    engine = "qnnpack" if platform.machine() in ("aarch64", "arm64") else "x86"
    return Variant(
        precision="int8",
        quantization="static_fx",
        interface="core",
        qengine=engine,
        layout=layout,
        fuse=True,
        optimize=True,
    )


def has_vnni() -> bool:
    try:
        words = Path("/proc/cpuinfo").read_text(encoding="utf-8").split()
    except OSError:
        return False
    return not {"avx512_vnni", "avx_vnni"}.isdisjoint(words)


def main() -> None:
    variants = {**ARMS, "int8 nchw": int8("nchw"), "int8 nhwc": int8("nhwc")}
    with tempfile.TemporaryDirectory(prefix="edgesweep-bench-") as folder:
        inputs = load(Path(folder))
        requests = {name: build(inputs, variant, Path(folder)) for name, variant in variants.items()}
        taken = in_turn({name: partial(p50_ms, request) for name, request in requests.items()})
    p50 = {name: statistics.median(values) for name, values in taken.items()}
    layout_gain = p50["fp32 nchw"] / p50["fp32 nhwc"]
    int8_gain = min(p50["fp32 nchw"], p50["fp32 nhwc"]) / min(p50["int8 nchw"], p50["int8 nhwc"])
    vnni = has_vnni()
    table(taken)
    over_fp32 = "int8 over the best fp32"
    figures = [
        at_least("fp32 NHWC over NCHW", layout_gain, "times", NHWC_OVER_NCHW),
        at_least(over_fp32, int8_gain, "times", INT8_OVER_FP32) if vnni else Figure(over_fp32, int8_gain, "times"),
    ]
    finish("recipe", figures, p50_ms=p50, vnni=vnni)


if __name__ == "__main__":
    main()
