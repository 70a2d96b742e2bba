"""From an eager model to TorchScript."""

import copy
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode
from torch.jit import _builtins
from torch.jit._trace import TracerWarning

from sweeps.errors import BuildError
from workers.runtimes.torchscript.failures import first_words


class ChannelsLast(torch.nn.Module):
    """The model behind a conversion of its input, so that the caller always hands NCHW-shaped data in any layout.

    The result has to be assigned: the Korean edition of the recipe drops it, which converts nothing.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous(memory_format=torch.channels_last)
        answer: torch.Tensor = self.model(x)
        return answer


def script(model: torch.nn.Module) -> torch.jit.ScriptModule:
    """Compile the model's own code. Raises `BuildError("unsupported_operator" | "not_scriptable")`."""
    _forget_dead_operators()
    try:
        scripted = torch.jit.script(model)
    except Exception as error:
        kind = "unsupported_operator" if "Unknown builtin op" in str(error) else "not_scriptable"
        raise BuildError(
            kind, f"torch.jit.script refuses the model: {first_words(error)}", "try capture: [trace]"
        ) from error
    assert isinstance(scripted, torch.jit.ScriptModule)
    return scripted


def _forget_dead_operators() -> None:
    """Take operators that died out of torch's table of builtins.

    The table goes by `id()` and never forgets: importing `torch.ao.quantization` leaves four dead operators in it, and
    an attribute that later gets the address of one (a list, say) is compiled as that operator, now and then.
    """
    table: dict[int, str] = _builtins._get_builtin_table()  # type: ignore[no-untyped-call]  # torch's own, untyped
    for address, name in list(table.items()):
        space, _, operator = name.partition("::")
        if space in ("aten", "prim"):
            continue  # torch's modules hold these for good
        packet = vars(getattr(torch.ops, space)).get(operator)
        if id(getattr(packet, "_op", None)) != address:
            del table[address]


def trace(model: torch.nn.Module, images: torch.Tensor) -> torch.jit.ScriptModule:
    """Record one run of the model on `images` (B, C, H, W), and compare the record with the model on other inputs.

    torch's own check compares graphs, and refuses models that answer right (ViT). This one compares answers, on
    inputs that a branch in the model is likely to tell apart. Raises `BuildError`: `not_traceable`, `trace_differs`,
    or `data_dependent` where the model decides by its data, whether one of these inputs shows it or not.
    """
    return _trace(model, _probes(images))


def mixed(model: torch.nn.Module, images: torch.Tensor) -> torch.jit.ScriptModule:
    """Traced parts in a scripted whole: the largest parts that trace truthfully are traced, the rest is scripted.

    A part is judged on what reaches it when the model sees the inputs of `trace`. The model itself is not changed.
    Raises `BuildError("not_capturable")` with the name of the part that can be neither traced nor scripted.
    """
    if isinstance(model, ChannelsLast):  # a thin wrapper already; its conversion stays outside of the trace
        shell, images = copy.copy(model), images.contiguous(memory_format=torch.channels_last)
        shell._modules = {"model": _part("", model.model, _probes(images))}
        return script(shell)
    return script(torch.nn.Sequential(_part("", model, _probes(images))).eval())


# What a model's own code raises on an input that is not meant for it.
_REFUSALS = (RuntimeError, ValueError, AssertionError, IndexError, ArithmeticError)

_Calls = Mapping[str, tuple[object, ...]]
"""Positional arguments of runs of a module, by what they are called in messages."""


def _probes(images: torch.Tensor) -> _Calls:
    """Inputs that a branch is likely to tell apart, quantized as `images` are."""
    floats = images.dequantize()
    changed = {
        "the input negated": -floats,
        "the input mirrored": floats.flip(-1),
        "the input times 8": floats * 8,
        "zeros": torch.zeros_like(floats),
    }
    return {"the traced input": (images,)} | {what: (_quantized_as(images, x),) for what, x in changed.items()}


