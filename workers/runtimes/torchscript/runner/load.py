"""Loads one artifact, or reports why that is not possible, above all if the artifact is newer than this runtime."""

import re
import time
from pathlib import Path
from typing import Any

from workers.runtimes.torchscript import archive
from workers.runtimes.torchscript.archive import Archive, NoArchive
from workers.runtimes.torchscript.runner.events import GiveUp

WAY_OUT = "export with a torch no newer than the runtime, put a newer runtime on the device"
LIBRARIES = ("libtorch_cpu", "libc10")
UNKNOWN_OPERATOR = re.compile(r"Unknown builtin op: ([\w.:]+?)\.?$", re.MULTILINE)
OPERATORS_NOT_FOUND = re.compile(r"ops cannot be found: \[([^\]]*)\]")
OTHER_ARGUMENTS = re.compile(r"Arguments for call are not valid.*?variants are available:\s+([\w.:]+)\(", re.DOTALL)
NO_CLASS = re.compile(r"Unknown type name '__torch__\.torch\.classes\.([\w.]+)'")


def choose_engine(engine: str) -> None:
    """Set the quantized engine. Call it before loading, which chooses kernels. Raises `GiveUp("engine_missing")`."""
    import torch

    if engine == "none":
        return
    if engine not in torch.backends.quantized.supported_engines:
        engines = ", ".join(torch.backends.quantized.supported_engines)
        raise GiveUp("engine_missing", f"this torch has no quantized engine {engine} (it has: {engines})")
    torch.backends.quantized.engine = engine


def versions_known() -> tuple[int, int | None]:
    """Return the highest file and bytecode version that this torch reads. The bytecode version is only in torch's C++
    header; `None` without the header."""
    import torch

    header = Path(torch.__file__).parent / "include" / "caffe2" / "serialize" / "versions.h"
    try:
        match = re.search(r"kMaxSupportedBytecodeVersion = (0x[0-9A-Fa-f]+)L", header.read_text(encoding="utf-8"))
    except OSError:
        match = None
    return torch._C._get_max_operator_version(), int(match[1], 16) if match else None


def library_size(_model: object = None) -> dict[str, float]:
    """Return `runtime_mb`: the size of torch's libraries that a program on the CPU is linked to; nothing if they are
    missing."""
    import torch

    folder = Path(torch.__file__).parent / "lib"
    files = [file for name in LIBRARIES for file in folder.glob(f"{name}.*")]
    return {"runtime_mb": sum(file.stat().st_size for file in files) / 1e6} if files else {}


def inspect(path: str, backend: str) -> Archive:
    """Return the file's checked properties. Raises `GiveUp`: `no_model`, `load_failed`, `wrong_format` or
    `wrong_backend`."""
    file = Path(path)
    if not file.is_file():
        raise GiveUp("no_model", f"there is no file {path}")
    try:
        contents = archive.read(file)
    except NoArchive as error:
        raise GiveUp("load_failed", str(error)) from error
    if file.suffix in (".pt", ".ptl") and file.suffix != f".{contents.format}":
        holds = (
            "bytecode for the lite interpreter" if contents.format == "ptl" else "no bytecode for the lite interpreter"
        )
        raise GiveUp("wrong_format", f"{file.name} holds {holds}: it is a {contents.format} file under another name")
    if contents.backend != backend:
        raise GiveUp("wrong_backend", f"{file.name} is made for the backend {contents.backend}, not for {backend}")
    return contents


def load(path: str, contents: Archive) -> tuple[Any, int]:
    """Load the model in the interpreter of its format; returns it and its load time in nanoseconds.

    Raises `GiveUp`: `runtime_skew` if this runtime lacks something that the artifact needs, else `load_failed`.
    """
    import torch
    from torch.jit import mobile

    try:
        started = time.perf_counter_ns()
        model: Any
        if contents.format == "ptl":
            model = mobile._load_for_lite_interpreter(path, map_location="cpu")  # type: ignore[no-untyped-call]  # torch has no types for it
        else:
            model = torch.jit.load(path, map_location="cpu")  # type: ignore[no-untyped-call]  # as above
            model.eval()
        return model, time.perf_counter_ns() - started
    except MemoryError:
        raise
    except Exception as error:  # torch raises any exception on a damaged file
        skew = _skew(contents, str(error))
        raise GiveUp(*(("runtime_skew", skew) if skew else ("load_failed", main_message(error)))) from error


def _skew(contents: Archive, message: str) -> str | None:
    """Return the feature that this runtime lacks, from torch's error message; `None` for other errors."""
    import torch

    runtime = f"this runtime (torch {torch.__version__})"
    read = dict(zip(("file", "bytecode"), versions_known()))  # noqa: B905  # of one length
    for kind, version in (("file", contents.file_version), ("bytecode", contents.bytecode_version)):
        highest = read[kind]
        if version is not None and highest is not None and version > highest:
            return f"the artifact has {kind} version {version}, {runtime} reads up to {highest}; {WAY_OUT}"
    missing = UNKNOWN_OPERATOR.findall(message)
    for names in OPERATORS_NOT_FOUND.findall(message):
        missing += [name.strip() for name in names.split(",")]
    if missing:
        return f"{runtime} has no operator {', '.join(missing)}; {WAY_OUT}, or use another operator in the model"
    if operators := OTHER_ARGUMENTS.findall(message):
        return f"{runtime} knows {operators[0]} with other arguments; {WAY_OUT}, or use another operator in the model"
    if classes := NO_CLASS.findall(message):
        return f"{runtime} has no class {classes[0]}; {WAY_OUT}, or build without it (optimize: [false])"
    return None


def main_message(error: Exception | str) -> str:
    """Return the line with the actual error: in torch's messages after many source lines, in others the first line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    errors = [match[1] for line in lines if (match := re.match(r"[\w.]*(?:Error|Exception): (.*)", line))]
    return (errors[-1] if errors else lines[0])[:500]
