"""The runner's inputs for the model."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from workers.runtimes.torchscript.runner.events import GiveUp

if TYPE_CHECKING:
    import torch


def as_given(
    x: "torch.Tensor", memory_format: str, scale: float | None = None, zero_point: int | None = None
) -> "torch.Tensor":
    """Return a float tensor in the model's layout, quantized to quint8 if a scale and a zero point are given."""
    import torch

    x = x.contiguous(memory_format=getattr(torch, memory_format))
    if scale is not None and zero_point is not None:
        x = torch.quantize_per_tensor(x, scale, zero_point, torch.quint8)
    return x


def bundled_input(model: Any, index: int) -> tuple["torch.Tensor", ...]:
    """Return the input with `index` (from 0) of those bundled in the file, like `--use_bundled_input` of stock tools.

    Raises `GiveUp("no_bundled_input")`.
    """
    import torch

    try:
        if isinstance(model, torch.jit.ScriptModule):
            inputs = model.get_all_bundled_inputs()
        else:
            inputs = model.run_method("get_all_bundled_inputs")
    except (AttributeError, RuntimeError) as error:
        raise GiveUp("no_bundled_input", "the model carries no inputs; its eval sibling does") from error
    if not 0 <= index < len(inputs):
        raise GiveUp("no_bundled_input", f"the model carries {len(inputs)} inputs, counted from 0, and none is {index}")
    if not all(isinstance(x, torch.Tensor) for x in inputs[index]):
        raise GiveUp("no_bundled_input", f"the bundled input {index} holds something else than tensors")
    return tuple(inputs[index])


def images_of(path: str, shape: tuple[int, ...]) -> "torch.Tensor":
    """Return images (N, *shape), float32, memory-mapped from a file of little-endian floats. Raises
    `GiveUp("bad_eval_inputs")`."""
    import torch

    count = 1
    for size in shape:
        count *= size
    try:
        file_bytes = Path(path).stat().st_size
        if file_bytes == 0 or file_bytes % (count * 4):
            raise GiveUp("bad_eval_inputs", f"{path} does not hold whole images of {count * 4} bytes: {file_bytes}")
        return torch.from_file(path, shared=False, size=file_bytes // 4, dtype=torch.float32).reshape(-1, *shape)
    except (OSError, RuntimeError) as error:
        raise GiveUp("bad_eval_inputs", f"{path} can not be read: {error}") from error
