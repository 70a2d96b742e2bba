"""Weights of a model: from a checkpoint, from torchvision, or random with estimated batch-norm statistics."""

import pickle
import re
import warnings
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from sweeps.errors import ModelError
from workers.models.images import InputShape, smooth_images
from workers.models.one_thread import one_thread
from workers.models.package import varies

State = Mapping[str, torch.Tensor]

_WRAPPERS = ("state_dict", "model_state_dict", "model")
_AUXILIARY = ("aux1.", "aux2.", "AuxLogits.")
"""Heads of torchvision's GoogLeNet and Inception that are used only in training."""
_SETTLING_IMAGES = 16
_PROBE_IMAGES = 4
# Streams of `smooth_images` that a sweep's data never uses.
_SETTLING_STREAM, _PROBE_STREAM = 100, 101


def read_checkpoint(path: Path) -> State:
    """The tensors of a checkpoint by name. Never runs code from it. Raises `ModelError`."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the error that follows says the same
            content = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise ModelError(
            f"the checkpoint {path} cannot be read: {error.strerror}", "correct weights: in the sweep file"
        ) from error
    # On damaged files torch's unpickler raises almost any exception: KeyError, IndexError, EOFError, RuntimeError.
    except Exception as error:
        raise _refused(path, error) from error
    if isinstance(content, Mapping):
        content = next((content[key] for key in _WRAPPERS if isinstance(content.get(key), Mapping)), content)
    if isinstance(content, Mapping):
        _check_tensors(content, path)
    if not isinstance(content, Mapping) or not content or not _only_tensors(content):
        raise ModelError(f"{path} holds no state_dict", "save it with torch.save(model.state_dict(), path)")
    if all(name.startswith("module.") for name in content):
        content = {name.removeprefix("module."): tensor for name, tensor in content.items()}
    state: State = content
    return state


def _only_tensors(content: Mapping[Any, Any]) -> bool:
    return all(isinstance(name, str) and isinstance(tensor, torch.Tensor) for name, tensor in content.items())


def _check_tensors(content: Mapping[Any, Any], path: Path) -> None:
    """Refuse tensors that `copy_`, which loads a state_dict, supports only partly or with an unclear error."""
    for name, tensor in content.items():
        if isinstance(tensor, torch.Tensor) and (kind := _kind(tensor)) is not None:
            advice = {
                "quantized": "give the fp32 weights; EdgeSweep makes int8 of them itself",
                "a meta tensor (without data)": "save it with the weights loaded: meta tensors hold none",
            }.get(kind, "save it with dense tensors of real numbers")
            raise ModelError(f"the tensor {name} in {path} is {kind}, not dense float or int", advice)


def _kind(tensor: torch.Tensor) -> str | None:
    """Why it is not a dense tensor of real numbers; `None` if it is one."""
    if tensor.is_quantized:
        return "quantized"
    if tensor.is_meta:
        return "a meta tensor (without data)"
    if tensor.is_nested:
        return "nested"
    if tensor.layout != torch.strided:
        return f"sparse ({tensor.layout})" if "sparse" in str(tensor.layout) else f"of the layout {tensor.layout}"
    return f"complex ({tensor.dtype})" if tensor.is_complex() else None


def _refused(path: Path, error: Exception) -> ModelError:
    if "TorchScript" in str(error):
        return ModelError(
            f"{path} is a TorchScript archive, not a state_dict",
            "load it with torch.jit.load, and save it with torch.save(model.state_dict(), path)",
        )
    found = re.search(r"GLOBAL (\S+)|Unsupported class (\S+)", str(error))
    if isinstance(error, pickle.UnpicklingError) and found:
        name = (found[1] or found[2]).rstrip(".,")
        return ModelError(
            f"{path} holds more than tensors ({name}); pickled objects can run code and are refused",
            "save only the weights, with torch.save(model.state_dict(), path)",
        )
    return ModelError(
        f"{path} is damaged, or no checkpoint of torch ({type(error).__name__})",
        "copy it again, or save it with torch.save(model.state_dict(), path)",
    )


def download_pretrained(name: str) -> State:
    """torchvision's default weights, from its cache or downloaded. Raises `ModelError` if there is no network."""
    import torchvision  # takes seconds, and a model of one's own needs none of it

    try:
        state: State = torchvision.models.get_model_weights(name).DEFAULT.get_state_dict(
            progress=False, check_hash=True
        )
    except OSError as error:
        raise ModelError(
            f"no network: torchvision's weights of {name} cannot be downloaded ({error})",
            "give weights: path, or weights: random",
        ) from error
    except RuntimeError as error:
        raise ModelError(
            f"torchvision's weights of {name} came damaged: {error}", "run the command again, or give weights: path"
        ) from error
    return state


