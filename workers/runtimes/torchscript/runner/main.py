"""The Python runner of PyTorch Mobile: loads one artifact, and times or evaluates it, in a separate process.

    python -m workers.runtimes.torchscript.runner --model model.pt --engine x86 --input-dims 1,3,224,224 --iter 200

Prints the events that `runner_report` parses to the original stdout; output of the model itself goes to stderr. The
exit code is 0 after an `end` line and 3 after an `error` line. Only the standard library is imported before the CPUs
are set, because threads inherit CPUs from the thread that starts them. Also runs under older torch releases, down to
1.13, and without numpy.

With `--reference LIB` a library replaces a backend that this machine does not have. Its output is valid, its time is
not, so it needs `--eval-inputs`. The same holds for `--exact-int8`, which replaces an engine that saturates on this
machine but not on the device. `--nnapi-devices` lists accelerators instead of running a model. `--batch` times
several artifacts in one process: see `batch`, whose `main` is the program's.
"""

import argparse
import hashlib
import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import IO, Any, NamedTuple, NoReturn

from workers.runtimes.torchscript.runner import process
from workers.runtimes.torchscript.runner.backend import as_on_device, failure, prepare
from workers.runtimes.torchscript.runner.evaluate import evaluate
from workers.runtimes.torchscript.runner.events import GiveUp, tell
from workers.runtimes.torchscript.runner.load import choose_engine, inspect, library_size, load, versions_known
from workers.runtimes.torchscript.runner.profiling import profile
from workers.runtimes.torchscript.runner.timing import measure

NAME = "python-torchscript"
VERSION = "2"
"""The version, part of every job key; increased with every change that can change a result."""

ERROR_EXIT = 3

_CHUNK_BYTES = 1024 * 1024

Load = Callable[[], tuple[Any, int]]
"""Returns the model and its load time in nanoseconds. Raises `GiveUp`."""


class Program(NamedTuple):
    """The differences between the runners of two runtimes. They share the measuring code."""

    name: str
    version: str
    opened: Callable[[argparse.Namespace], Load]
    """Does the work before loading that must not count as load time. Raises `GiveUp`."""
    exactly: Callable[[], AbstractContextManager[None]] | None = None
    """The context manager for `--exact-int8`, if `opened` does not handle this option."""
    runtime: Callable[[], str] | None = None
    """Returns the version of the runtime, if the runtime is not torch."""
    metrics: Callable[[Any], dict[str, float]] | None = None
    """Returns the runner's additional metrics, about the model that ran."""
    threads: Callable[[], int] | None = None
    """Returns the number of the runtime's threads, if they are not torch's."""
    profiled: Callable[[Any, argparse.Namespace, IO[str]], None] = profile
    """Profiles the model, for `--profile`."""
    needs_compilers: bool = True
    """Tells whether the program's models may use torch's compilers, as the Python code of users may."""


class Parser(argparse.ArgumentParser):
    """A parser that raises `GiveUp` for arguments that it does not understand."""

    def error(self, message: str) -> NoReturn:
        raise GiveUp("bad_arguments", message)


def main(argv: list[str] | None = None, program: Program | None = None) -> int:
    """Run once; by default as PyTorch Mobile's runner. Returns the exit code."""
    report = own_report()
    return ended(report, lambda: _run(arguments(argv), program or pytorch_mobile(), report))


def pytorch_mobile() -> Program:
    return Program(NAME, VERSION, _opened, _exact_int8, metrics=library_size, needs_compilers=False)


def own_report() -> IO[str]:
    """Return a file for the report on the original stdout, and send all other output to stderr: TorchScript's print()
    writes to the C stdout."""
    report = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return report


def ended(report: IO[str], work: Callable[[], None], last: str = "end") -> int:
    """Do the work, and report how it ended: the event `last` or an `error`. Returns the exit code."""
    try:
        work()
    except GiveUp as error:
        tell(report, "error", kind=error.kind, message=error.message)
        return ERROR_EXIT
    except MemoryError:
        tell(report, "error", kind="out_of_memory", message="the process may not allocate more memory")
        return ERROR_EXIT
    tell(report, last)
    return 0


