"""Fusing takes the known patterns and keeps the answers: in float64, where the order of sums is no matter."""

from collections.abc import Callable, Iterator
from types import ModuleType

import pytest
import torch

from sweeps.errors import BuildError
from workers.models.eager_model import load_eager
from workers.models.package import BuildInputs
from workers.runtimes.torchscript.fuse import fuse, symbolic
from workers.runtimes.torchscript.torch_state import build_state


@pytest.fixture(autouse=True)
def state() -> Iterator[None]:
    with build_state("none"):
        yield


def parts(inputs: BuildInputs) -> tuple[torch.nn.Module, torch.Tensor]:
    return load_eager(inputs.package).double(), torch.from_numpy(inputs.verification).double()


def test_what_is_fused_is_listed_and_answers_the_same(tiny: BuildInputs) -> None:
    model, images = parts(tiny)
    graph, fused = fuse(symbolic(model))
    assert fused == ("stem.0 + stem.1", "depthwise.0 + depthwise.1", "point + norm", "hidden + relu")
    assert not any(isinstance(module, torch.nn.BatchNorm2d) for module in graph.modules())
    torch.testing.assert_close(graph(images), model(images))


def test_a_relu_that_is_called_twice_is_fused_at_each_call(make_inputs: Callable[..., BuildInputs]) -> None:
    model, images = parts(make_inputs("resnet18", num_classes=5))
    graph, fused = fuse(symbolic(model))
    assert "layer1.0.conv1 + layer1.0.bn1 + layer1.0.relu" in fused
    assert "layer1.0.conv2 + layer1.0.bn2" in fused
    assert len(fused) == 20
    torch.testing.assert_close(graph(images), model(images))


def test_a_convolution_that_something_else_reads_is_not_fused() -> None:
    class Peek(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = torch.nn.Conv2d(3, 3, 1)
            self.norm = torch.nn.BatchNorm2d(3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.conv(x)
            y: torch.Tensor = self.norm(x) + x
            return y

    assert fuse(symbolic(Peek().eval()))[1] == ()


def test_control_flow_on_the_input_cannot_be_fused_and_says_so(nets: ModuleType) -> None:
    with pytest.raises(BuildError, match=r"torch\.fx cannot trace the model, which fusing and int8 need") as caught:
        symbolic(nets.Branch())
    assert caught.value.kind == "not_traceable"


def moved(norm: torch.nn.Module, by: float) -> torch.nn.Module:
    """A batch norm that does something."""
    norm.get_buffer("running_var").fill_(by)
    norm.get_buffer("running_mean").fill_(by)
    return norm


def test_a_convolution_that_is_called_twice_is_fused_with_what_follows_each_call() -> None:
    # fuse_fx alone folds both batch norms into the one convolution, and the answers are others.
    class Twice(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = torch.nn.Conv2d(3, 3, 1)
            self.first = moved(torch.nn.BatchNorm2d(3), 2.0)
            self.second = moved(torch.nn.BatchNorm2d(3), 5.0)
            self.relu = torch.nn.ReLU()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y: torch.Tensor = self.first(self.conv(x)) + self.relu(self.second(self.conv(x * 2)))
            return y

    model, images = Twice().eval().double(), torch.randn(2, 3, 8, 8).double()
    graph, fused = fuse(symbolic(model))
    assert fused == ("conv + first", "conv_conv_1 + second + relu")
    torch.testing.assert_close(graph(images), model(images))


def test_modules_that_are_called_twice_and_not_fused_keep_one_set_of_weights() -> None:
    class Recurrent(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = torch.nn.Conv2d(3, 3, 3, padding=1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y: torch.Tensor = self.conv(torch.tanh(self.conv(x)))
            return y

    graph, fused = fuse(symbolic(Recurrent().eval()))
    assert fused == ()
    assert len({parameter.data_ptr() for _, parameter in graph.named_parameters(remove_duplicate=False)}) == 2


def test_transposed_convolutions_linears_and_functions_are_fused_too() -> None:
    class Others(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up = torch.nn.ConvTranspose2d(3, 4, 2, 2)
            self.norm = moved(torch.nn.BatchNorm2d(4), 3.0)
            self.conv = torch.nn.Conv2d(4, 4, 3)
            self.hidden = torch.nn.Linear(4, 6)
            self.scale = moved(torch.nn.BatchNorm1d(6), 2.0)
            self.head = torch.nn.Linear(6, 5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = torch.relu(self.conv(self.norm(self.up(x)))).mean((2, 3))
            y: torch.Tensor = torch.nn.functional.relu(self.head(self.scale(self.hidden(x))))
            return y

    model, images = Others().eval().double(), torch.randn(2, 3, 8, 8).double()
    graph, fused = fuse(symbolic(model))
    assert fused == ("up + norm", "conv + relu", "hidden + scale", "head + relu_1")
    torch.testing.assert_close(graph(images), model(images))


UNFOLDABLE = {
    "no statistics of its own": (torch.nn.Conv2d(3, 4, 1), torch.nn.BatchNorm2d(4, track_running_stats=False)),
    "transposed convolution with groups": (torch.nn.ConvTranspose2d(3, 6, 2, groups=3), torch.nn.BatchNorm2d(6)),
}


@pytest.mark.parametrize("why", UNFOLDABLE)
def test_a_batch_norm_that_cannot_be_folded_is_named_with_its_reason(why: str) -> None:
    with pytest.raises(BuildError, match=f"^1 cannot be folded .*{why}") as caught:
        fuse(symbolic(torch.nn.Sequential(*UNFOLDABLE[why]).eval()))
    assert caught.value.kind == "not_fusable"
    assert "fuse: [false]" in caught.value.next_step
