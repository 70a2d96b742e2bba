"""Captures an eager model as TorchScript: by scripting, by tracing, or mixed."""

import copy
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode
from torch.jit import _builtins
from torch.jit._trace import TracerWarning

from sweeps.errors import BuildError
from workers.runtimes.library_errors import first_words


class ChannelsLast(torch.nn.Module):
    """Converts the input to channels_last before the model, so that callers pass NCHW-shaped data in any layout.

    The result of the conversion must be assigned: the Korean edition of the recipe drops it, so it converts nothing.
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
    """Remove deleted operators from torch's table of builtins.

    The table is keyed by `id()` and never cleaned: importing `torch.ao.quantization` leaves four deleted operators in
    it. An attribute (for example a list) that later gets the same address is compiled as that operator.
    """
    table: dict[int, str] = _builtins._get_builtin_table()  # type: ignore[no-untyped-call]  # torch's own, untyped
    for address, name in list(table.items()):
        space, _, operator = name.partition("::")
        if space in ("aten", "prim"):
            continue  # Operators of these two are never deleted.
        packet = vars(getattr(torch.ops, space)).get(operator)
        if id(getattr(packet, "_op", None)) != address:
            del table[address]


def trace(model: torch.nn.Module, *images: torch.Tensor) -> torch.jit.ScriptModule:
    """Trace the model on `images` (B, C, H, W), and compare the trace with the model on other inputs. A model with
    several arguments gets a tensor for each argument, of any shape.

    torch's own check compares graphs, and refuses correct traces (ViT). This one compares outputs, on inputs for which
    a branch in the model is likely to differ. Raises `BuildError`: `not_traceable`, `trace_differs`, or
    `data_dependent` if the model's control flow depends on its data, even if the outputs for these inputs are equal.
    """
    return _trace(model, _probes(*images))


def mixed(model: torch.nn.Module, images: torch.Tensor) -> torch.jit.ScriptModule:
    """Trace the largest parts whose traces are correct, and script the rest around them.

    A part's trace is checked on the inputs that the part gets when the model runs on the inputs of `trace`. The model
    itself is not changed. Raises `BuildError("not_capturable")` with the part that can be neither traced nor scripted.
    """
    if isinstance(model, ChannelsLast):  # already a wrapper; its conversion stays outside of the trace
        shell, images = copy.copy(model), images.contiguous(memory_format=torch.channels_last)
        shell._modules = {"model": _part("", model.model, _probes(images))}
        return script(shell)
    return script(torch.nn.Sequential(_part("", model, _probes(images))).eval())


# A model's own code raises these for an unsuitable input.
_INPUT_ERRORS = (RuntimeError, ValueError, AssertionError, IndexError, ArithmeticError)

_Calls = Mapping[str, tuple[object, ...]]
"""Positional arguments of calls of a module, by their description in messages."""


def _probes(*images: torch.Tensor) -> _Calls:
    """Return inputs for which a branch in the model is likely to differ, quantized like `images`."""
    changes: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "the input negated": torch.neg,
        "the input mirrored": lambda floats: floats.flip(-1),
        "the input times 8": lambda floats: floats * 8,
        "zeros": torch.zeros_like,
    }
    changed = {name: tuple(quantized_as(x, change(x.dequantize())) for x in images) for name, change in changes.items()}
    return {"the traced input": images, **changed}


def quantized_as(images: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Return `x` in the type of `images`: unchanged, or quantized with the same scale and zero point."""
    if not images.is_quantized:
        return x
    return torch.quantize_per_tensor(x, images.q_scale(), images.q_zero_point(), images.dtype)


def _part(name: str, module: torch.nn.Module, calls: _Calls) -> torch.jit.ScriptModule:
    """Return `module`, whose path is `name`, traced as a whole if possible, else scripted around its traced parts."""
    if isinstance(module, torch.jit.ScriptModule):
        return module
    try:
        return _trace(module, calls)
    except BuildError as error:
        untraced = error
    parts = {path: _part(f"{name}.{path}".lstrip("."), part, inner) for path, part, inner in _inside(module, calls)}
    shell = copy.deepcopy(module)
    for path, part in parts.items():
        shell.set_submodule(path, part)
    try:
        try:
            return script(shell)
        except BuildError:
            # A module may use attributes of a part (its weight, its sizes), which a traced part does not have.
            return script(module)
    except BuildError as error:
        raise BuildError(
            "not_capturable",
            f"{name or 'the model'} ({type(module).__name__}) can be neither traced nor scripted: "
            f"{untraced.message}; {error.message}",
            "rewrite this module's forward",
        ) from error


