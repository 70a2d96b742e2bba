"""Backends other than the CPU: the library that a host evaluates them with, and what they say when they fail."""

import ctypes
import re
from pathlib import Path
from typing import Any

from workers.runtimes.torchscript.runner.events import GiveUp
from workers.runtimes.torchscript.runner.load import last_words

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
# Of our reference library, and of no real one: why its last call failed.
_REFERENCE_REASON = "edgesweep_reference_last_error"


def prepare(backend: str, reference: str | None) -> None:
    """Before the model is loaded: have what `backend` runs on, which `reference` stands in for on a host.

    Raises `GiveUp`: `backend_missing` where there is nothing, `bad_reference` where the library cannot be used.
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
        # Torch opens it by name, and finds what is loaded already only under that name.
        ctypes.CDLL(NNAPI_LIBRARY)
    except (OSError, RuntimeError) as error:
        raise GiveUp("bad_reference", f"{reference} can not stand in for {backend}: {last_words(error)}") from error


def as_on_device(backend: str, model: Any) -> Any:
    """The loaded `model` on a host's reference as it answers on the device: Metal computes in fp16."""
    if backend != "metal":
        return model
    from workers.runtimes.torchscript.metal import round_to_half

    return round_to_half(model)


def failure(backend: str, error: Exception) -> tuple[str, str]:
    """Kind and message of what a `forward` raised."""
    told, text = str(error), last_words(error)
    if "can't allocate memory" in told:
        return "out_of_memory", text
    if backend != "nnapi":
        return "run_failed", text
    # Compilation happens in the first forward. The lite interpreter shows no source lines, so what failed decides.
    compiling = re.search(r"nnapi_model_loader|nnapi_\.|\b(?:Model|Compilation)_|comp\w*\)?\.init2?\(", told)
    if code := re.search(r"(?:NNAPI returned error:|failed with error) (\d+)", text):
        text += f" ({meaning(int(code[1]))})"
    return ("nnapi_compile_failed" if compiling else "nnapi_run_failed"), text


def meaning(code: int) -> str:
    """NNAPI's own word for a result code."""
    return _MEANING.get(code, "a code that NeuralNetworks.h does not have") + _reason()


def _reason() -> str:
    """What the reference library says of the last call that failed in this thread; nothing elsewhere."""
    try:
        last_error = getattr(ctypes.CDLL(NNAPI_LIBRARY), _REFERENCE_REASON)
    except (OSError, AttributeError):
        return ""
    last_error.restype = ctypes.c_char_p
    reason = (last_error() or b"").decode("utf-8", "replace")
    return f": {reason}" if reason else ""
