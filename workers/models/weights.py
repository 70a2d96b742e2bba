"""Weights of a model: loaded, from torchvision, or random with estimated batch-norm statistics."""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from sweeps.errors import ModelError, in_one_line
from workers.models import tensor_names
from workers.models.images import InputShape, smooth_images
from workers.models.one_thread import one_thread
from workers.models.package import varies
from workers.models.tensor_names import Match, Shapes

State = Mapping[str, torch.Tensor]

OTHER_ARGUMENTS = "give the arguments that the model was trained with (arguments: in the sweep file), or other weights"
"""The next step in errors about weights that do not fit a model."""
_SETTLING_IMAGES = 16
_PROBE_IMAGES = 4
# Streams of `smooth_images` that a sweep's data never uses.
_SETTLING_STREAM, _PROBE_STREAM = 100, 101


def download_pretrained(name: str) -> State:
    """Return torchvision's default weights, from its cache or downloaded. Raises `ModelError` if there is no
    network."""
    import torchvision  # the import takes seconds, and the user's own models do not need it

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
    network, given = shapes(model.state_dict()), shapes(state)
    match = tensor_names.exact_match(network, given)
    if match is None:
        raise ModelError(
            f"{origin} does not fit the model: {tensor_names.differences(network, given)}", OTHER_ARGUMENTS
        )
    put(model, state, match, origin)


def put(model: torch.nn.Module, state: State, match: Match, origin: str) -> None:
    """Load the matching tensors, in the model's own dtypes. Raises `ModelError` if code of the model fails in
    loading."""
    own: Any = model.state_dict()
    # Tensors that a checkpoint lacks, such as the counter of an AveragedModel, keep the model's values.
    whole = OrderedDict({**own, **{ours: state[theirs] for ours, theirs in match.shared}})
    # Modules such as MNASNet read from the metadata which version wrote their tensors. It names modules as the file
    # does.
    written = getattr(state, "_metadata", own._metadata) if match.is_as_is else own._metadata
    whole._metadata = written  # type: ignore[attr-defined]  # torch's own
    try:
        model.load_state_dict(whole)
    # This runs the model's own hooks, which may raise any exception.
    except Exception as error:
        raise ModelError(
            f"{origin} cannot be loaded into the model: {in_one_line(error)}",
            "save the weights anew, with torch.save(model.state_dict(), path)",
        ) from error


def tensors(state: Mapping[Any, Any]) -> State:
    """Return the tensors of a state_dict, in which a module may put other values, too."""
    return {name: value for name, value in state.items() if isinstance(name, str) and isinstance(value, torch.Tensor)}


def shapes(state: Mapping[Any, Any]) -> Shapes:
    """Return the shapes of a state_dict's tensors. Nested tensors are left out: they have none."""
    return {name: tuple(value.shape) for name, value in tensors(state).items() if not value.is_nested}


def settle(model: torch.nn.Module, input_shape: InputShape, seed: int) -> None:
    """Change a model with random weights, in place, so that its output depends on its input.

    Freshly initialised in eval mode, MobileNetV2's logits are 1e-9, ViT's exactly 0, and GoogLeNet's equal for every
    image. So heads that start at zero get random weights, and batch-norm statistics are estimated on smooth images.

    Batch norm's shift is set to 1 standard deviation. At 0 every ReLU would cut off half of the signal, rounding errors
    would grow with depth, and a correct int8 MobileNetV2 would have a signal-to-noise ratio of 7.7 dB against fp32
    (17.7 dB with the shift).
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
    """Return the number of classes. Raises `ModelError` if the output for (B, C, H, W) is not a finite float (B,
    classes).

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
            f"the model cannot take an input of {list(images.shape)}: {in_one_line(error)}",
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
