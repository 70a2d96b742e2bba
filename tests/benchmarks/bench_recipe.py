"""The recipe's figures on this machine: NHWC against NCHW, the fastest int8 against the best fp32.

python tests/benchmarks/bench_recipe.py

MobileNetV2, 1x3x224x224, one thread, 5 inferences to warm up, then 200; the median over 7 fresh processes, arms in
turn. Needs a machine with nothing else to do.
"""

import statistics
import tempfile
from functools import partial
from pathlib import Path

from recipe_case import build, in_turn, load, p50_ms, table
from report import Figure, at_least, finish

from sweeps.planning.axes import saturates_int8
from sweeps.variant import Variant
from workers.devices.local import local_facts

BOUNDS = {"x86 with VNNI": (2.2, 1.8), "x86 without VNNI": (1.25, 2.0)}
"""By the kind of CPU that they hold for: fp32 NHWC over NCHW, and the fastest int8 over the best fp32. Measured were
2.96 and 2.2 with VNNI, 1.69 and 2.7 without. Other kinds are only reported."""
FP32_ARMS = {
    "fp32 nchw": Variant(fuse=True, optimize=True, layout="nchw"),
    "fp32 nhwc": Variant(fuse=True, optimize=True, layout="nhwc"),
}


def int8_arms() -> dict[str, Variant]:
    """int8 under the engine that `auto` resolves to, and on x86 under onednn: which is faster depends on the CPU."""
    facts = local_facts()
    arm = facts.abi.startswith("arm")
    saturates = saturates_int8(facts.abi, facts.cpu_features)
    return {
        f"int8 {engine} {layout}": Variant(
            precision="int8",
            quantization="static_fx",
            interface="core",
            qengine=engine,
            reduced_range=saturates and engine == "onednn",
            layout=layout,
            fuse=True,
            optimize=True,
        )
        for engine in (["qnnpack"] if arm else ["x86", "onednn"])
        for layout in ("nchw", "nhwc")
    }


def kind_of_cpu() -> str:
    facts = local_facts()
    if not facts.abi.startswith("x86"):
        return facts.abi
    return f"x86 {'without' if saturates_int8(facts.abi, facts.cpu_features) else 'with'} VNNI"


def figure(name: str, gain: float, bound: float | None) -> Figure:
    return Figure(name, gain, "times") if bound is None else at_least(name, gain, "times", bound)


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
    kind = kind_of_cpu()
    nhwc_over_nchw, int8_over_fp32 = BOUNDS.get(kind, (None, None))
    figures = [figure("fp32 nhwc over fp32 nchw", p50["fp32 nchw"] / p50["fp32 nhwc"], nhwc_over_nchw)]
    for name in int8_arms():
        bound = int8_over_fp32 if name == best_int8 else None
        figures.append(figure(f"{name} over {best_fp32}", p50[best_fp32] / p50[name], bound))
    finish(f"recipe, {kind}", figures, p50_ms=p50, kind=kind)


if __name__ == "__main__":
    main()
