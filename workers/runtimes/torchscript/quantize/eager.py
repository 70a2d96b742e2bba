"""Static int8 in eager mode, for an unchanged network: the usual manual changes are made in its graph.

torch's recipe for eager mode requires `QuantStub` and `DeQuantStub` around int8 parts, `FloatFunctional` instead of
`+`, `*` and `torch.cat`, and a list of modules to fuse
(https://docs.pytorch.org/docs/stable/quantization.html, "Eager Mode Quantization").
"""

import copy
import operator
from collections.abc import Callable

import torch
from torch import nn
from torch.ao.nn import intrinsic
from torch.ao.nn import quantized as nnq
from torch.ao.quantization import DeQuantStub, QConfig, QuantStub, default_weight_observer
from torch.ao.quantization import convert as eager_convert
from torch.ao.quantization import prepare as eager_prepare
from torch.fx import GraphModule, Node
from torch.fx.passes.shape_prop import ShapeProp, TensorMetadata
from torch.nn import functional
from torch.nn.modules.conv import _ConvTransposeNd

from sweeps.errors import BuildError
from workers.runtimes.torchscript.fuse import check_foldable, fuse, symbolic
from workers.runtimes.torchscript.quantize import addends
from workers.runtimes.torchscript.quantize.bounds import fixed_to, mark, mark_of, rewrite_bounds
from workers.runtimes.torchscript.quantize.functional_modules import Add, AddReLU, Concatenate, Multiply, Quantize
from workers.runtimes.torchscript.quantize.observers import State, install
from workers.runtimes.torchscript.quantize.prepared import Prepared
from workers.runtimes.torchscript.quantize.qconfigs import has_wrong_kernel, qconfig_mapping
from workers.runtimes.torchscript.scheme import Scheme
from workers.runtimes.torchscript.sized_trace import is_of_one_size

_INT8: tuple[type[nn.Module], ...] = (
    *(nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d, nn.Linear),
    *(intrinsic.ConvReLU1d, intrinsic.ConvReLU2d, intrinsic.ConvReLU3d, intrinsic.LinearReLU),
    *(nn.BatchNorm2d, nn.BatchNorm3d, intrinsic.BNReLU2d, intrinsic.BNReLU3d, nn.Hardswish),
)
"""Modules that torch replaces by int8 modules."""

_EITHER_MODULES: tuple[type[nn.Module], ...] = (
    *(nn.ReLU, nn.Hardsigmoid, nn.Sigmoid, nn.MaxPool2d, nn.AvgPool2d, nn.AdaptiveAvgPool2d),
    *(nn.Flatten, nn.Identity, nn.Dropout, nn.Dropout2d, nn.ChannelShuffle),
)
_EITHER: frozenset[Callable[..., object] | str] = frozenset(
    (
        *(functional.relu, functional.hardsigmoid, torch.sigmoid, "sigmoid"),
        *(functional.max_pool2d, functional.avg_pool2d, functional.adaptive_avg_pool2d, functional.dropout),
        *(torch.flatten, "reshape", "view", "permute", torch.permute, "transpose", torch.transpose, "contiguous"),
        *("chunk", torch.chunk, "split", torch.split, "squeeze", "unsqueeze", "mean", torch.mean),
        *("size", "dim", getattr, operator.getitem),
    )
)
"""Operators whose output is int8 if their input is, else float; sigmoids have a fixed scale for int8."""

_ADD = frozenset((operator.add, operator.iadd, torch.add, "add", "add_"))
_MULTIPLY = frozenset((operator.mul, operator.imul, torch.mul, "mul", "mul_"))


def prepare_eager(model: torch.nn.Module, scheme: Scheme, example: torch.Tensor) -> Prepared:
    """Fuse, insert stubs between float and int8 parts, and let torch insert observers."""
    graph = copy.deepcopy(symbolic(model, example))
    of_one_size = is_of_one_size(model) or is_of_one_size(graph)
    check_foldable(graph)
    rewrite_bounds(graph, set())
    graph, fused = fuse(graph)
    ShapeProp(graph).propagate(example)  # type: ignore[no-untyped-call]  # torch has no types for it
    stubbed = _Stubs(graph, scheme).insert()
    prepared: torch.nn.Module = eager_prepare(stubbed)  # type: ignore[no-untyped-call]  # torch has no types for it
    for node in stubbed.graph.nodes:
        module = prepared.get_submodule(str(node.target)) if node.op == "call_module" else None
        if module is not None and (bounded := mark_of(module)) is not None:
            observed = module.get_submodule("functional") if isinstance(module, AddReLU) else module
            observed.set_submodule("activation_post_process", fixed_to(bounded[1]))
    return Prepared(module=prepared, fused=fused, example=example, of_one_size=of_one_size)


def convert_eager(prepared: Prepared, state: State, scheme: Scheme) -> torch.nn.Module:
    """Return the int8 model. The engine must be set."""
    module = copy.deepcopy(prepared.module)
    assert isinstance(module, GraphModule)
    install(module, state)
    if scheme.engine == "qnnpack":
        addends.widen(module)
    converted: torch.nn.Module = eager_convert(module)  # type: ignore[no-untyped-call]  # torch has no types for it
    for name, stub in list(converted.named_modules()):
        if isinstance(stub, nnq.Quantize):
            converted.set_submodule(name, Quantize(float(stub.scale), int(stub.zero_point)))
    return converted