def arguments(argv: list[str] | None) -> argparse.Namespace:
    """Parse and check the arguments of one run. Raises `GiveUp`."""
    parser = Parser(prog="runner", description=__doc__.partition("\n")[0], allow_abbrev=False)
    parser.add_argument("--model")
    parser.add_argument("--backend", default="cpu", help="each program says which it lacks")
    parser.add_argument("--reference", help="a library that stands in for the backend on a host")
    parser.add_argument("--engine", default="none")
    parser.add_argument("--exact-int8", action="store_true", help="compute static int8 exactly, not as the engine does")
    parser.add_argument("--warmup", type=int, default=0)
    parser.add_argument("--warmup-seconds", type=float, default=0.0)
    parser.add_argument("--iter", type=int, default=1)
    parser.add_argument("--min-seconds", type=float, default=0.0)
    parser.add_argument("--max-seconds", type=float, default=60.0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cpus", default="all", help="all, big, little, or a list such as 0,1")
    parser.add_argument("--input-dims", type=_dims)
    parser.add_argument("--input-type", default="float", choices=["float", "quint8"])
    parser.add_argument("--input-scale", type=float)
    parser.add_argument("--input-zero-point", type=int)
    parser.add_argument("--memory-format", default="contiguous_format", choices=["contiguous_format", "channels_last"])
    parser.add_argument("--use-bundled-input", type=int, help="time an input that the file carries, counted from 0")
    parser.add_argument("--reuse-input", type=int, choices=[0, 1], default=1)
    parser.add_argument("--eval-inputs")
    parser.add_argument("--eval-outputs")
    parser.add_argument("--nnapi-devices", action="store_true")
    parser.add_argument("--sha256", default="", help="of the model's file: another file is refused")
    parser.add_argument("--graph-optimization", default="none")
    parser.add_argument("--profile", action="store_true", help="time each operator instead")
    parser.set_defaults(patience=0.0)
    options = parser.parse_args(argv)
    _check(options, parser)
    return options


def _check(options: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    if options.iter < 1 or options.threads < 1 or options.warmup < 0:
        parser.error("--iter and --threads are at least 1, --warmup at least 0")
    if (options.input_type == "quint8") != (options.input_scale is not None and options.input_zero_point is not None):
        parser.error("--input-type quint8 goes with --input-scale and --input-zero-point")
    if (options.eval_inputs is None) != (options.eval_outputs is None):
        parser.error("--eval-inputs and --eval-outputs go together")
    if options.eval_inputs is not None and options.use_bundled_input is not None:
        parser.error("--use-bundled-input is timed, --eval-inputs are not")
    if options.nnapi_devices:
        return
    if options.model is None:
        parser.error("--model is missing")
    if options.input_dims is None and options.use_bundled_input is None:
        parser.error("--input-dims are missing")
    if options.memory_format == "channels_last" and options.input_dims is not None and len(options.input_dims) != 4:
        parser.error("--memory-format channels_last needs four --input-dims")
    if options.reference is not None and options.backend == "cpu":
        parser.error("--reference stands in for nnapi or metal, and the backend is cpu")
    if options.exact_int8 and options.backend != "cpu":
        parser.error("--exact-int8 stands in for int8 kernels of the cpu")
    if (options.reference is not None or options.exact_int8) and options.eval_inputs is None:
        raise GiveUp("emulated", "an emulated backend's time is never a time: --reference goes with --eval-inputs only")


def _dims(text: str) -> tuple[int, ...]:
    dims = tuple(int(word) for word in text.split(","))
    if min(dims) < 1:
        raise ValueError
    return dims


def _opened(options: argparse.Namespace) -> Load:
    if options.exact_int8 and options.engine == "none":
        raise GiveUp("bad_arguments", "--exact-int8 stands in for an engine")
    contents = inspect(options.model, options.backend)
    prepare(options.backend, options.reference)
    choose_engine(options.engine)
    return lambda: load(options.model, contents)


def _exact_int8() -> AbstractContextManager[None]:
    from workers.runtimes.torchscript.exact_int8 import exact_int8

    return exact_int8()


def _run(options: argparse.Namespace, program: Program, report: IO[str]) -> None:
    begin(options, program)
    # PyTorch Mobile's runner is given no hash.
    options.patience = 0.0 if options.sha256 or program.runtime is None else process.PATIENCE_S
    tell_start(program, report, engines=options.nnapi_devices)
    if options.nnapi_devices:
        _list_devices(options, report)
    else:
        run_model(options, program, report)


def begin(options: argparse.Namespace, program: Program) -> None:
    """Set this process's CPUs, memory and threads; once, before anything else. Raises `GiveUp("bad_cpus")`."""
    process.pin(options.cpus)
    process.keep_memory()
    if not (program.needs_compilers or process.rewrites(options.backend, options.reference)):
        process.leave_out_compilers()
    os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = str(options.threads)
    import torch

    torch.set_num_threads(options.threads)  # XNNPACK's and QNNPACK's pool as well
    torch.set_num_interop_threads(1)
    torch._C._set_graph_executor_optimize(False)  # speed_benchmark_torch does the same


def tell_start(program: Program, report: IO[str], *, engines: bool = False) -> None:
    """Report the runner and its versions. `engines`: also report the quantized engines, which identify a runner."""
    import torch

    file_version, bytecode_version = versions_known() if program.runtime is None else (None, None)
    tell(
        report,
        "start",
        runner=program.name,
        runner_version=program.version,
        torch=str(torch.__version__) if program.runtime is None else program.runtime(),
        file_version_max=file_version,
        bytecode_version_max=bytecode_version,
        **({"engines": list(torch.backends.quantized.supported_engines)} if engines else {}),
    )


def run_model(options: argparse.Namespace, program: Program, report: IO[str]) -> None:
    """Load the artifact, and time or evaluate it. Raises `GiveUp`."""
    import torch

    check_file(options)
    loaded = program.opened(options)
    before = process.resident_bytes()
    process.reset_peak()
    process.be_patient(options)
    model, load_ns = loaded()
    tell(report, "load", load_ns=load_ns, rss_before_load_bytes=before)
    exactly = program.exactly if options.exact_int8 else None
    with torch.inference_mode(), exactly() if exactly is not None else nullcontext():
        try:
            if options.profile:
                process.be_patient(options, 2 * options.max_seconds)
                program.profiled(model, options, report)
            elif options.eval_inputs is None:
                measure(model, options, report)
            else:
                evaluate(as_on_device(options.backend, model), options, report)
        except GiveUp:
            raise
        except Exception as error:  # torch.jit.Error is not a RuntimeError
            raise GiveUp(*failure(options.backend, error)) from error
    if program.metrics is not None:
        tell(report, "metrics", values=program.metrics(model))
    tell(
        report,
        "ran",
        backend=options.backend,
        reference=options.reference is not None or options.exact_int8,
        # Without a quantized operator no engine runs, whatever torch's default is.
        engine="none" if options.engine == "none" else torch.backends.quantized.engine,
        threads=torch.get_num_threads() if program.threads is None else program.threads(),
        cpus=process.cpus_now(),
        rss_peak_bytes=process.peak_bytes(),
    )


def check_file(options: argparse.Namespace) -> None:
    """Raises `GiveUp` if the file has another sha256 than the requested one: a damaged model may answer as if it were
    whole."""
    if options.sha256 and sha256_of(Path(options.model)) != options.sha256:
        raise GiveUp("wrong_artifact", f"{options.model} is not the file with the sha256 {options.sha256[:80]}")


def sha256_of(file: Path) -> str:
    """Return a file's sha256, without `hashlib.file_digest`, which older Pythons lack. Raises `GiveUp("no_model")`."""
    digest = hashlib.sha256()
    try:
        with file.open("rb") as content:
            while chunk := content.read(_CHUNK_BYTES):
                digest.update(chunk)
    except (OSError, ValueError) as error:  # a name with a NUL
        raise GiveUp("no_model", f"there is no file {file}") from error
    return digest.hexdigest()


def _list_devices(options: argparse.Namespace, report: IO[str]) -> None:
    model = None
    if options.model is not None:
        # The full interpreter reads both formats, and gives access to submodules.
        model, _ = load(options.model, replace(inspect(options.model, "nnapi"), format="pt"))
    prepare("nnapi", options.reference)
    # The runner of one file never comes here: where that runs, there is no NNAPI.
    from workers.runtimes.torchscript.nnapi.nnapi_devices import listing

    listed = listing(model, options.input_dims)
    if listed.operations is not None:
        tell(report, "nnapi_model", operations=listed.operations)
    for device in listed.devices:
        tell(report, "nnapi_device", **asdict(device))
