"""The form in which models are built: what it changes, that it answers the same, and what stays as it is."""

import io
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.optim.swa_utils import AveragedModel

from workers.models.model_code import construct
from workers.models.normal_form import load_normal, normalized, overwrites_input
from workers.models.package import ModelPackage

SHAPE = (1, 3, 8, 8)


class Net(nn.Module):
    def __init__(self, first: nn.Module | None = None, norm: nn.Module | None = None) -> None:
        super().__init__()
        self.first = first or nn.Conv2d(3, 4, 3, padding=1)
        self.norm = norm or nn.BatchNorm2d(4)
        self.head = nn.Linear(4, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        answer: torch.Tensor = self.head(functional.relu(self.norm(self.first(x))).flatten(2).mean(2))
        return answer


class Lines(nn.Module):
    """Layers of one and of three spatial dimensions, with batch norms of their inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.line, self.norm = nn.Conv1d(3, 4, 4, padding="same"), nn.SyncBatchNorm(4)
        self.space, self.deep = nn.Conv3d(1, 2, (1, 2, 3), padding="same", dilation=(1, 3, 1)), nn.SyncBatchNorm(2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        line = self.norm(self.line(x.flatten(2))).mean(2)
        return torch.cat([line, self.deep(self.space(x.unsqueeze(1))).flatten(2).mean(2)], 1)


def parallel_inside() -> nn.Module:
    return Net(first=nn.Sequential(nn.DataParallel(nn.Conv2d(3, 4, 3))))


def compiled_in_place() -> nn.Module:
    net = Net()
    net.compile(backend="eager")
    return net


MODELS: dict[str, Callable[[], nn.Module]] = {
    "DataParallel": lambda: nn.DataParallel(Net()),
    "wrappers of wrappers": lambda: AveragedModel(nn.DataParallel(Net())),
    "a wrapper inside": parallel_inside,
    "torch.compile": lambda: torch.compile(Net(), backend="eager"),
    "module.compile()": compiled_in_place,
    "SyncBatchNorm": lambda: Net(norm=nn.SyncBatchNorm(4)),
    "SyncBatchNorm without statistics": lambda: Net(norm=nn.SyncBatchNorm(4, affine=False, track_running_stats=False)),
    "same": lambda: Net(nn.Conv2d(3, 4, (3, 5), padding="same", dilation=(2, 1))),
    "valid": lambda: Net(nn.Conv2d(3, 4, 3, padding="valid", stride=2)),
    "same, ends differ": lambda: Net(nn.Conv2d(3, 4, (4, 3), padding="same")),
    "same, ends differ, mirrored": lambda: Net(nn.Conv2d(3, 4, (4, 3), padding="same", padding_mode="reflect")),
    "same, circular": lambda: Net(nn.Conv2d(3, 4, 3, padding="same", padding_mode="circular")),
    "other dimensions": Lines,
}


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
@pytest.mark.parametrize("name", MODELS)
def test_a_model_answers_the_same_in_a_form_that_every_runtime_builds(name: str) -> None:
    torch.manual_seed(0)
    model = MODELS[name]().eval().requires_grad_(False)
    x = torch.randn(SHAPE)
    expected = model(x.clone())
    normal = normalized(model, x)
    torch.testing.assert_close(normal(x), expected)
    kinds = {type(module) for module in normal.modules()}
    assert kinds.isdisjoint({nn.DataParallel, nn.SyncBatchNorm, AveragedModel}), "nothing of training is left"
    assert torch.compile(Net()).__class__ not in kinds
    paddings = [module.padding for module in normal.modules() if hasattr(module, "padding")]
    assert all(not isinstance(padding, str) for padding in paddings)
    torch.testing.assert_close(torch.jit.script(normal)(x), expected)


def test_a_convolution_that_two_parts_share_stays_one() -> None:
    shared = nn.Conv2d(3, 3, 2, padding="same")
    normal = normalized(nn.Sequential(shared, shared, nn.Sequential(shared)).eval(), torch.zeros(SHAPE))
    assert normal[0] is normal[1] is normal[2][0]
    assert normal(torch.zeros(SHAPE)).shape == SHAPE


SOURCE = """
import torch
from torch import nn

class Reaches(nn.Module):
    def __init__(self):
        super().__init__()
        self.wrapped = nn.DataParallel(nn.Sequential(nn.Conv2d(3, 5, 3), nn.Flatten(2)))
    def forward(self, x):
        return self.wrapped.module[0](x).mean((2, 3))

class Writes(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 5, 3)
    def forward(self, x):
        x.mul_(2.0)
        return self.first(x).mean((2, 3))

@torch.compile
def doubled(x):
    return x * 2

class Compiled(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.compile(nn.Conv2d(3, 5, 3))
    def forward(self, x):
        return doubled(self.first(x)).mean((2, 3))

def compiled():
    return torch.compile(Compiled())
"""


def package(function: str) -> ModelPackage:
    files = {"own_nets.py": SOURCE.encode()}
    model = construct(f"own_nets:{function}", {}, files).eval()
    state = io.BytesIO()
    torch.save(model.state_dict(), state)
    return ModelPackage(
        name="own",
        source=f"own_nets:{function}",
        arguments={},
        files=files,
        state=state.getvalue(),
        weights_id="random:0",
        model_source="own",
        input_shape=SHAPE,
        overwrites_input=overwrites_input(model, SHAPE),
    )


def test_a_model_that_needs_its_wrapper_keeps_its_form() -> None:
    model = load_normal(package("Reaches"))
    assert isinstance(model.wrapped, nn.DataParallel)
    assert model(torch.zeros(SHAPE)).shape == (1, 5)


def test_a_model_that_overwrites_its_input_gets_a_copy() -> None:
    own = package("Writes")
    assert own.overwrites_input
    x = torch.randn(SHAPE)
    before = x.clone()
    assert load_normal(own)(x).shape == (1, 5)
    assert torch.equal(x, before)


def test_nothing_is_compiled_by_torch_compile(tmp_path: Path) -> None:
    own = package("compiled")
    assert not own.overwrites_input
    model = load_normal(own)
    assert [type(part).__name__ for part in model.modules()] == ["Compiled", "Conv2d"]
    assert torch.jit.script(model)(torch.zeros(SHAPE)).shape == (1, 5)
