"""Quantizes an exported model with PT2E and the XNNPACKQuantizer.

Observers are inserted into the exported graph and run on the calibration images; then they become pairs of quantize and
dequantize, which XNNPACK supports.
"""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch.export import ExportedProgram

from sweeps.errors import BuildError
from sweeps.variant import Variant
from workers.models.one_thread import one_thread
from workers.models.package import Images
from workers.runtimes.executorch.export import example, exported, in_layout, version
from workers.runtimes.executorch.tracing import quick, quiet
from workers.runtimes.library_errors import first_words


class Observed:
    """A model with observers, for inputs of one layout."""

    def __init__(self, program: ExportedProgram, shape: tuple[int, ...], variant: Variant, layout: str) -> None:
        """Insert the observers. `program`: exported in this layout, which may differ from the variant's. Raises
        `BuildError("not_quantizable")`."""
        self._shape = shape
        self._layout = layout
        with _quantizing():
            self._prepared = _prepared(program, variant)

    def calibrate(self, images: Images) -> bytes:
        """Run the model on all images, and return the ranges that the observers of activations saw, for `quantized`.
        The ranges do not depend on the weights' granularity. Raises `BuildError("not_quantizable")`."""
        batch = self._shape[0]
        with _quantizing():
            for start in range(0, len(images), batch):
                # The last batch is filled with images from the start.
                chosen = images[[index % len(images) for index in range(start, start + batch)]]
                self._prepared(in_layout(torch.from_numpy(np.ascontiguousarray(chosen)), self._layout))
            file = io.BytesIO()
            torch.save(_of_activations(self._prepared), file)
            return file.getvalue()

    def quantized(self, calibration: bytes | None) -> torch.fx.GraphModule:
        """Return the quantized graph; this can be done only once, and ends the use of this object. Without a
        `calibration`, the quantization is dynamic: of linear layers only. Raises `BuildError`: `not_quantizable`,
        `nothing_to_quantize`."""
        from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e

        prepared = self._prepared
        with _quantizing():
            # Weights are observed as the model runs.
            prepared(example(self._shape, self._layout))
            if calibration is not None:
                prepared.load_state_dict(torch.load(io.BytesIO(calibration), weights_only=True), strict=False)
            converted: torch.fx.GraphModule = convert_pt2e(prepared)
            if not any("quantize" in str(node.target) for node in converted.graph.nodes):
                raise BuildError("nothing_to_quantize", f"the model has no layer that {_quantizer()} takes in this way")
            return converted


def exported_int8(model: torch.fx.GraphModule, shape: tuple[int, ...], layout: str) -> ExportedProgram:
    """Export a quantized `model`, which is not changed. Raises `BuildError`: `not_exportable` or `bad_output`."""
    with _quantizing():
        return exported(model, shape, layout)


def _prepared(program: ExportedProgram, variant: Variant) -> Any:
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
        XNNPACKQuantizer,
        get_symmetric_quantization_config,
    )
    from torchao.quantization.pt2e.quantize_pt2e import prepare_pt2e

    dynamic = variant.quantization == "dynamic"
    config = get_symmetric_quantization_config(is_per_channel=variant.granularity == "per_channel", is_dynamic=dynamic)
    quantizer = XNNPACKQuantizer()
    if dynamic:
        quantizer.set_operator_type(torch.ops.aten.linear.default, config)
    else:
        quantizer.set_global(config)
    return prepare_pt2e(program.module(), quantizer)


def _of_activations(prepared: Any) -> dict[str, torch.Tensor]:
    from torchao.quantization.pt2e import HistogramObserver

    observers = {name for name, part in prepared.named_modules() if isinstance(part, HistogramObserver)}
    return {name: value for name, value in prepared.state_dict().items() if name.rpartition(".")[0] in observers}


def _quantizer() -> str:
    return f"XNNPACK's quantizer of {version()}"


@contextmanager
def _quantizing() -> Iterator[None]:
    with quiet(), quick(), one_thread(), torch.no_grad():
        try:
            yield
        except BuildError:
            raise
        except Exception as error:  # torchao raises any exception
            raise BuildError(
                "not_quantizable", f"{_quantizer()} cannot quantize the model: {first_words(error)}"
            ) from error
