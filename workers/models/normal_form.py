"""Brings a model into the form that every runtime can build, without changing its outputs.

Training wrappers are removed (`DataParallel`, `torch.compile`, ...), `SyncBatchNorm` becomes batch norm, a padding
given as a word becomes numbers, and a model that writes into its input gets a copy of the input. A model that needs
none of this is not changed, so its builds stay the same to the byte.
"""

from collections.abc import Iterator

import torch
from torch import nn
from torch.nn.modules.conv import _ConvNd

from workers.models.eager_model import load_eager
from workers.models.images import InputShape
from workers.models.one_thread import one_thread
from workers.models.package import ModelPackage
from workers.models.repeats import agree, probe_images
from workers.models.tensor_names import WRAPPERS

LEAST_SQNR_DB = 90.0
"""The least signal-to-noise ratio in dB of the normal form against the user's own model: both compute the same sums,
perhaps in another order."""
_NORMS: dict[int, type[nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d]] = {
    2: nn.BatchNorm1d,
    3: nn.BatchNorm1d,
    4: nn.BatchNorm2d,
    5: nn.BatchNorm3d,
}
"""The class of a batch norm by the number of dimensions of its input."""
_PADS: dict[tuple[str, int], type[nn.Module]] = {
    ("zeros", 1): nn.ZeroPad1d,
    ("zeros", 2): nn.ZeroPad2d,
    ("zeros", 3): nn.ZeroPad3d,
    ("reflect", 1): nn.ReflectionPad1d,
    ("reflect", 2): nn.ReflectionPad2d,
    ("reflect", 3): nn.ReflectionPad3d,
    ("replicate", 1): nn.ReplicationPad1d,
    ("replicate", 2): nn.ReplicationPad2d,
    ("replicate", 3): nn.ReplicationPad3d,
    ("circular", 1): nn.CircularPad1d,
    ("circular", 2): nn.CircularPad2d,
    ("circular", 3): nn.CircularPad3d,
}
"""The padding module by the padding mode of a convolution and the number of its spatial dimensions."""


