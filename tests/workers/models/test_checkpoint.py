"""Checkpoints as training leaves them, each made by what makes it: what is loaded, what is asked, what is refused."""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch.optim.swa_utils import AveragedModel

from sweeps.errors import ModelError
from workers.models import checkpoint

State = Mapping[str, torch.Tensor]


def net(classes: int = 4, seed: int = 0) -> torch.nn.Sequential:
    """A network whose names have numbers and words: `0.weight`, `head.fc.bias`."""
    torch.manual_seed(seed)
    head = torch.nn.Sequential(OrderedDict(fc=torch.nn.Linear(3, classes)))
    network = torch.nn.Sequential(torch.nn.Conv2d(3, 3, 1), torch.nn.BatchNorm2d(3))
    network.add_module("head", head)
    return network.eval()


class Holder(torch.nn.Module):
    """Holds a network beside other modules, as a LightningModule, ModelEmaV2 of timm or a user's class does."""

    def __init__(self, name: str, network: torch.nn.Module, **more: torch.nn.Module) -> None:
        super().__init__()
        self.add_module(name, network)
        for other, module in more.items():
            self.add_module(other, module)


def held(name: str) -> Callable[[torch.nn.Module], State]:
    return lambda network: Holder(name, network).state_dict()


def data_parallel(network: torch.nn.Module) -> State:
    return torch.nn.DataParallel(network).state_dict()


def compiled(network: torch.nn.Module) -> State:
    return torch.compile(network).state_dict()


def averaged(network: torch.nn.Module) -> State:
    average = AveragedModel(network)
    average.update_parameters(network)
    return average.state_dict()


def inside(word: str) -> Callable[[torch.nn.Sequential], State]:
    """Only one part of the network is wrapped."""

    def wrap(network: torch.nn.Sequential) -> State:
        other = deepcopy(network)
        other.head = Holder(word, other.head)
        return other.state_dict()

    return wrap


def compiled_inside(network: torch.nn.Sequential) -> State:
    other = deepcopy(network)
    other.head = torch.compile(torch.nn.DataParallel(other.head))
    return data_parallel(other)


def in_fsdp(network: torch.nn.Sequential) -> State:
    """Name the parameters as FSDP does for wrapped parts: the whole, and a part in it."""
    other = deepcopy(network)
    other.head = Holder("_fsdp_wrapped_module", other.head)
    return Holder("_fsdp_wrapped_module", other).state_dict()


def with_optimizer(network: torch.nn.Module) -> dict[str, Any]:
    other = deepcopy(network)
    optimizer = torch.optim.Adam(other.parameters())
    for parameter in other.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    return {
        "optimizer": optimizer.state_dict(),
        "means": {0: torch.zeros(2)},
        "epoch": 3,
        "model": network.state_dict(),
        "loss": 0.5,
    }


def lightning(network: torch.nn.Module) -> dict[str, Any]:
    return {
        "epoch": 1,
        "pytorch-lightning_version": "2.5.1",
        "state_dict": held("model")(network),
        "loops": {"fit_loop": {"state_dict": {}}},
        "optimizer_states": [with_optimizer(network)["optimizer"]],
        "hyper_parameters": {"lr": 0.1},
    }


