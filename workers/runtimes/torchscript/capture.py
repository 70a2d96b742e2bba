"""From an eager model to TorchScript."""

import warnings

import torch
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
    inputs that a branch in the model is likely to tell apart. Raises `BuildError("not_traceable" | "trace_differs")`.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", TracerWarning)
        try:
            traced = torch.jit.trace(model, images, check_trace=False)  # type: ignore[no-untyped-call]  # torch has no types for it
        except Exception as error:
            raise BuildError(
                "not_traceable", f"torch.jit.trace fails: {first_words(error)}", "try capture: [script]"
            ) from error
    reasons = [first_words(str(w.message)) for w in caught if issubclass(w.category, TracerWarning)]
    probes = {
        "the traced input": images,
        "the input negated": -images,
        "the input mirrored": images.flip(-1),
        "the input times 8": images * 8,
        "zeros": torch.zeros_like(images),
    }
    for what, probe in probes.items():
        if not _same(model(probe), traced(probe)):
            told = f"; torch said: {reasons[0].partition('. ')[0]}" if reasons else ""
            raise BuildError("trace_differs", f"the trace answers differently on {what}{told}", "try capture: [script]")
    assert isinstance(traced, torch.jit.ScriptModule)
    return traced


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
