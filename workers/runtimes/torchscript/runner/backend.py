"""Backends other than the CPU: their reference libraries on a host, and the meaning of their errors."""

import ctypes
import re
from pathlib import Path
from typing import Any

from workers.runtimes.torchscript.runner.events import GiveUp
from workers.runtimes.torchscript.runner.load import main_message

NNAPI_LIBRARY = "libneuralnetworks.so"
_MEANING = {
    1: "out of memory",
    2: "incomplete",
    3: "unexpected null",
    4: "bad data",
    5: "operation failed",
    6: "bad state",
    7: "unmappable",
    8: "output of insufficient size",
    9: "unavailable device",
}
"""ANEURALNETWORKS_* result codes (NeuralNetworks.h)."""
# Only our reference library has this function: it returns why the last call failed.
_REFERENCE_REASON = "edgesweep_reference_last_error"


def prepare(backend: str, reference: str | None) -> None:
    """Load the library of `backend`, or on a host its `reference`. Call it before the model is loaded.

    Raises `GiveUp`: `backend_missing` if there is no library, `bad_reference` if the reference cannot be used.
    """
    if backend == "cpu":
        return
    if reference is not None:
        _load_reference(backend, reference)
    elif backend == "metal":
        raise GiveUp("backend_missing", "Metal runs on iOS only; a host can evaluate the artifact with --reference")
    else:
        try:
            library = ctypes.CDLL(NNAPI_LIBRARY)
        except OSError as error:
            raise GiveUp(
                "backend_missing",
                f"there is no {NNAPI_LIBRARY}, which Android has; a host can evaluate the artifact with --reference",
            ) from error
        if hasattr(library, _REFERENCE_REASON):
            raise GiveUp("emulated", f"the {NNAPI_LIBRARY} here is the reference: name it with --reference")


def _load_reference(backend: str, reference: str) -> None:
    if not Path(reference).is_file():
        raise GiveUp("bad_reference", f"there is no file {reference}")
    try:
        if backend == "metal":
            import torch

            torch.ops.load_library(reference)  # type: ignore[no-untyped-call]  # torch has no types for it
            return
        ctypes.CDLL(str(Path(reference).resolve()), mode=ctypes.RTLD_GLOBAL)
        # Torch opens the library by this name, and a loaded library is found only under its own name.
        ctypes.CDLL(NNAPI_LIBRARY)
    except (OSError, RuntimeError) as error:
        raise GiveUp("bad_reference", f"{reference} can not stand in for {backend}: {main_message(error)}") from error


def as_on_device(backend: str, model: Any) -> Any:
    """Return the loaded `model` with the arithmetic of the device on a host's reference: Metal computes in fp16."""
    if backend != "metal":
        return model
    from workers.runtimes.torchscript.metal import round_to_half

    return round_to_half(model)


def failure(backend: str, error: Exception) -> tuple[str, str]:
    """Return kind and message for an error of `forward`."""
    full, text = str(error), main_message(error)
    if "can't allocate memory" in full:
        return "out_of_memory", text
    if backend != "nnapi":
        return "run_failed", text
    # Compilation happens in the first forward. The lite interpreter prints no source lines, so look for class names.
    compiling = re.search(r"nnapi_model_loader|nnapi_\.|\b(?:Model|Compilation)_|comp\w*\)?\.init2?\(", full)
    if code := re.search(r"(?:NNAPI returned error:|failed with error) (\d+)", text):
        text += f" ({meaning(int(code[1]))})"
    return ("nnapi_compile_failed" if compiling else "nnapi_run_failed"), text


def meaning(code: int) -> str:
    """Return the meaning of a result code of NNAPI."""
    return _MEANING.get(code, "a code that NeuralNetworks.h does not have") + _reason()


def _reason() -> str:
    """Return the reference library's reason for the last failed call of this thread; empty for other libraries."""
    try:
        last_error = getattr(ctypes.CDLL(NNAPI_LIBRARY), _REFERENCE_REASON)
    except (OSError, AttributeError):
        return ""
    last_error.restype = ctypes.c_char_p
    reason = (last_error() or b"").decode("utf-8", "replace")
    return f": {reason}" if reason else ""