NINE = "taken off 9 names"
PEOPLES = {
    "a state_dict": (lambda n: n.state_dict(), ""),
    "DataParallel": (data_parallel, f", `module.` {NINE}"),
    "as torch.compile": (held("_orig_mod"), f", `_orig_mod.` {NINE}"),
    "twice DataParallel": (lambda n: data_parallel(torch.nn.DataParallel(n)), f", `module.module.` {NINE}"),
    "FSDP": (in_fsdp, f", `_fsdp_wrapped_module.` {NINE}"),
    "activation checkpointing": (inside("_checkpoint_wrapped_module"), f", `_checkpoint_wrapped_module.` {NINE}"),
    "part in DataParallel": (inside("module"), f", `module.` {NINE}"),
    "part as compiled": (inside("_orig_mod"), f", `_orig_mod.` {NINE}"),
    "AveragedModel": (averaged, f", `module.` {NINE}, n_averaged left out"),
    "ModelEmaV2": (held("module"), f", `module.` {NINE}"),
    "net": (held("net"), f", `net.` {NINE}"),
    "another attribute": (held("student"), f", `student.` {NINE}"),
    "AveragedModel in a LightningModule": (
        lambda n: Holder("model", AveragedModel(n)).state_dict(),
        f", `model.module.` {NINE}, model.n_averaged left out",
    ),
    "an optimizer beside": (with_optimizer, " from `model`"),
    "Lightning": (lightning, f" from `state_dict`, `model.` {NINE}"),
    "an EMA in a wrapper": (lambda n: {"ema": averaged(n)}, f" from `ema`, `module.` {NINE}, n_averaged left out"),
    "BasicSR": (lambda n: {"params_ema": n.state_dict()}, " from `params_ema`"),
    "wrappers in wrappers": (
        lambda n: {"weights": {"model_state": {"state_dict": data_parallel(n)}}},
        f" from `weights.model_state.state_dict`, `module.` {NINE}",
    ),
    "tensors beside others": (lambda n: {**n.state_dict(), "epoch": 3}, ""),
    "half": (lambda n: deepcopy(n).half().state_dict(), ", 8 half tensors widened"),
    "bfloat16": (lambda n: {"net": deepcopy(n).bfloat16().state_dict()}, " from `net`, 8 bfloat16 tensors widened"),
    "double": (lambda n: deepcopy(n).double().state_dict(), ", 8 double tensors narrowed"),
}


COMPILED = {
    "torch.compile": (compiled, f", `_orig_mod.` {NINE}"),
    "compiled DataParallel": (lambda n: compiled(torch.nn.DataParallel(n)), f", `_orig_mod.module.` {NINE}"),
    "DataParallel of compiled": (lambda n: data_parallel(torch.compile(n)), f", `module._orig_mod.` {NINE}"),
    "part compiled, whole in DataParallel": (compiled_inside, f", `module.` and `_orig_mod.` {NINE}"),
}
"""Importing the compiler takes seconds."""


def saved(content: object, path: Path) -> Path:
    torch.save(content, path)
    return path


