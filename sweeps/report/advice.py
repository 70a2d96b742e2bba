"""Why a metric's figure is as it is and what to do about it; and why to vary an axis. In the words of `explain`."""

_IMAGES = "a narrower interval: raise data.evaluation.images"
_ROUNDS = "a narrower interval: raise protocol.rounds"
_SAMPLES = "more samples: raise protocol.min_seconds or protocol.rounds; fewer slow ones: lower protocol.gate.max_load"
_LABELLED = (
    "more images: raise data.evaluation.images; the training's own preparation: data.evaluation.mean, std and crop"
)
_LEFT = "vary grids: backend, precision; the result's page names the operators that are left"

METRIC_ADVICE = {
    "latency_p50_ms": (
        "the operators' work, the kernels of the backend, and the speed that the device had",
        f"faster: vary grids: precision, layout, backend, threads; {_ROUNDS}",
    ),
    "latency_ci_low_ms": ("processes of one build differ, and there were few of them", _ROUNDS),
    "latency_ci_high_ms": ("processes of one build differ, and there were few of them", _ROUNDS),
    "latency_p90_ms": ("other programs, heat and the scheduler slow some inferences", _SAMPLES),
    "latency_p99_ms": ("other programs, heat and the scheduler slow a few inferences much", _SAMPLES),
    "spread_within": (
        "load in bursts, a clock speed that changes, or a coarse clock",
        "stop other programs; wait for a calm device: protocol.gate; a steady speed: protocol.fixed_performance",
    ),
    "spread_between": (
        "each process lies elsewhere in memory, and the device may warm up from round to round",
        "more rounds: raise protocol.rounds; wait for a cool device: protocol.gate",
    ),
    "first_inference_ms": (
        "the first one reserves memory and packs weights, and NNAPI compiles in it",
        "vary grids: preference, backend",
    ),
    "load_ms": (
        "the file is read, and some runtimes change its graph while they load it",
        "a smaller file: vary grids: precision; less work at load: vary grids: graph_optimization, format",
    ),
    "model_rss_mb": (
        "weights, copies of them that are packed for kernels, and what is between operators",
        "vary grids: precision, runtime",
    ),
    "artifact_mb": (
        "most of it are weights: 4 bytes each in fp32, 2 in fp16, 1 in int8",
        "smaller: vary grids: precision, quantization",
    ),
    "top1_percent": ("what the model has learned, less what a build's rounding costs", _LABELLED),
    "top5_percent": ("what the model has learned, less what a build's rounding costs", _LABELLED),
    "agreement_percent": (
        "rounding turns answers that were nearly equal; it needs no labels",
        "a narrower figure, or labels to count right answers with: data.evaluation; closer answers: data.calibration, "
        "grids: granularity, quantization",
    ),
    "sqnr_db": (
        "numbers of 8 or 16 bits are rounded in each layer",
        "more: give images as in use to data.calibration, vary grids: granularity, quantization, calibration_images",
    ),
    "accuracy_drop_points": (
        "rounding turns some answers that were right, and a few that were wrong",
        f"{_IMAGES}; a smaller drop: vary grids: quantization, granularity, calibration_images",
    ),
    "accuracy_drop_low_points": ("the images are a sample: with others, another share would be lost", _IMAGES),
    "accuracy_drop_high_points": ("the images are a sample: with others, another share would be lost", _IMAGES),
    "temp_start_c": (
        "blocks before it, a charger, the sun",
        "cooler: let blocks wait, with protocol.gate.max_battery_temp_c or max_cpu_temp_c",
    ),
    "temp_end_c": (
        "the block itself warms the device",
        "cooler: lower protocol.min_seconds, or set protocol.gate",
    ),
    "runtime_mb": (
        "an app carries the runtime's library with its kernels beside the file",
        "smaller: vary grids: runtime",
    ),
    "backend_nodes": ("a backend takes the operators that it knows", _LEFT),
    "cpu_nodes": ("a backend leaves operators that it does not know to the CPU", _LEFT),
    "delegated_percent": ("what is not delegated runs in slow kernels", _LEFT),
    "delegated_operators_percent": ("what is not delegated runs in slow kernels", _LEFT),
}
"""Why, and what to do, with the field of the sweep file. Metrics of other packages have none."""

AXIS_REASONS = {
    "runtime": "each has kernels, a file format and a library of its own: which is fastest depends on the phone",
    "backend": "an accelerator may be faster than the CPU, or slower where it must hand operators back",
    "precision": "smaller numbers are faster and smaller, and may cost accuracy",
    "quantization": "static is as a rule the fastest, dynamic needs no images, qat keeps the most accuracy",
    "qengine": "each has other kernels for int8, and not every CPU has all of them",
    "granularity": "a scale per channel keeps more accuracy, one per layer suits more accelerators",
    "calibration_images": "few images give ranges that are too narrow; beyond about 100 little changes",
    "interface": "without floats at its ends an app saves two conversions, and has to quantize its input",
    "layout": "kernels prefer one of them; another is converted each time",
    "capture": "a trace follows one path of the model's code, a script keeps its branches",
    "format": "the lite interpreter is smaller in an app, and knows fewer operators",
    "fuse": "fewer operators go over the memory less often",
    "optimize": "it packs weights for the CPU's kernels when it builds",
    "preference": "a driver trades speed for power",
    "relaxed_fp16": "half precision is faster on many accelerators, and a little less accurate",
    "flexible_batch": "a driver may compile better for a batch that it knows",
    "opset": "older runtimes do not load newer operators",
    "graph_optimization": "it makes inference faster and loading slower",
    "toolchain": "releases differ in speed, in accuracy and in the operators they know",
    "runner_toolchain": "an app may carry another release than the one that built the file",
    "threads": "more threads help large layers, and cost small ones time",
    "cpus": "big cores are faster, little ones save power; a mixture waits for the slowest",
    "reuse_input": "a new input for each inference shows what cold caches cost",
}
"""Why to vary it."""
