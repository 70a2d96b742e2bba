"""The recipe's figures on this machine: NHWC against NCHW, the fastest int8 against the best fp32.

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
FP32_ARMS = {
    "fp32 nchw": Variant(fuse=True, optimize=True, layout="nchw"),
    "fp32 nhwc": Variant(fuse=True, optimize=True, layout="nhwc"),
}


def int8_arms() -> dict[str, Variant]:
    """int8 under the engine that `auto` resolves to, and on x86 under onednn: which is faster depends on the CPU."""
    arm = platform.machine() in ("aarch64", "arm64")
    return {
        f"int8 {engine} {layout}": Variant(
            precision="int8",
            quantization="static_fx",
            interface="core",
            qengine=engine,
            layout=layout,
            fuse=True,
            optimize=True,
        )
        for engine in (["qnnpack"] if arm else ["x86", "onednn"])
        for layout in ("nchw", "nhwc")
    }


def has_vnni() -> bool:
    try:
        words = Path("/proc/cpuinfo").read_text(encoding="utf-8").split()
    except OSError:
        return False
    return not {"avx512_vnni", "avx_vnni"}.isdisjoint(words)


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="edgesweep-bench-") as folder:
        inputs = load(Path(folder))
        variants = {**FP32_ARMS, **int8_arms()}
        requests = {name: build(inputs, variant, Path(folder)) for name, variant in variants.items()}
        taken = in_turn({name: partial(p50_ms, request) for name, request in requests.items()})
    p50 = {name: statistics.median(values) for name, values in taken.items()}
    best_fp32 = min(FP32_ARMS, key=p50.__getitem__)
    best_int8 = min(int8_arms(), key=p50.__getitem__)
    table(taken)
    figures = [at_least("fp32 nhwc over fp32 nchw", p50["fp32 nchw"] / p50["fp32 nhwc"], "times", NHWC_OVER_NCHW)]
    for name in int8_arms():
        title, gain = f"{name} over {best_fp32}", p50[best_fp32] / p50[name]
        asked = name == best_int8 and has_vnni()
        figures.append(at_least(title, gain, "times", INT8_OVER_FP32) if asked else Figure(title, gain, "times"))
    finish("recipe", figures, p50_ms=p50, vnni=has_vnni())


if __name__ == "__main__":
    main()
