"""The Python runner of ONNX Runtime: loads one ONNX file, and times or evaluates it like PyTorch Mobile's Python
runner.

    python -m workers.runtimes.onnxruntime.runner --model model.onnx --input-dims 1,3,224,224 --iter 200

Arguments, report and measuring code are those of PyTorch Mobile's runner; only loading and running differ. Input and
output are bound once to the tensors of the measuring code, so that an iteration copies and allocates nothing.
"""

import argparse
import re
import sys
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from sweeps.temporary import folder_of_process
from workers.runtimes.torchscript.runner.batch import main
from workers.runtimes.torchscript.runner.events import GiveUp, tell
from workers.runtimes.torchscript.runner.load import main_message
from workers.runtimes.torchscript.runner.main import Load, Program
from workers.runtimes.torchscript.runner.main import main as run_alone
from workers.runtimes.torchscript.runner.profiling import input_of, run_often

if TYPE_CHECKING:
    import torch

NAME = "python-onnxruntime"
VERSION = "3"
"""The version, part of every job key; increased with every change that can change a result."""

PROVIDERS = {
    "cpu": "CPUExecutionProvider",
    "xnnpack": "XnnpackExecutionProvider",
    "nnapi": "NnapiExecutionProvider",
    "qnn": "QNNExecutionProvider",
    "coreml": "CoreMLExecutionProvider",
}
"""ONNX Runtime's execution providers by backend."""
_OPTIONS = {"qnn": {"backend_path": "libQnnHtp.so"}}
"""The options of providers, by backend: for QNN, Qualcomm's library for the NPU."""

_LEVELS = {
    "all": "ORT_ENABLE_ALL",
    "none": "ORT_ENABLE_ALL",
    "extended": "ORT_ENABLE_EXTENDED",
    "basic": "ORT_ENABLE_BASIC",
    "disabled": "ORT_DISABLE_ALL",
}
SKEW = re.compile(
    r"Unsupported model IR version|opset.*is till opset|Current official support|Could not find an implementation|"
    r"is not a registered function/op"
)
_ERRORS_ONLY = 3


class _Model:
    """A session that is called like a torch module."""

    def __init__(self, session: Any) -> None:
        import torch

        self._session = session
        self._binding = session.io_binding()
        self._bound = 0
        inputs, outputs = session.get_inputs(), session.get_outputs()
        if len(inputs) != 1 or len(outputs) != 1:
            raise GiveUp(
                "bad_output", f"the model has {len(inputs)} inputs and {len(outputs)} outputs, not one of each"
            )
        self._input = inputs[0].name
        sizes = [size if isinstance(size, int) and size > 0 else 0 for size in outputs[0].shape]
        if outputs[0].type != "tensor(float)" or not sizes or 0 in sizes:
            raise GiveUp("bad_output", f"the model answers {outputs[0].type} of the shape {outputs[0].shape}")
        self._answer = torch.empty(sizes)
        self._binding.bind_output(outputs[0].name, "cpu", 0, _float32(), sizes, self._answer.data_ptr())

    def __call__(self, x: "torch.Tensor") -> "torch.Tensor":
        """Return the answer, which is valid until the next call. It is not copied: that would take a twentieth of a
        small model's time, and the C++ runner copies nothing."""
        if x.data_ptr() != self._bound:
            self._binding.bind_input(self._input, "cpu", 0, _float32(), tuple(x.shape), x.data_ptr())
            self._bound = x.data_ptr()
        self._session.run_with_iobinding(self._binding)
        return self._answer

    def end_profile(self) -> str:
        """End the session's profiling, and return ONNX Runtime's own profile of the session."""
        return Path(self._session.end_profiling()).read_text(encoding="utf-8")


def _opened(arguments: argparse.Namespace) -> Load:
    import onnxruntime

    if arguments.graph_optimization not in _LEVELS:
        raise GiveUp("bad_arguments", f"--graph-optimization is none of {', '.join(_LEVELS)}")
    if arguments.use_bundled_input is not None or arguments.input_type != "float":
        raise GiveUp("bad_arguments", "an ONNX file carries no inputs, and takes float ones")
    if not Path(arguments.model).is_file():
        raise GiveUp("no_model", f"there is no file {arguments.model}")
    provider = PROVIDERS.get(arguments.backend, "")
    available = onnxruntime.get_available_providers()
    if provider not in available:
        raise GiveUp(
            "backend_missing", f"{_version()} has no {provider or arguments.backend} (it has: {', '.join(available)})"
        )
    options = session_options(arguments.graph_optimization, arguments.threads)
    options.enable_profiling = arguments.profile
    if arguments.profile:
        options.profile_file_prefix = str(folder_of_process() / "ort")
    if arguments.exact_int8:
        # The session then adds 8-bit products in 32 bits, where the CPU's own instructions would saturate.
        options.add_session_config_entry("session.x64quantprecision", "1")
    providers = [(provider, _OPTIONS.get(arguments.backend, {}))]

    def load() -> tuple[Any, int]:
        try:
            started = time.perf_counter_ns()
            session = onnxruntime.InferenceSession(arguments.model, options, providers=providers)
            load_ns = time.perf_counter_ns() - started
        except MemoryError:
            raise
        except Exception as error:  # ONNX Runtime raises any exception on a damaged file
            text = main_message(error)
            kind = "runtime_skew" if SKEW.search(text) else "load_failed"
            raise GiveUp(kind, f"{_version()}: {text}") from error
        return _Model(session), load_ns

    return load


def session_options(graph_optimization: str, threads: int) -> Any:
    """Return the options of every session of a file, whether it times the file or only inspects it."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = _ERRORS_ONLY
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, _LEVELS[graph_optimization])
    return options


def _version() -> str:
    import onnxruntime

    return f"onnxruntime {onnxruntime.__version__}"


def _float32() -> Any:
    import numpy as np

    return np.float32


def _metrics(_model: _Model) -> dict[str, float]:
    import onnxruntime

    libraries = (Path(onnxruntime.__file__).parent / "capi").glob("libonnxruntime.so*")
    return {"runtime_mb": sum(file.stat().st_size for file in libraries) / 1e6}


def _profile(model: _Model, arguments: argparse.Namespace, report: IO[str]) -> None:
    x = input_of(arguments)
    run_often(lambda: model(x), max(arguments.warmup, 1))
    iteration_ns = run_often(lambda: model(x), arguments.iter)
    tell(report, "profile", iteration_ns=iteration_ns, onnxruntime=model.end_profile())


PROGRAM = Program(NAME, VERSION, _opened, runtime=_version, metrics=_metrics, profiled=_profile, needs_compilers=False)


def alone(argv: list[str]) -> int:
    """Do one run, without batches. Returns the exit code."""
    return run_alone(argv, PROGRAM)


if __name__ == "__main__":
    sys.exit(main(program=PROGRAM))