def _quantized_as(images: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    if not images.is_quantized:
        return x
    return torch.quantize_per_tensor(x, images.q_scale(), images.q_zero_point(), images.dtype)


def _part(name: str, module: torch.nn.Module, calls: _Calls) -> torch.jit.ScriptModule:
    """`module`, which is called `name`, traced as a whole if it can be, else scripted around its traced parts."""
    if isinstance(module, torch.jit.ScriptModule):
        return module
    try:
        return _trace(module, calls)
    except BuildError as error:
        untraced = error
    parts = {path: _part(f"{name}.{path}".lstrip("."), part, seen) for path, part, seen in _inside(module, calls)}
    shell = copy.deepcopy(module)
    for path, part in parts.items():
        shell.set_submodule(path, part)
    try:
        try:
            return script(shell)
        except BuildError:
            # A module may use more of a part than its forward (its weight, its sizes), which a trace does not have.
            return script(module)
    except BuildError as error:
        raise BuildError(
            "not_capturable",
            f"{name or 'the model'} ({type(module).__name__}) can be neither traced nor scripted: "
            f"{untraced.message}; {error.message}",
            "rewrite this module's forward",
        ) from error


def _inside(module: torch.nn.Module, calls: _Calls) -> list[tuple[str, torch.nn.Module, _Calls]]:
    """The outermost modules in `module` that run when it runs: path, module, and what they were called with.

    Lists of modules do not run themselves, so their entries are outermost. A module that was called with keywords, or
    that is not called at all, is left out: it is scripted as it is.
    """
    seen: dict[str, dict[str, tuple[object, ...]]] = {}
    by_name: set[str] = set()
    running: list[str] = []

    def before(path: str) -> Callable[..., None]:
        def hook(part: torch.nn.Module, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
            if not running:
                # Copied: the part may write into what it is given.
                called = seen.setdefault(path, {})
                called[f"its input {len(called) + 1}"] = _copies(args)
                if kwargs:
                    by_name.add(path)
            running.append(path)

        return hook

    def after(*_: object) -> None:
        running.pop()

    parts = {path: part for path, part in module.named_modules() if path}
    hooks = []
    for path, part in parts.items():
        if isinstance(part, torch.jit.ScriptModule):
            continue
        hooks.append(part.register_forward_pre_hook(before(path), with_kwargs=True))
        hooks.append(part.register_forward_hook(after, always_call=True))
    try:
        for args in calls.values():
            with suppress(*_REFUSALS):
                module(*_copies(args))
    finally:
        for hook in hooks:
            hook.remove()
    return [(path, parts[path], called) for path, called in seen.items() if path not in by_name]


def _copies(args: tuple[object, ...]) -> tuple[object, ...]:
    return tuple(arg.clone() if isinstance(arg, torch.Tensor) else arg for arg in args)


def _trace(model: torch.nn.Module, calls: _Calls) -> torch.jit.ScriptModule:
    """A trace of the first call, checked on all of them."""
    example = next(iter(calls.values()))
    if not all(isinstance(arg, torch.Tensor) for args in calls.values() for arg in args):
        raise BuildError("not_traceable", "it takes something else than tensors", "try capture: [script]")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", TracerWarning)
        try:
            traced = torch.jit.trace(model, _copies(example), check_trace=False)  # type: ignore[no-untyped-call]  # torch has no types for it
        except Exception as error:
            raise BuildError(
                "not_traceable", f"torch.jit.trace fails: {first_words(error)}", "try capture: [script]"
            ) from error
    reasons = [first_words(str(w.message)).partition(". ")[0] for w in caught if issubclass(w.category, TracerWarning)]
    told = f"; torch said: {reasons[0]}" if reasons else ""
    for what, args in calls.items():
        try:
            expected = model(*_copies(args))
        except _REFUSALS:
            continue  # not an input for this model
        if not _same(expected, _answer(traced, args)):
            raise BuildError("trace_differs", f"the trace answers differently on {what}{told}", "try capture: [script]")
    if reasons and _decides_by_data(model, example):
        raise BuildError(
            "data_dependent", f"the model decides by its data, and a trace keeps one way{told}", "try capture: [script]"
        )
    assert isinstance(traced, torch.jit.ScriptModule)
    return traced


def _answer(traced: torch.jit.ScriptModule, args: tuple[object, ...]) -> object:
    try:
        return traced(*_copies(args))
    except (RuntimeError, torch.jit.Error) as error:
        return error  # which is no answer of the model


def _decides_by_data(model: torch.nn.Module, example: tuple[object, ...]) -> bool:
    """Whether the model turns its data into a Python value, found by running it on tensors that have none.

    Sizes are no data. Where torch cannot run it so (quantized operators), the answers alone have to show it.
    """
    try:
        with FakeTensorMode(allow_non_fake_inputs=True) as mode:
            model(*(mode.from_tensor(arg) if isinstance(arg, torch.Tensor) else arg for arg in example))
    except DataDependentOutputException:
        return True
    except Exception:  # noqa: BLE001  # as the docstring says
        return False
    return False


def _same(expected: object, answer: object) -> bool:
    match expected, answer:
        case torch.Tensor(), torch.Tensor():
            if expected.shape != answer.shape or expected.dtype != answer.dtype:
                return False
            expected, answer = expected.dequantize().float(), answer.dequantize().float()
            scale = float(expected.abs().nan_to_num(posinf=0.0).max()) if expected.numel() else 0.0
            return torch.allclose(expected, answer, rtol=1e-3, atol=1e-4 * scale, equal_nan=True)
        case ((tuple() | list()), (tuple() | list())):
            return len(expected) == len(answer) and all(map(_same, expected, answer))
        case dict(), dict():
            return expected.keys() == answer.keys() and all(_same(expected[k], answer[k]) for k in expected)
        case _:
            return expected is None and answer is None