class OwnInput(nn.Module):
    """A model that overwrites its input, with a copy of the input before it: a file that changes its caller's tensor
    must not be shipped, and ExecuTorch takes the changed input for a second output."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        answer: torch.Tensor = self.model(x.clone())
        return answer


def load_normal(package: ModelPackage) -> nn.Module:
    """Load the fp32 eager model in normal form, or in the user's own form if the outputs of the two would differ.
    Raises `ModelError`."""
    model = load_eager(package)
    if not package.overwrites_input and not any(map(_differs, model.modules())):
        return model
    sample = _sample(package.input_shape)
    normal = normalized(model, sample)
    if package.overwrites_input:
        normal = OwnInput(normal).eval()
    return normal if _answer_alike(load_eager(package), normal, sample) else load_eager(package)


def overwrites_input(model: nn.Module, input_shape: InputShape) -> bool:
    """Tell whether the model writes into its input, even if it writes the same values. The model runs once."""
    x = _sample(input_shape)
    before = x._version
    with torch.no_grad(), one_thread():
        model(x)
    return x._version != before


def normalized(model: nn.Module, sample: torch.Tensor) -> nn.Module:
    """Return the normal form, for inputs like `sample` (B, C, H, W). It is made of the modules of `model`, which
    change."""
    ranks = _ranks_of_norms(model, sample)
    forms: dict[nn.Module, nn.Module] = {}

    def form_of(module: nn.Module) -> nn.Module:
        if module not in forms:
            forms[module] = _form(module, ranks)
        return forms[module]

    normal = form_of(model)
    for parent in [*normal.modules()]:
        # `named_children` is not used: it lists a module that has two names only once.
        for name, child in [*parent._modules.items()]:
            if child is not None and (form := form_of(child)) is not child:
                setattr(parent, name, form)
    return normal.eval()


def _sample(shape: InputShape) -> torch.Tensor:
    return torch.from_numpy(probe_images(shape))


def _differs(module: nn.Module) -> bool:
    """Tell whether a module itself is not in normal form, whatever the modules inside it are."""
    worded = isinstance(module, _ConvNd) and isinstance(module.padding, str)
    compiled = module._compiled_call_impl is not None
    return worded or compiled or isinstance(module, nn.SyncBatchNorm) or _wrapped(module) is not None


def _form(module: nn.Module, ranks: dict[nn.Module, int]) -> nn.Module:
    while (inner := _wrapped(module)) is not None:
        module = inner
    vars(module).pop("_compiled_call_impl", None)  # of `module.compile()`
    if isinstance(module, nn.SyncBatchNorm):
        return _batch_norm(module, ranks.get(module, 4))
    if isinstance(module, _ConvNd) and isinstance(module.padding, str):
        return _with_numbers(module)
    return module


def _wrapped(module: nn.Module) -> nn.Module | None:
    """Return the module inside a training wrapper; `None` if `module` is no wrapper, or has hooks."""
    kind = type(module)
    attribute = WRAPPERS.get(f"{kind.__module__}.{kind.__qualname__}")
    if attribute is None or module._forward_hooks or module._forward_pre_hooks:
        return None
    inner = getattr(module, attribute)
    return inner if isinstance(inner, nn.Module) else None


def _batch_norm(norm: nn.SyncBatchNorm, rank: int) -> nn.Module:
    """Return a plain batch norm with the same weights: in inference, it computes what the synchronised one computes."""
    kind = _NORMS.get(rank, nn.BatchNorm2d)
    plain = kind(norm.num_features, norm.eps, norm.momentum, norm.affine, norm.track_running_stats)
    plain.load_state_dict(norm.state_dict())
    return plain.requires_grad_(False).eval()


def _with_numbers(convolution: _ConvNd) -> nn.Module:
    """Return the convolution with its padding as numbers, if both ends of each dimension get the same; else the
    convolution without padding, behind a module that pads. Either `stride` is 1, or the padding is 0: torch allows no
    others."""
    ends = [int(number) for number in convolution._reversed_padding_repeated_twice]
    before, after = ends[0::2], ends[1::2]
    dimensions = len(before)
    if before == after:
        convolution.padding = tuple(reversed(before))
        return convolution
    convolution.padding = (0,) * dimensions
    convolution._reversed_padding_repeated_twice = [0, 0] * dimensions
    pad = _PADS[convolution.padding_mode, dimensions](tuple(ends))
    convolution.padding_mode = "zeros"
    return nn.Sequential(pad, convolution)


def _ranks_of_norms(model: nn.Module, sample: torch.Tensor) -> dict[nn.Module, int]:
    """Return the number of dimensions of the input of each `SyncBatchNorm`, which its class does not tell. The model
    runs once."""
    ranks: dict[nn.Module, int] = {}

    def note(module: nn.Module, args: tuple[torch.Tensor, ...]) -> None:
        ranks[module] = args[0].ndim

    hooks = [norm.register_forward_pre_hook(note) for norm in _sync_norms(model)]
    if hooks:
        with torch.no_grad(), one_thread():
            model(sample.clone())
    for hook in hooks:
        hook.remove()
    return ranks


def _sync_norms(model: nn.Module) -> Iterator[nn.SyncBatchNorm]:
    return (module for module in model.modules() if isinstance(module, nn.SyncBatchNorm))


def _answer_alike(original: nn.Module, normal: nn.Module, sample: torch.Tensor) -> bool:
    with torch.no_grad(), one_thread():
        expected = original(sample.clone()).float().numpy()
        try:
            answer = normal(sample.clone()).float().numpy()
        # The user's code may use an attribute that the normal form lacks, and raise any exception.
        except Exception:  # noqa: BLE001
            return False
    return answer.shape == expected.shape and agree(expected, answer, LEAST_SQNR_DB)
