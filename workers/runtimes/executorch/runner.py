"""The Python runner of ExecuTorch: loads one pte file, and times or evaluates it like PyTorch Mobile's Python runner.

    python -m workers.runtimes.executorch.runner --model model.pte --input-dims 1,3,224,224 --iter 200

Arguments, report and measuring code are those of PyTorch Mobile's runner; only loading and running differ. An iteration
sets the input, runs, and reads the answer, as an app does.
"""

import argparse
import re
import sys
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from workers.runtimes.executorch import pte
from workers.runtimes.torchscript.runner.batch import main
from workers.runtimes.torchscript.runner.events import GiveUp
from workers.runtimes.torchscript.runner.load import main_message
from workers.runtimes.torchscript.runner.main import Load, Program
from workers.runtimes.torchscript.runner.main import main as run_alone

if TYPE_CHECKING:
    import torch

NAME = "python-executorch"
VERSION = "1"
"""The version, part of every job key; increased with every change that can change a result."""

DELEGATES = {"cpu": "XnnpackBackend", "portable": "", "vulkan": "VulkanBackend"}
"""ExecuTorch's name by backend; portable kernels have no name."""

_ERROR = re.compile(r"error: 0x:?([0-9a-fA-F]+)")
_OPERATOR_MISSING = 0x14
_NO_BACKEND = 0x20


class _Model:
    """A method of an ExecuTorch program that is called like a torch module."""

    def __init__(self, program: Any, method: Any) -> None:
        self._program = program  # The method does not keep the program.
        self._method = method

    def __call__(self, x: "torch.Tensor") -> "torch.Tensor":
        self._method.set_inputs((x,))
        self._method.execute()
        answer: torch.Tensor = self._method.get_outputs()[0]
        return answer


def _opened(arguments: argparse.Namespace) -> Load:
    if arguments.use_bundled_input is not None or arguments.input_type != "float" or arguments.exact_int8:
        raise GiveUp("bad_arguments", "a pte file carries no inputs, takes float ones and runs as it is")
    head = inspect(arguments)
    if arguments.reference is not None:
        return _stand_in(arguments, head)
    portable_lib = library()
    _check_backend(arguments.backend, head, portable_lib)
    if portable_lib._threadpool_get_thread_count() != arguments.threads:
        portable_lib._unsafe_reset_threadpool(arguments.threads)

    def load() -> tuple[Any, int]:
        try:
            started = time.perf_counter_ns()
            checked = portable_lib.Verification.InternalConsistency
            program = portable_lib._load_program(arguments.model, program_verification=checked)
            method = program.load_method("forward")
            load_ns = time.perf_counter_ns() - started
        except MemoryError:
            raise
        except Exception as error:  # ExecuTorch raises any exception on a damaged file
            raise GiveUp(*_refusal(main_message(error), head, portable_lib)) from error
        return _Model(program, method), load_ns

    return load


def _stand_in(arguments: argparse.Namespace, head: pte.Head) -> Load:
    if arguments.backend != "vulkan":
        raise GiveUp("bad_reference", f"nothing stands in for {arguments.backend}")

    def load() -> tuple[Any, int]:
        from workers.runtimes.executorch.vulkan_reference import opened

        return opened(arguments, head)

    return load


def library() -> Any:
    """Return ExecuTorch's library for Python, with the kernels of quantized operators that no delegate takes: these are
    in a separate library of the wheel, which is linked to the first.

    The module `portable_lib` is not used: it offers the same names, but imports the exporter too, 4.7 s in each
    process.
    """
    from executorch.extension.pybindings import _portable_lib
    from executorch.kernels import quantized  # noqa: F401  # registers them

    return _portable_lib


def inspect(arguments: argparse.Namespace) -> pte.Head:
    """Return the file's head, which has one input and one output. Raises `GiveUp` if it does not fit the arguments."""
    if not Path(arguments.model).is_file():
        raise GiveUp("no_model", f"there is no file {arguments.model}")
    try:
        head = pte.read(Path(arguments.model))
    except (OSError, pte.NoProgram) as error:
        raise GiveUp("load_failed", str(error)) from error
    if head.identifier != pte.IDENTIFIER:
        raise GiveUp("runtime_skew", f"the file has the format {head.identifier}, {_version()} reads {pte.IDENTIFIER}")
    if len(head.inputs) != 1 or len(head.outputs) != 1:
        raise GiveUp(
            "bad_output", f"the model has {len(head.inputs)} inputs and {len(head.outputs)} outputs, not one of each"
        )
    (tensor,) = head.inputs
    if tensor.sizes != arguments.input_dims:
        raise GiveUp("run_failed", f"the model takes {list(tensor.sizes)}, not {list(arguments.input_dims)}")
    # Data in another layout would give wrong answers without an error.
    if tensor.memory_format != arguments.memory_format:
        raise GiveUp("wrong_layout", f"the file takes {tensor.memory_format} data, not {arguments.memory_format}")
    return head


def _check_backend(backend: str, head: pte.Head, library: Any) -> None:
    name = DELEGATES.get(backend)
    if name is None:
        raise GiveUp("backend_missing", f"ExecuTorch has no backend {backend}")
    if foreign := sorted({*head.delegates} - {name}):
        raise GiveUp("wrong_backend", f"the file was lowered to {', '.join(foreign)}, not for {backend}")
    backends = library._get_registered_backend_names()
    if name and name not in backends:
        raise GiveUp("backend_missing", f"this ExecuTorch has no {name} (it has: {', '.join(backends)})")


def _refusal(message: str, head: pte.Head, library: Any) -> tuple[str, str]:
    match = _ERROR.search(message)
    code = int(match[1], 16) if match else 0
    if code == _OPERATOR_MISSING:
        operators = {*library._get_operator_names()}
        missing = [name for name in head.operators if name not in operators] or head.operators
        return "runtime_skew", f"{_version()} has no kernel for {', '.join(missing)}: {message}"
    return ("backend_missing" if code == _NO_BACKEND else "load_failed"), message


def _version() -> str:
    from importlib import metadata

    return f"executorch {metadata.version('executorch')}"


def _threads() -> int:
    from executorch.extension.pybindings import _portable_lib

    return int(_portable_lib._threadpool_get_thread_count())


def _metrics(_model: _Model) -> dict[str, float]:
    from executorch.extension.pybindings import _portable_lib

    return {"runtime_mb": Path(_portable_lib.__file__).stat().st_size / 1e6}


def _profile(_model: _Model, _arguments: argparse.Namespace, _report: IO[str]) -> None:
    raise GiveUp("no_profile", "ExecuTorch's library for Python was compiled without its event tracer")


PROGRAM = Program(
    NAME,
    VERSION,
    _opened,
    runtime=_version,
    metrics=_metrics,
    threads=_threads,
    profiled=_profile,
    needs_compilers=False,
)


def alone(argv: list[str]) -> int:
    """Do one run, without batches. Returns the exit code."""
    return run_alone(argv, PROGRAM)


if __name__ == "__main__":
    sys.exit(main(program=PROGRAM))
