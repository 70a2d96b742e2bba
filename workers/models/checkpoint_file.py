"""Reads a checkpoint file, of torch or safetensors, without running code; its size bounds the cost of reading it."""

import pickle
import pickletools
import re
import warnings
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import torch

from sweeps.errors import ModelError, in_one_line
from sweeps.extras import lacking
from sweeps.text import short_name

_ZIP = b"PK\x03\x04"
_SAFETENSORS = slice(8, 9), b"{"
"""The byte with which the header of a safetensors file begins, after the header's length: torch's own formats have
another byte there."""
_LONGEST_GLOBAL = 1_000
_MOST_PICKLES = 5
"""The number of pickles at the beginning of a file in torch's old format; the tensors follow."""
_ANEW = "save it with torch.save(model.state_dict(), path)"


def read(path: Path) -> Mapping[Any, Any]:
    """Return the file's values by key: tensors or mappings of tensors, and values of Python's built-in types.

    Raises `ModelError`.
    """
    try:
        if not path.is_file():  # a device or a pipe has no end
            raise ModelError(f"the checkpoint {path} is no file", "correct weights: in the sweep file")
        with path.open("rb") as file:
            head = file.read(16)
            place, sign = _SAFETENSORS
            if head[place] == sign:
                return _safetensors(path)
            if head.startswith(_ZIP):
                _check_zip(path)
            else:
                file.seek(0)
                _check_globals(path, file)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the error that follows says the same
            content = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise ModelError(
            f"the checkpoint {path} cannot be read: {error.strerror}", "correct weights: in the sweep file"
        ) from error
    except ModelError:
        raise
    # On damaged files torch's unpickler raises almost any exception: KeyError, IndexError, EOFError, RuntimeError.
    except Exception as error:
        raise _refused(path, error) from error
    if not isinstance(content, Mapping):
        raise ModelError(f"{path} holds no state_dict, but {type(content).__name__}", _ANEW)
    return content


def _safetensors(path: Path) -> Mapping[str, torch.Tensor]:
    try:
        from safetensors.torch import load_file
    except ModuleNotFoundError as error:
        missing = lacking(error)
        raise ModelError(missing.message, missing.next_step) from error
    try:
        tensors: Mapping[str, torch.Tensor] = load_file(path)
    except OSError:
        raise
    # safetensors raises its own exception, and others for a dtype that this torch does not have.
    except Exception as error:
        raise ModelError(
            f"{path} is damaged, or no file of safetensors ({short_name(in_one_line(error))})",
            "copy it again, or save it with safetensors.torch.save_file(model.state_dict(), path)",
        ) from error
    return tensors


def _check_zip(path: Path) -> None:
    """Refuse a file that would unpack to more than its own size: torch.save compresses nothing."""
    size = path.stat().st_size
    with zipfile.ZipFile(path) as archive:
        unpacked = sum(entry.file_size for entry in archive.infolist())
        if unpacked > size:
            raise ModelError(f"{path} has {size:,} bytes and would unpack to {unpacked:,}", _ANEW)
        for name in archive.namelist():
            if name.endswith("/data.pkl"):
                with archive.open(name) as pickled:
                    _check_globals(path, pickled)


def _check_globals(path: Path, pickled: IO[bytes]) -> None:
    """Refuse class names that are longer than any real one: torch takes hours to put a name of 5 MB into its error
    message."""
    with suppress(ValueError):  # data that is not a pickle, or a damaged one, is left to torch
        for _ in range(_MOST_PICKLES):
            for opcode, argument, _ in pickletools.genops(pickled):
                if opcode.name == "GLOBAL" and len(str(argument)) > _LONGEST_GLOBAL:
                    raise _no_tensors(path, str(argument))


def _refused(path: Path, error: Exception) -> ModelError:
    if "TorchScript" in str(error):
        return ModelError(
            f"{path} is a TorchScript archive, not a state_dict",
            "load it with torch.jit.load, and save it with torch.save(model.state_dict(), path)",
        )
    named = re.search(r"GLOBAL (\S+)|Unsupported class (\S+)", str(error))
    if isinstance(error, pickle.UnpicklingError) and named:
        return _no_tensors(path, (named[1] or named[2]).rstrip(".,"))
    return ModelError(
        f"{path} is damaged, or no checkpoint of torch ({type(error).__name__})", f"copy it again, or {_ANEW}"
    )


def _no_tensors(path: Path, name: str) -> ModelError:
    return ModelError(
        f"{path} holds more than tensors ({short_name(name)}); pickled objects can run code and are refused",
        "where you trust it, save only the weights, with torch.save(model.state_dict(), path)",
    )