def fit(model: torch.nn.Module, state: State, origin: str) -> None:
    """Load `state` into `model`. Raises `ModelError` with a list of the differences."""
    expected = model.state_dict()
    accepted = OrderedDict(item for item in state.items() if item[0] in expected or not item[0].startswith(_AUXILIARY))
    problems = {
        "missing": [name for name in expected if name not in accepted],
        "unexpected": [name for name in accepted if name not in expected],
        "of another shape": [
            f"{name} is {list(tensor.shape)} instead of {list(expected[name].shape)}"
            for name, tensor in accepted.items()
            if name in expected and tensor.shape != expected[name].shape
        ],
    }
    if any(problems.values()):
        raise ModelError(
            f"{origin} does not fit the model: " + "; ".join(_listed(*item) for item in problems.items() if item[1]),
            "give the arguments that the model was trained with (arguments: in the sweep file), or other weights",
        )
    # Modules such as MNASNet read here which version wrote their tensors.
    accepted._metadata = getattr(state, "_metadata", expected._metadata)  # type: ignore[attr-defined]  # torch's own
    try:
        model.load_state_dict(accepted)
    # This runs the model's own hooks, which may raise any exception.
    except Exception as error:
        raise ModelError(
            f"{origin} cannot be loaded into the model: {type(error).__name__}: {error}",
            "save the weights anew, with torch.save(model.state_dict(), path)",
        ) from error


def _listed(what: str, names: list[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{what}: {', '.join(names[:3])}{more}"


def settle(model: torch.nn.Module, input_shape: InputShape, seed: int) -> None:
    """Change a model with random weights, in place, so that its output depends on its input.

    Freshly initialised in eval mode, MobileNetV2's logits are 1e-9, ViT's exactly 0, and GoogLeNet's equal for every
    image. So heads that start at zero get random weights, and batch-norm statistics are estimated on smooth images.

    Batch norm's shift is set to 1 standard deviation. At 0 every ReLU would cut off half of the signal, rounding errors
    would grow with depth, and a correct int8 MobileNetV2 would have 7.7 dB (with the shift 17.7).
    """
    random = torch.Generator().manual_seed(seed)
    norms: list[_BatchNorm] = []
    for module in model.modules():
        if isinstance(module, torch.nn.Linear | torch.nn.Conv2d) and not module.weight.any():
            module.weight.data.normal_(0.0, module.weight[0].numel() ** -0.5, generator=random)
        elif isinstance(module, _BatchNorm) and module.track_running_stats:
            norms.append(module)
            if module.bias is not None:
                module.bias.data.fill_(1.0)
    model.eval()
    if norms:
        momenta = [norm.momentum for norm in norms]
        for norm in norms:
            norm.reset_running_stats()
            norm.momentum = None  # cumulative average
            norm.train()
        images = torch.from_numpy(smooth_images(_SETTLING_IMAGES, input_shape, seed, _SETTLING_STREAM))
        with torch.no_grad(), one_thread():
            _answer(model, images)
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum
        model.eval()


def check(model: torch.nn.Module, input_shape: InputShape, name: str, *, random: bool) -> int:
    """Number of classes. Raises `ModelError` if the output for (B, C, H, W) is not a finite float (B, classes).

    With random weights, the output must also differ between images.
    """
    batch = input_shape[0]
    images = torch.from_numpy(smooth_images(_PROBE_IMAGES * batch, input_shape, 0, _PROBE_STREAM))
    with torch.no_grad(), one_thread():
        answers = [_answer(model, part) for part in torch.split(images, batch)]
    for answer in answers:
        if (problem := _wrong_with(answer, batch)) is not None:
            raise ModelError(f"{name} returns {problem}", "EdgeSweep takes models that return (batch, classes)")
    logits = torch.cat(answers).float()
    if not logits.isfinite().all():
        raise ModelError(f"{name} returns NaN or infinity", "check its weights")
    if random and not varies(logits.numpy()):
        raise ModelError(
            f"{name} with random weights has the same output for every image, so nothing could be compared",
            "give another seed, or trained weights",
        )
    return int(logits.shape[1])


def _answer(model: torch.nn.Module, images: torch.Tensor) -> Any:
    try:
        return model(images)
    except Exception as error:
        raise ModelError(
            f"the model cannot take an input of {list(images.shape)}: {type(error).__name__}: {error}",
            "correct input_shape: in the sweep file, or the model",
        ) from error


def _wrong_with(answer: object, batch: int) -> str | None:
    if not isinstance(answer, torch.Tensor):
        return f"{type(answer).__name__} instead of a tensor"
    if not answer.is_floating_point():
        return f"a tensor of {answer.dtype} instead of float"
    if answer.ndim != 2 or answer.shape[0] != batch or answer.shape[1] < 2:
        return f"shape {list(answer.shape)} instead of ({batch}, classes)"
    return None
