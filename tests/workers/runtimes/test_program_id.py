"""Saved models are one program where they do the same with tensors of the same shapes."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch.utils.mobile_optimizer import optimize_for_mobile

from workers.runtimes.torchscript.program_id import program_id
from workers.runtimes.torchscript.save import Format, save

Change = Callable[[torch.nn.Sequential], torch.nn.Sequential]


def network() -> torch.nn.Sequential:
    torch.manual_seed(0)
    convolutions = torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU()
    return torch.nn.Sequential(*convolutions, torch.nn.Flatten(), torch.nn.Linear(8 * 6 * 6, 5)).eval()


def fused(net: torch.nn.Sequential) -> torch.nn.Sequential:
    return torch.ao.quantization.fuse_modules(net, [["0", "1", "2"]])


def other_weights(net: torch.nn.Sequential) -> torch.nn.Sequential:
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.mul_(2.0)
    return net


def wider(net: torch.nn.Sequential) -> torch.nn.Sequential:
    net[0], net[1], net[4] = torch.nn.Conv2d(3, 9, 3), torch.nn.BatchNorm2d(9), torch.nn.Linear(9 * 6 * 6, 5)
    return net.eval()


def padded(net: torch.nn.Sequential) -> torch.nn.Sequential:
    """Tensors of the same shapes, convolved in another way."""
    net[0] = torch.nn.Conv2d(3, 8, 3, stride=(1, 1), padding=(1, 1), dilation=(2, 2))
    return net


def without_relu(net: torch.nn.Sequential) -> torch.nn.Sequential:
    net[2] = torch.nn.Identity()
    return net


def saved(folder: Path, net: torch.nn.Module, *, optimized: bool = True, format: Format = "pt") -> Path:
    module = torch.jit.script(net)
    if optimized:
        module = optimize_for_mobile(module)
    own = folder / str(len(list(folder.iterdir())))
    own.mkdir()
    return save(module, own, format).file


@pytest.mark.parametrize("change", [fused, other_weights])
def test_what_the_optimiser_makes_equal_is_one_program(tmp_path: Path, change: Change) -> None:
    files = [saved(tmp_path, net) for net in (network(), change(network()))]
    assert files[0].read_bytes() != files[1].read_bytes()
    first, second = map(program_id, files)
    assert first is not None
    assert first == second


@pytest.mark.parametrize("change", [wider, padded, without_relu])
def test_another_shape_parameter_or_operator_is_another_program(tmp_path: Path, change: Change) -> None:
    first, second = (program_id(saved(tmp_path, net)) for net in (network(), change(network())))
    assert None not in (first, second)
    assert first != second


def test_a_lite_model_is_described_too(tmp_path: Path) -> None:
    first, second = (program_id(saved(tmp_path, net, format="ptl")) for net in (network(), fused(network())))
    assert first is not None
    assert first == second


def test_nothing_is_said_of_a_model_that_is_not_frozen(tmp_path: Path) -> None:
    assert program_id(saved(tmp_path, network(), optimized=False)) is None


def test_the_values_of_integers_are_part_of_a_program(tmp_path: Path) -> None:
    class Chosen(torch.nn.Module):
        def __init__(self, chosen: list[int]) -> None:
            super().__init__()
            self.register_buffer("chosen", torch.tensor(chosen))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.index_select(1, self.chosen)

    ids = {program_id(saved(tmp_path, Chosen(chosen).eval())) for chosen in ([0, 1], [0, 2])}
    assert None not in ids
    assert len(ids) == 2