def assert_equal(network: torch.nn.Module, expected: torch.nn.Module, tolerance: float = 0.0) -> None:
    expected_state = expected.state_dict()
    for name, tensor in network.state_dict().items():
        torch.testing.assert_close(tensor, expected_state[name], rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("kind", [*PEOPLES, *(pytest.param(kind, marks=pytest.mark.system) for kind in COMPILED)])
def test_a_checkpoint_is_loaded_as_people_have_it_and_it_is_told_what_was_done(tmp_path: Path, kind: str) -> None:
    state_of, expected = {**PEOPLES, **COMPILED}[kind]
    trained, network = net(seed=1), net(seed=2)
    text = checkpoint.load(network, saved(state_of(trained), tmp_path / "net.pt"))
    assert text == (f"the weights were read{expected}" if expected else "")
    assert_equal(network, trained, 0.01 if "tensors" in text else 0.0)
    assert {tensor.dtype for tensor in network.parameters()} == {torch.float32}


def test_safetensors_are_read(tmp_path: Path) -> None:
    trained, network = net(seed=1), net(seed=2)
    state = {name: tensor.contiguous() for name, tensor in data_parallel(deepcopy(trained).half()).items()}
    save_file(state, tmp_path / "model.bin", metadata={"format": "pt"})
    text = checkpoint.load(network, tmp_path / "model.bin")
    assert text == f"the weights were read, `module.` {NINE}, 8 half tensors widened"
    assert_equal(network, trained, 0.01)


@pytest.mark.parametrize(
    ("wrap", "text"),
    [
        (torch.nn.DataParallel, "`module.` of the network put before 9 names"),
        (AveragedModel, "`module.` of the network put before 9 names"),
        (lambda network: Holder("net", Holder("model", network)), "`net.model.` of the network put before 9 names"),
    ],
    ids=["DataParallel", "AveragedModel", "two classes"],
)
@pytest.mark.parametrize("state_of", [lambda n: n.state_dict(), held("_orig_mod")], ids=["bare", "_orig_mod"])
def test_a_network_that_is_wrapped_itself_takes_a_checkpoint_that_is_not(
    tmp_path: Path, wrap: Callable[[torch.nn.Module], torch.nn.Module], text: str, state_of: Callable[[Any], State]
) -> None:
    trained, network = net(seed=1), net(seed=2)
    wrapped = wrap(network)
    message = checkpoint.load(wrapped, saved(state_of(trained), tmp_path / "net.pt"))
    assert_equal(next(module for module in wrapped.modules() if isinstance(module, torch.nn.Sequential)), trained)
    assert message.endswith(text)


def test_names_that_wrappers_use_are_a_networks_own_as_well(tmp_path: Path) -> None:
    """The names as they are come first, and no two names become one."""

    def own(seed: int) -> torch.nn.Module:
        return Holder("model", net(seed=seed), net=net(seed=seed + 1), module=net(seed=seed + 2))

    for number, state_of in enumerate([lambda n: n.state_dict(), data_parallel, held("model"), held("net")]):
        network = own(10)
        checkpoint.load(network, saved(state_of(own(20)), tmp_path / f"{number}.pt"))
        assert_equal(network, own(20))


# several that fit


def two(first: object, second: object) -> dict[str, object]:
    return {"epoch": 1, "model": first, "model_ema": second, "optimizer": {"state": {}, "param_groups": []}}


def test_two_that_fit_are_a_question_that_weights_key_answers(tmp_path: Path) -> None:
    trained, average, network = net(seed=1), net(seed=2), net(seed=3)
    path = saved(two(trained.state_dict(), averaged(average)), tmp_path / "net.pt")
    with pytest.raises(ModelError, match=r"2 sets of weights that fit .* differ: `model`, `model_ema`") as caught:
        checkpoint.load(network, path)
    assert "weights_key:" in caught.value.next_step
    assert checkpoint.load(network, path, "model") == "the weights were read from `model`"
    assert_equal(network, trained)
    text = checkpoint.load(network, path, "model_ema")
    assert text == f"the weights were read from `model_ema`, `module.` {NINE}, n_averaged left out"
    assert_equal(network, average)


def test_a_key_is_a_path_through_mappings_names_or_both_and_keys_may_have_dots(tmp_path: Path) -> None:
    first, second, third, network = (net(seed=seed) for seed in (1, 2, 3, 4))
    flat = {**Holder("net", first).state_dict(), **{f"ema.{name}": value for name, value in averaged(second).items()}}
    path = saved({"a": {"state_dict": flat}, "b.c": {"params": third.state_dict()}}, tmp_path / "net.pt")
    for key, trained in (
        ("a.state_dict.net", first),
        ("a.state_dict.ema", second),
        ("a.state_dict.ema.module", second),
        ("b.c", third),
        ("b.c.params", third),
    ):
        checkpoint.load(network, path, key)
        assert_equal(network, trained)
    with pytest.raises(
        ModelError, match=r"no tensors at weights_key: b\.c\.param; did you mean 'b.c.params'"
    ) as caught:
        checkpoint.load(network, path, "b.c.param")
    assert "b.c.params" in caught.value.next_step


def test_a_dot_is_the_top_level(tmp_path: Path) -> None:
    trained, average, network = net(seed=1), net(seed=2), net(seed=3)
    path = saved({**trained.state_dict(), "ema": average.state_dict()}, tmp_path / "net.pt")
    with pytest.raises(ModelError, match=r"differ: `\.`, `ema`"):
        checkpoint.load(network, path)
    checkpoint.load(network, path, ".")
    assert_equal(network, trained)


def test_equal_weights_in_two_places_are_no_question(tmp_path: Path) -> None:
    trained, network = net(seed=1), net(seed=2)
    path = saved(two(data_parallel(trained), {"state": trained.state_dict()}), tmp_path / "net.pt")
    assert checkpoint.load(network, path) == f"the weights were read from `model`, `module.` {NINE}"


# checkpoints that do not fit


def test_what_does_not_fit_stands_side_by_side_with_the_files_keys_and_the_next_step(tmp_path: Path) -> None:
    state = dict(data_parallel(net(classes=7)))
    state["module.stem.weight"] = state.pop("module.0.weight")
    path = saved({"epoch": 3, "state_dict": state, "args": None}, tmp_path / "net.pt")
    with pytest.raises(ModelError) as caught:
        checkpoint.load(net(), path)
    assert caught.value.message == (
        f"{path} does not fit the model, at `state_dict`: without `module.`, missing: 0.weight; "
        "unexpected: stem.weight; of another shape: head.fc.weight is [7, 3] instead of [4, 3], "
        "head.fc.bias is [7] instead of [4]; at its top the file has epoch, state_dict (9 tensors), args"
    )
    assert "arguments" in caught.value.next_step


@pytest.mark.parametrize("case", ["one name is another's", "a shape differs", "a tensor is missing", "one is beside"])
def test_prefixes_stay_where_not_all_keys_fit_afterwards(tmp_path: Path, case: str) -> None:
    state = dict(data_parallel(net(seed=1)))
    match case:
        case "one name is another's":
            state["0.weight"] = state["module.0.weight"]
        case "a shape differs":
            state["module.0.bias"] = torch.zeros(4)
        case "a tensor is missing":
            del state["module.0.bias"]
        case "one is beside":
            state["module.criterion.weight"] = torch.zeros(4)
    network = net()
    with pytest.raises(ModelError, match="does not fit the model"):
        checkpoint.load(network, saved(state, tmp_path / "net.pt"))
    assert_equal(network, net())


def test_weights_beside_others_in_one_mapping_are_offered_by_their_key(tmp_path: Path) -> None:
    """A LightningModule with the weights of its loss."""
    trained, network = net(seed=1), net(seed=2)
    module = Holder("model", trained, criterion=torch.nn.CrossEntropyLoss(weight=torch.ones(4)))
    path = saved({"state_dict": module.state_dict()}, tmp_path / "net.ckpt")
    with pytest.raises(ModelError, match=r"without `model.`, unexpected: criterion.weight; at its top") as caught:
        checkpoint.load(network, path)
    assert caught.value.next_step == "to take only what fits: weights_key: state_dict.model"
    checkpoint.load(network, path, "state_dict.model")
    assert_equal(network, trained)


def test_a_student_and_its_teacher_in_one_mapping_are_both_offered(tmp_path: Path) -> None:
    trained, network = net(seed=1), net(seed=2)
    module = Holder("model", Holder("student", trained, teacher=AveragedModel(net(seed=3))))
    path = saved(module.state_dict(), tmp_path / "net.pt")
    with pytest.raises(ModelError) as caught:
        checkpoint.load(network, path)
    assert caught.value.next_step == "to take only what fits: weights_key: model.student, model.teacher"
    checkpoint.load(network, path, "model.student")
    assert_equal(network, trained)


class Detector(torch.nn.Module):
    """A YOLO pickles such a network as an object."""


@pytest.mark.parametrize("content", [net(), {"model": net(), "epoch": 1}, {"ema": Detector()}])
def test_a_pickled_module_is_refused(tmp_path: Path, content: object) -> None:
    with pytest.raises(ModelError, match="holds more than tensors") as caught:
        checkpoint.load(net(), saved(content, tmp_path / "whole.pt"))
    assert "state_dict()" in caught.value.next_step