class _Stubs:
    """One pass over a graph, in order, that inserts stubs and records which values are int8."""

    def __init__(self, graph: GraphModule, scheme: Scheme) -> None:
        self.graph = graph
        self.engine = scheme.engine
        default = qconfig_mapping(scheme).global_qconfig
        assert default is not None
        self.qconfig = default
        self.transposed = QConfig(activation=default.activation, weight=default_weight_observer)  # type: ignore[no-untyped-call]  # torch has no types for it
        self.int8: set[Node] = set()
        self.behind_stub: dict[Node, Node] = {}
        """The output of a stub, by the node whose value the stub converts."""
        self.fused: set[Node] = set()
        """ReLUs that were fused into the addition before them."""

    def insert(self) -> GraphModule:
        """Insert all stubs. Raises `BuildError("not_quantizable")`."""
        for node in list(self.graph.graph.nodes):
            if node in self.fused:
                continue
            kind = self._kind(node)
            if kind == "either":
                kind = "int8" if any(source in self.int8 for source in node.all_input_nodes) else "float"
            else:
                for source in node.all_input_nodes:
                    self._feed(node, source, kind == "int8")
            if kind == "int8":
                self.int8.add(node)
        self.graph.delete_all_unused_submodules()
        self.graph.recompile()
        return self.graph

    def _kind(self, node: Node) -> str:
        """Return the input type of the operator: `int8`, `float` or `either`."""
        if has_wrong_kernel(self.graph, node, self.engine) or self._becomes_bounded(node):
            return "float"
        if node.op in ("call_function", "call_method") and self._becomes_module(node):
            return "int8"
        if node.op != "call_module":
            return "either" if node.target in _EITHER else "float"
        module = self.graph.get_submodule(str(node.target))
        if type(module) in _INT8:
            _observe(module, self.transposed if isinstance(module, _ConvTransposeNd) else self.qconfig)
            return "int8"
        return "either" if type(module) in _EITHER_MODULES else "float"

    def _becomes_bounded(self, node: Node) -> bool:
        """Replace a marked ReLU that was not fused by the original operator, as the ReLU has no scale. Returns whether
        it was."""
        module = self.graph.get_submodule(str(node.target)) if node.op == "call_module" else None
        if type(module) is not nn.ReLU or (bounded := mark_of(module)) is None:
            return False
        self.graph.set_submodule(str(node.target), nn.Hardtanh(0.0, bounded[1]))
        return True

    def _becomes_module(self, node: Node) -> bool:
        """Replace arithmetic between int8 tensors by a module. Returns whether it was replaced.

        If one of them is float, the result stays float: rounding the residual stream of a transformer, which comes from
        LayerNorm and attention, costs 12 dB of signal-to-noise ratio on a small ViT and saves no time.
        """
        tensors = node.all_input_nodes
        if not tensors or not all(tensor in self.int8 and _is_tensor(tensor) for tensor in tensors):
            return False
        module: nn.Module
        operands = list(node.args)
        if node.target in (torch.cat, torch.concat) and isinstance(node.args[0], list | tuple):
            dim = node.kwargs.get("dim", node.args[1] if len(node.args) > 1 else 0)
            assert isinstance(dim, int)
            module, operands = Concatenate(dim), [list(node.args[0])]
        elif node.target in _ADD | _MULTIPLY and _are_nodes(node.args) and not node.kwargs:
            module = self._arithmetic(node)
        else:
            return False
        _observe(module, self.qconfig)
        name = f"int8_{node.name}"
        self.graph.add_submodule(name, module)
        node.op, node.target, node.args, node.kwargs = "call_module", name, tuple(operands), {}
        return True

    def _arithmetic(self, node: Node) -> nn.Module:
        if node.target in _MULTIPLY:
            return Multiply()
        user = next(iter(node.users))
        module = self.graph.get_submodule(str(user.target)) if user.op == "call_module" else None
        if len(node.users) > 1 or not (type(module) is nn.ReLU or user.target is functional.relu):
            return Add()
        fused = AddReLU()
        if module is not None and (bounded := mark_of(module)) is not None:
            mark(fused, *bounded)
        user.replace_all_uses_with(node)
        self.graph.graph.erase_node(user)
        self.fused.add(user)
        return fused

    def _feed(self, node: Node, source: Node, int8: bool) -> None:
        """Let `node` read `source` as int8 or float, through a stub if necessary."""
        if (source in self.int8) == int8:
            return
        if not _is_tensor(source):
            if isinstance(source.meta.get("tensor_meta"), list | tuple):
                raise BuildError(
                    "not_quantizable",
                    f"{node.name} takes several int8 tensors of {source.name} at once: eager mode cannot convert them",
                    "use quantization: [static_fx]",
                )
            return
        if source not in self.behind_stub:
            stub, name = (QuantStub, "quantize") if int8 else (DeQuantStub, "dequantize")
            self.graph.add_submodule(f"{name}_{source.name}", stub(self.qconfig))
            with self.graph.graph.inserting_after(source):
                self.behind_stub[source] = self.graph.graph.call_module(f"{name}_{source.name}", (source,))
            self.behind_stub[source].meta = dict(source.meta)
            if int8:
                self.int8.add(self.behind_stub[source])
        node.replace_input_with(source, self.behind_stub[source])


def _observe(module: nn.Module, qconfig: QConfig) -> None:
    """Set the qconfig as torch expects it: an attribute that `prepare` passes to inner modules."""
    module.__dict__["qconfig"] = qconfig


def _is_tensor(node: Node) -> bool:
    metadata = node.meta.get("tensor_meta")
    return isinstance(metadata, TensorMetadata) and metadata.dtype.is_floating_point


def _are_nodes(arguments: tuple[object, ...]) -> bool:
    return len(arguments) == 2 and all(isinstance(argument, Node) for argument in arguments)
