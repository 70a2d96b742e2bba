"""Saves a captured model to the file that is shipped, and to a sibling with bundled inputs for stock tools."""

import warnings
from pathlib import Path
from typing import Literal

import torch
import torch.utils.bundled_inputs as bundled
from torch.jit import mobile

from sweeps.errors import BuildError
from sweeps.manifest import TensorSpec
from workers.runtimes.finishing import Saved
from workers.runtimes.library_errors import first_words
from workers.runtimes.torchscript import archive
from workers.runtimes.torchscript.runner.inputs import as_given

Format = Literal["pt", "ptl"]


def save(module: torch.jit.ScriptModule, folder: Path, format: Format) -> Saved:
    """Write `model.pt` (full interpreter) or `model.ptl` (lite interpreter) into `folder`.

    All artifacts have this name, because torch writes it into the archive, so it changes the hash. Raises
    `BuildError("not_savable")`.
    """
    file = folder / f"model.{format}"
    try:
        _write(module, file)
        if format == "ptl":
            operators = mobile._get_model_ops_and_info(str(file)).keys()  # type: ignore[no-untyped-call]  # torch has no types for it
        else:
            operators = torch.jit.export_opnames(module)  # type: ignore[no-untyped-call]  # torch has no types for it
        properties = archive.read(file)
    except Exception as error:  # torch raises any exception if it cannot save
        raise BuildError("not_savable", f"torch cannot save the model as {format}: {first_words(error)}") from error
    return Saved(
        file=file,
        operators=tuple(sorted(operators)),
        file_version=properties.file_version,
        bytecode_version=properties.bytecode_version,
    )


def bundle(model: Path, images: torch.Tensor, folder: Path, spec: TensorSpec, memory_format: str) -> Path:
    """Write the sibling `eval.pt` or `eval.ptl` of the saved `model`. It contains inputs, and is not timed or shipped.

    `images` are float (N, C, H, W); each full batch of `spec.shape` becomes one input, with layout and quantization of
    the manifest. Stock tools choose one with `--use_bundled_input=i`. Before the call, set the engine of a quantized
    model, and register a backend's operators. Raises `BuildError("not_bundled")`.
    """
    file = folder / f"eval{model.suffix}"
    batch = spec.shape[0]
    try:
        # The module is loaded from the file, because bundling changes it.
        module: torch.jit.ScriptModule = torch.jit.load(str(model), map_location="cpu")  # type: ignore[no-untyped-call]  # torch has no types for it
        inputs = []
        for start in range(0, len(images) - batch + 1, batch):
            # The images are cloned, because saving a slice would save all images.
            x = as_given(images[start : start + batch].clone(), memory_format, spec.scale, spec.zero_point)
            inputs.append((bundled.bundle_large_tensor(x),))  # type: ignore[no-untyped-call]  # as above
        if not inputs:
            raise ValueError(f"{len(images)} images are fewer than a batch of {batch}")
        bundled.augment_model_with_bundled_inputs(module, inputs)
        _write(module, file)
    except Exception as error:  # torch raises any exception if it cannot save
        raise BuildError("not_bundled", f"inputs cannot be bundled with {model.name}: {first_words(error)}") from error
    return file


def _write(module: torch.jit.ScriptModule, file: Path) -> None:
    if file.suffix == ".ptl":
        with warnings.catch_warnings():
            # Phones run the lite interpreter, so this deprecation is known.
            warnings.filterwarnings("ignore", message="Lite Interpreter is deprecated", category=DeprecationWarning)
            module._save_for_lite_interpreter(str(file))
    else:
        torch.jit.save(module, str(file))