def _inside(module: torch.nn.Module, calls: _Calls) -> list[tuple[str, torch.nn.Module, _Calls]]:
    """Return the outermost modules that run inside `module`: path, module, and the arguments of its calls.

    Lists of modules do not run themselves, so their entries are outermost. Modules that are called with keyword
    arguments, or not called at all, are left out and later scripted.
    """
    calls_by_path: dict[str, dict[str, tuple[object, ...]]] = {}
    with_keywords: set[str] = set()
    running: list[str] = []

    def before(path: str) -> Callable[..., None]:
        def hook(part: torch.nn.Module, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
            if not running:
                # The arguments are copied, because the part may write into them.
                called = calls_by_path.setdefault(path, {})
                called[f"its input {len(called) + 1}"] = _copies(args)
                if kwargs:
                    with_keywords.add(path)
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
            with suppress(*_INPUT_ERRORS):
                module(*_copies(args))
    finally:
        for hook in hooks:
            hook.remove()
    return [(path, parts[path], called) for path, called in calls_by_path.items() if path not in with_keywords]


def _copies(args: tuple[object, ...]) -> tuple[object, ...]:
    return tuple(arg.clone() if isinstance(arg, torch.Tensor) else arg for arg in args)


def _trace(model: torch.nn.Module, calls: _Calls) -> torch.jit.ScriptModule:
    """Return a trace of the first call, checked on all calls."""
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
    doubts = [warning for warning in caught if issubclass(warning.category, TracerWarning)]
    warned = f"; torch said: {first_words(str(doubts[0].message)).partition('. ')[0]}" if doubts else ""
    file, line = (doubts[0].filename, doubts[0].lineno) if doubts else ("", 0)
    for name, args in calls.items():
        try:
            expected = model(*_copies(args))
        except _INPUT_ERRORS:
            continue  # The arguments are no input for this model.
        if not _agree(expected, _answer(traced, args)):
            raise BuildError(
                "trace_differs",
                f"the trace's output differs on {name}{warned}",
                "try capture: [script]",
                file=file,
                line=line,
            )
    if doubts and _is_data_dependent(model, example):
        raise BuildError(
            "data_dependent",
            f"the model's control flow depends on its data, and a trace records only one path{warned}",
            "try capture: [script]",
            file=file,
            line=line,
        )
    assert isinstance(traced, torch.jit.ScriptModule)
    return traced


def _answer(traced: torch.jit.ScriptModule, args: tuple[object, ...]) -> object:
    try:
        return traced(*_copies(args))
    except (RuntimeError, torch.jit.Error) as error:
        return error  # differs from any output of the model


def _is_data_dependent(model: torch.nn.Module, example: tuple[object, ...]) -> bool:
    """Tell whether the model converts tensor data to a Python value, found by a run on fake tensors, which have no
    data.

    Sizes do not count as data. If torch cannot run the model on fake tensors (quantized operators), returns false: then
    only the comparison of outputs can show it.
    """
    try:
        with FakeTensorMode(allow_non_fake_inputs=True) as mode:
            model(*(mode.from_tensor(arg) if isinstance(arg, torch.Tensor) else arg for arg in example))
    except DataDependentOutputException:
        return True
    except Exception:  # noqa: BLE001  # as the docstring says
        return False
    return False


def _agree(expected: object, answer: object) -> bool:
    match expected, answer:
        case torch.Tensor(), torch.Tensor():
            if expected.shape != answer.shape or expected.dtype != answer.dtype:
                return False
            expected, answer = expected.dequantize().float(), answer.dequantize().float()
            scale = float(expected.abs().nan_to_num(posinf=0.0).max()) if expected.numel() else 0.0
            return torch.allclose(expected, answer, rtol=1e-3, atol=1e-4 * scale, equal_nan=True)
        case ((tuple() | list()), (tuple() | list())):
            return len(expected) == len(answer) and all(map(_agree, expected, answer))
        case dict(), dict():
            return expected.keys() == answer.keys() and all(_agree(expected[k], answer[k]) for k in expected)
        case _:
            return expected is None and answer is None
