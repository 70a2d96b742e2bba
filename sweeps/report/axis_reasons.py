"""The reasons to vary each axis, as `edgesweep explain` prints them."""

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
"""The reason to vary each axis, by the name of the axis."""
