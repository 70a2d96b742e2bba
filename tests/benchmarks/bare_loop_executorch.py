"""The least that Python can do to time an ExecuTorch file: load, warm up, loop. What bench_exported_runners.py holds
the Python runner against.

    python bare_loop_executorch.py model.pte warmups iterations batch channels height width

One thread, contiguous input. Prints the nanoseconds of every timed iteration, one a line.
"""

import sys
import time

import torch
from executorch.extension.pybindings import _portable_lib


def main() -> None:
    model, *numbers = sys.argv[1:]
    warmups, iterations, *sizes = map(int, numbers)
    torch.set_num_threads(1)
    _portable_lib._unsafe_reset_threadpool(1)
    program = _portable_lib._load_program(model)
    method = program.load_method("forward")
    x = torch.full(sizes, 0.5)

    def run() -> torch.Tensor:
        method.set_inputs((x,))
        method.execute()
        return method.get_outputs()[0]

    with torch.inference_mode():
        for _ in range(warmups + 1):  # the first inference, then the warm-ups
            run()
        taken = []
        for _ in range(iterations):
            started = time.perf_counter_ns()
            run()
            taken.append(time.perf_counter_ns() - started)
    print(*taken, sep="\n")


if __name__ == "__main__":
    main()
