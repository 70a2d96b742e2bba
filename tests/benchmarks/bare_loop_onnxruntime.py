"""The least that Python can do to time an ONNX file: load, bind, warm up, loop. bench_exported_runners.py holds the
Python runner against it.

    python bare_loop_onnxruntime.py model.onnx warmups iterations batch channels height width

One thread, contiguous input. Prints the nanoseconds of every timed iteration, one a line.
"""

import os
import sys
import time

import numpy as np

os.environ["ORT_DISABLE_TELEMETRY"] = "1"  # read as the library is loaded

import onnxruntime


def main() -> None:
    model, *numbers = sys.argv[1:]
    warmups, iterations, *sizes = map(int, numbers)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    binding.bind_cpu_input(session.get_inputs()[0].name, np.full(sizes, 0.5, np.float32))
    binding.bind_output(session.get_outputs()[0].name, "cpu")
    for _ in range(warmups + 1):  # the first inference, then the warm-ups
        session.run_with_iobinding(binding)
    taken = []
    for _ in range(iterations):
        started = time.perf_counter_ns()
        session.run_with_iobinding(binding)
        taken.append(time.perf_counter_ns() - started)
    print(*taken, sep="\n")


if __name__ == "__main__":
    main()
