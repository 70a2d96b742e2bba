"""The Python runner of PyTorch Mobile: loads one artifact and times it, or evaluates it, in a process of its own.

    python -m workers.runtimes.torchscript.runner --model model.pt --engine x86 --input-dims 1,3,224,224 --iter 200

Prints the events that `report` reads, on what was stdout at the start; a model that prints, prints on stderr. Ends
with 0 after an `end` line and with 3 after an `error` line. Only the standard library is imported before the CPUs
are chosen: threads inherit them from the thread that starts them.

With `--reuse-input 0` each iteration gets a fresh copy of the input, made inside the timed region, as in an app
that allocates its input for each frame.
"""

import argparse
import ctypes
import gc
import json
import os
import re
import resource
import sys
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    import torch

NAME = "python-torchscript"
VERSION = "1"
"""Part of every job key: raised with every change that can move a figure."""

ERROR_EXIT = 3
_LINE_OF_SAMPLES = 10_000
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h


class _GiveUp(Exception):  # noqa: N818  # not an error of ours: the last line of the report
    def __init__(self, kind: str, message: str) -> None:
        super().__init__(kind, message)
        self.kind = kind
        self.message = message


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise _GiveUp("bad_arguments", message)


def main(argv: list[str] | None = None) -> int:
    """Run once. Returns the exit code."""
    # TorchScript's print() writes to the C stdout: the report goes to a descriptor that no model knows.
    report = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    try:
        _run(_arguments(argv), report)
    except _GiveUp as given:
        _tell(report, "error", kind=given.kind, message=given.message)
        return ERROR_EXIT
    except MemoryError:
        _tell(report, "error", kind="out_of_memory", message="the process may not allocate more memory")
        return ERROR_EXIT
    _tell(report, "end")
    return 0


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = _Parser(prog="runner", description=__doc__.partition("\n")[0], allow_abbrev=False)
    parser.add_argument("--model", required=True)
    parser.add_argument("--backend", default="cpu", choices=["cpu"])
    parser.add_argument("--engine", default="none")
    parser.add_argument("--warmup", type=int, default=0)
    parser.add_argument("--warmup-seconds", type=float, default=0.0)
    parser.add_argument("--iter", type=int, default=1)
    parser.add_argument("--min-seconds", type=float, default=0.0)
    parser.add_argument("--max-seconds", type=float, default=60.0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cpus", default="all", help="all, or a list such as 0,1")
    parser.add_argument("--input-dims", required=True, type=_dims)
    parser.add_argument("--input-type", default="float", choices=["float", "quint8"])
    parser.add_argument("--input-scale", type=float)
    parser.add_argument("--input-zero-point", type=int)
    parser.add_argument("--memory-format", default="contiguous_format", choices=["contiguous_format", "channels_last"])
    parser.add_argument("--reuse-input", type=int, choices=[0, 1], default=1)
    parser.add_argument("--eval-inputs")
    parser.add_argument("--eval-outputs")
    given = parser.parse_args(argv)
    if given.iter < 1 or given.threads < 1 or given.warmup < 0:
        parser.error("--iter and --threads are at least 1, --warmup at least 0")
    if (given.input_type == "quint8") != (given.input_scale is not None and given.input_zero_point is not None):
        parser.error("--input-type quint8 goes with --input-scale and --input-zero-point")
    if (given.eval_inputs is None) != (given.eval_outputs is None):
        parser.error("--eval-inputs and --eval-outputs go together")
    if given.memory_format == "channels_last" and len(given.input_dims) != 4:
        parser.error("--memory-format channels_last needs four --input-dims")
    return given


def _dims(text: str) -> tuple[int, ...]:
    dims = tuple(int(word) for word in text.split(","))
    if min(dims) < 1:
        raise ValueError
    return dims


def _run(given: argparse.Namespace, report: IO[str]) -> None:
    _pin(given.cpus)
    _keep_memory()
    os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = str(given.threads)
    import torch

    torch.set_num_threads(given.threads)  # XNNPACK's and QNNPACK's pool as well
    torch.set_num_interop_threads(1)
    torch._C._set_graph_executor_optimize(False)  # as in speed_benchmark_torch
    _tell(
        report,
        "start",
        runner=NAME,
        runner_version=VERSION,
        torch=str(torch.__version__),
        file_version_max=torch._C._get_max_operator_version(),
        bytecode_version_max=_bytecode_version(Path(torch.__file__).parent),
    )
    _choose_engine(given.engine)
    before = _memory_bytes("VmRSS")
    _forget_peak()
    model, load_ns = _load(given.model)
    _tell(report, "load", load_ns=load_ns, rss_before_load_bytes=before)
    with torch.inference_mode():
        try:
            if given.eval_inputs is None:
                _time(model, given, report)
            else:
                _evaluate(model, given, report)
        except _GiveUp:
            raise
        except Exception as error:  # torch.jit.Error is no RuntimeError
            text = _last_words(error)
            kind = "out_of_memory" if "can't allocate memory" in text else "run_failed"
            raise _GiveUp(kind, text) from error
    _tell(
        report,
        "ran",
        backend="cpu",
        # Without a quantized operator no engine runs, whatever torch's default is.
        engine="none" if given.engine == "none" else torch.backends.quantized.engine,
        threads=torch.get_num_threads(),
        rss_peak_bytes=_memory_bytes("VmHWM") or _peak_of_usage(),
    )


def _pin(cpus: str) -> None:
    if cpus == "all":
        return
    try:
        os.sched_setaffinity(0, {int(word) for word in cpus.split(",")})
    except (ValueError, OSError, AttributeError) as error:
        raise _GiveUp("bad_cpus", f"the CPUs {cpus!r} can not be had: {error}") from error


def _keep_memory() -> None:
    """Let freed memory stay with the process, as the allocators of phones do.

    glibc hands it back to the kernel and faults it in again at every iteration, or does not, by what happened to be
    allocated before: the same fp32 MobileNetV2 took 6.1 to 7.4 ms by that alone, and 15 at its lowest threshold.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return  # not glibc
    for option in (_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD):
        mallopt(option, 2**30)


def _choose_engine(engine: str) -> None:
    """Before loading: the engine in force then decides the kernels."""
    import torch

    if engine == "none":
        return
    if engine not in torch.backends.quantized.supported_engines:
        there = ", ".join(torch.backends.quantized.supported_engines)
        raise _GiveUp("engine_missing", f"this torch has no quantized engine {engine} (it has: {there})")
    torch.backends.quantized.engine = engine


def _load(path: str) -> "tuple[torch.jit.ScriptModule, int]":
    import torch

    if not Path(path).is_file():
        raise _GiveUp("no_model", f"there is no file {path}")
    try:
        started = time.perf_counter_ns()
        model: torch.jit.ScriptModule = torch.jit.load(path, map_location="cpu")  # type: ignore[no-untyped-call]  # torch has no types for it
        model.eval()
        return model, time.perf_counter_ns() - started
    except RuntimeError as error:
        text = str(error)
        # An artifact of a newer torch says so by its version or by an operator that is not known here.
        newer = "maximum supported version" in text or "Unknown builtin op" in text
        raise _GiveUp("runtime_skew" if newer else "load_failed", _last_words(error)) from error


def _time(model: "torch.jit.ScriptModule", given: argparse.Namespace, report: IO[str]) -> None:
    import torch

    generator = torch.Generator().manual_seed(0)
    x = _as_given(torch.rand(given.input_dims, generator=generator), given)
    fresh = not given.reuse_input
    clock = time.perf_counter_ns

    def once() -> int:
        started = clock()
        model(x.clone() if fresh else x)
        return clock() - started

    def block(iterations: int, min_seconds: float, max_seconds: float) -> list[int]:
        taken: list[int] = []
        begin = clock()
        least, most = begin + int(min_seconds * 1e9), begin + int(max_seconds * 1e9)
        while True:
            now = clock()
            if (len(taken) >= iterations and now >= least) or (taken and now >= most):
                return taken
            taken.append(once())

    gc.collect()
    gc.disable()
    first = once()
    # A warm-up that is asked for in seconds gets them; one in iterations must not outlast the measurement.
    longest = max(given.max_seconds, given.warmup_seconds)
    warmup = block(given.warmup, given.warmup_seconds, longest) if given.warmup or given.warmup_seconds else []
    samples = block(given.iter, given.min_seconds, given.max_seconds)
    gc.enable()
    _tell(report, "first_inference", ns=first)
    for name, taken in (("warmup", warmup), ("sample", samples)):
        for start in range(0, len(taken), _LINE_OF_SAMPLES):
            _tell(report, name, ns=taken[start : start + _LINE_OF_SAMPLES])


def _evaluate(model: "torch.jit.ScriptModule", given: argparse.Namespace, report: IO[str]) -> None:
    """All images of `--eval-inputs` in batches of `--input-dims`, the last one filled up with its last image."""
    import numpy as np
    import torch

    batch, image = given.input_dims[0], int(np.prod(given.input_dims[1:]))
    try:
        images = np.memmap(given.eval_inputs, dtype="<f4", mode="r").reshape(-1, *given.input_dims[1:])
    except (OSError, ValueError) as error:
        raise _GiveUp(
            "bad_eval_inputs", f"{given.eval_inputs} does not hold whole images of {image * 4} bytes: {error}"
        ) from error
    answers: list[torch.Tensor] = []
    first = 0
    for start in range(0, len(images), batch):
        part = torch.from_numpy(np.array(images[start : start + batch], dtype=np.float32))
        kept = len(part)
        if kept < batch:
            part = torch.cat([part, part[-1:].expand(batch - kept, *part.shape[1:])])
        x = _as_given(part, given)
        started = time.perf_counter_ns()
        answer = model(x)
        first = first or time.perf_counter_ns() - started
        answers.append(_logits(answer, batch)[:kept])
    logits = torch.cat(answers).contiguous()
    target = Path(given.eval_outputs)
    try:
        partial = target.with_name(target.name + ".partial")
        partial.write_bytes(logits.numpy().astype("<f4", copy=False).tobytes())
        partial.replace(target)
    except OSError as error:
        raise _GiveUp("eval_outputs_not_written", f"{target} can not be written: {error.strerror}") from error
    _tell(report, "first_inference", ns=first)
    _tell(report, "eval", images=logits.shape[0], classes=logits.shape[1])


def _as_given(x: "torch.Tensor", given: argparse.Namespace) -> "torch.Tensor":
    import torch

    if given.memory_format == "channels_last":
        x = x.contiguous(memory_format=torch.channels_last)
    if given.input_type == "quint8":
        x = torch.quantize_per_tensor(x, given.input_scale, given.input_zero_point, torch.quint8)
    return x


def _logits(answer: object, batch: int) -> "torch.Tensor":
    import torch

    if not isinstance(answer, torch.Tensor):
        raise _GiveUp("bad_output", f"the model answers a {type(answer).__name__}, not one tensor (batch, classes)")
    if answer.is_quantized:
        answer = answer.dequantize()
    if answer.dim() != 2 or answer.shape[0] != batch or not answer.is_floating_point():
        raise _GiveUp(
            "bad_output",
            f"the model answers {answer.dtype} of shape {tuple(answer.shape)}, not float32 of ({batch}, classes)",
        )
    return answer.float()


def _memory_bytes(field: str) -> int | None:
    """A line of /proc/self/status, in bytes; `None` where the system has none."""
    try:
        text = Path("/proc/self/status").read_text(encoding="ascii")
    except OSError:
        return None
    found = re.search(rf"^{field}:\s+(\d+) kB$", text, re.MULTILINE)
    return int(found[1]) * 1024 if found else None


def _forget_peak() -> None:
    """Start the peak anew: importing torch has held more than a small model adds."""
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return  # the peak of the import stays in; it is an upper bound then


def _peak_of_usage() -> int:
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _bytecode_version(torch_folder: Path) -> int | None:
    """Python can not ask torch for it; the wheel's headers say it."""
    header = torch_folder / "include" / "caffe2" / "serialize" / "versions.h"
    try:
        found = re.search(r"kMaxSupportedBytecodeVersion = (0x[0-9A-Fa-f]+)L", header.read_text(encoding="utf-8"))
    except OSError:
        return None
    return int(found[1], 16) if found else None


def _last_words(error: Exception) -> str:
    """torch ends a long story of source lines with what happened; other messages begin with it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    told = [found[1] for line in lines if (found := re.match(r"[\w.]*(?:Error|Exception): (.*)", line))]
    return (told[-1] if told else lines[0])[:500]


def _tell(report: IO[str], event: str, **content: object) -> None:
    report.write(json.dumps({"event": event, **content}) + "\n")
    report.flush()


if __name__ == "__main__":
    sys.exit(main())
