"""Models: what they are, and how they are loaded on any machine."""

import atexit
import importlib
import io
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
import torchvision

from sweeps.errors import ModelError
from workers.runtimes.interface import ModelPackage

_IMPORT_LOCK = threading.Lock()


def load_eager(package: ModelPackage) -> torch.nn.Module:
    """The fp32 model with its weights, in eval mode, without gradients, on any machine.

    Raises `ModelError` where the model can not be built or the weights do not fit it.
    """
    model = construct(package.source, package.arguments, package.files)
    state = torch.load(io.BytesIO(package.state), map_location="cpu", weights_only=True)
    model.load_state_dict(state)
    return model.requires_grad_(False).eval()


def construct(source: str, arguments: Mapping[str, Any], files: Mapping[str, bytes]) -> torch.nn.Module:
    """Call torchvision's or the user's own constructor. Raises `ModelError`."""
    module, _, function = source.partition(":")
    builder: Callable[..., Any]
    if not function:
        arguments = {"weights": None, **arguments}
        if source in {"googlenet", "inception_v3"}:
            arguments = {"aux_logits": False, "init_weights": False, **arguments}
        builder = lambda **given: torchvision.models.get_model(source, **given)  # noqa: E731
    else:
        builder = _import(module, files, function)
    model = builder(**arguments)
    if not isinstance(model, torch.nn.Module):
        raise ModelError(f"{source} returned {type(model).__name__}, not a torch.nn.Module")
    return model


def _import(module: str, files: Mapping[str, bytes], function: str) -> Callable[..., Any]:
    # torch.jit.script reads the source of what it compiles: the folder stays as long as the process.
    folder = Path(tempfile.mkdtemp(prefix="edgesweep-model-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    with _IMPORT_LOCK:
        own = {Path(name).parts[0].removesuffix(".py") for name in files}
        hidden = {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] in own}
        sys.path.insert(0, str(folder))
        importlib.invalidate_caches()
        try:
            return getattr(importlib.import_module(module), function)  # type: ignore[no-any-return]
        finally:
            sys.path.remove(str(folder))
            for name in [name for name in sys.modules if name.partition(".")[0] in own]:
                del sys.modules[name]
            sys.modules.update(hidden)
