"""Brings a model into the form that every runtime builds, without changing what it answers.

Wrappers of training are taken off (`DataParallel`, `torch.compile`, ...), `SyncBatchNorm` becomes batch norm, a padding
that is a word becomes numbers, and a model that writes into its input gets a copy of it. A model that needs none of
this stays as it is, to the byte of what is built of it.
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
"""Between the user's own model and its normal form: the same sums, perhaps in another order."""
_NORMS: dict[int, type[nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d]] = {
    2: nn.BatchNorm1d,
    3: nn.BatchNorm1d,
    4: nn.BatchNorm2d,
    5: nn.BatchNorm3d,
}
"""By the number of dimensions of the input."""
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
"""By the mode of a convolution's padding and the number of its spatial dimensions."""


class OwnInput(nn.Module):
    """Gives a model that overwrites its input a copy: a file that changes its caller's tensor is none to ship, and
    ExecuTorch takes the changed input for a second output."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        answer: torch.Tensor = self.model(x.clone())
        return answer


def load_normal(package: ModelPackage) -> nn.Module:
    """As `load_eager`, in normal form; the user's own form if that would answer otherwise. Raises `ModelError`."""
    model = load_eager(package)
    if not package.overwrites_input and not any(map(_differs, model.modules())):
        return model
    sample = _sample(package.input_shape)
    normal = normalized(model, sample)
    if package.overwrites_input:
        normal = OwnInput(normal).eval()
    return normal if _answer_alike(load_eager(package), normal, sample) else load_eager(package)


def overwrites_input(model: nn.Module, input_shape: InputShape) -> bool:
    """Whether the model writes into its input, also the same values. It runs once."""
    x = _sample(input_shape)
    before = x._version
    with torch.no_grad(), one_thread():
        model(x)
    return x._version != before


def normalized(model: nn.Module, sample: torch.Tensor) -> nn.Module:
    """The normal form, for inputs like `sample` (B, C, H, W). It is made of the modules of `model`, which change."""
    ranks = _ranks_of_norms(model, sample)
    forms: dict[nn.Module, nn.Module] = {}

    def form_of(module: nn.Module) -> nn.Module:
        if module not in forms:
            forms[module] = _form(module, ranks)
        return forms[module]

    normal = form_of(model)
    for parent in [*normal.modules()]:
        # Not `named_children`: it names a module that has two names once.
        for name, child in [*parent._modules.items()]:
            if child is not None and (form := form_of(child)) is not child:
                setattr(parent, name, form)
    return normal.eval()


def _sample(shape: InputShape) -> torch.Tensor:
    return torch.from_numpy(probe_images(shape))


def _differs(module: nn.Module) -> bool:
    """Whether a module is not in normal form, whatever those inside it are."""
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
    """What a wrapper holds; `None` if it is no wrapper, or does something of its own."""
    kind = type(module)
    attribute = WRAPPERS.get(f"{kind.__module__}.{kind.__qualname__}")
    if attribute is None or module._forward_hooks or module._forward_pre_hooks:
        return None
    inner = getattr(module, attribute)
    return inner if isinstance(inner, nn.Module) else None


def _batch_norm(norm: nn.SyncBatchNorm, rank: int) -> nn.Module:
    """In inference the same as over many devices, which only training has."""
    kind = _NORMS.get(rank, nn.BatchNorm2d)
    plain = kind(norm.num_features, norm.eps, norm.momentum, norm.affine, norm.track_running_stats)
    plain.load_state_dict(norm.state_dict())
    return plain.requires_grad_(False).eval()


def _with_numbers(convolution: _ConvNd) -> nn.Module:
    """Where both ends of a dimension get the same padding, the convolution with numbers; else behind a module that
    pads. Of either, `stride` is 1, or the padding 0: torch has no others."""
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
    """The dimensions of what each `SyncBatchNorm` gets, which its class does not tell."""
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
        # The user's code may have asked a module for what its normal form lacks, and raise any exception.
        except Exception:  # noqa: BLE001
            return False
    return answer.shape == expected.shape and agree(expected, answer, LEAST_SQNR_DB)
