import hashlib
import pickle
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import torchvision

from sweeps.errors import DataError, ModelError
from sweeps.spec.model_inputs import DataSpec, DigitsData, ModelSpec, SyntheticData, TorchvisionData
from sweeps.workspace import Workspace
from tests.demo_weights import DEMO, demo_weights
from workers.models import weights
from workers.models.eager_model import eager_logits, load_eager
from workers.models.identity import identify
from workers.models.image_sets import load
from workers.models.making import package
from workers.models.prepare import prepare

ROOT = Path(__file__).parents[3]
SYNTHETIC = DataSpec(
    calibration=SyntheticData(source="synthetic", images=4), evaluation=SyntheticData(source="synthetic", images=6)
)
SMALL = (1, 3, 64, 64)

NET = """
import torch
from layers.blocks import Block
import constants

class Net(torch.nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.block = Block(constants.WIDTH)
        self.head = torch.nn.Linear(constants.WIDTH, classes)

    def forward(self, x):
        return self.head(self.block(x).mean((2, 3)))

def net(classes=10):
    return Net(classes)

def number():
    return 5

def broken():
    raise RuntimeError("no such layer")
"""
BLOCKS = """
import torch
from .activations import act

class Block(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, width, 3)
        self.norm = torch.nn.BatchNorm2d(width)

    def forward(self, x):
        return act(self.norm(self.conv(x)))
"""
ACTIVATIONS = """
import torch

def act(x):
    return torch.relu(x)
"""

PREPARE = """
from pathlib import Path
from sweeps.spec.model_inputs import DataSpec, ModelSpec, SyntheticData
from sweeps.workspace import Workspace
from workers.models.prepare import prepare

images = SyntheticData(source="synthetic", images=4)
model = ModelSpec(source="squeezenet1_1", weights="random", input_shape=(1, 3, 64, 64))
data = DataSpec(calibration=images, evaluation=images)
prepare(model, data, Workspace.open(Path("workspace")), {}, lambda what, share: None)
"""


def silent(step: str, share: float | None) -> None:
    assert share is None or 0.0 <= share <= 1.0


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace.open(tmp_path / "workspace")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A user's folder with a model, a package without __init__.py beside it, and a file that the model does not use."""
    root = tmp_path / 'it\'s "my" project'
    (root / "layers").mkdir(parents=True)
    (root / "nets.py").write_text(NET)
    (root / "constants.py").write_text("WIDTH = 8\n")
    (root / "layers" / "blocks.py").write_text(BLOCKS)
    (root / "layers" / "activations.py").write_text(ACTIVATIONS)
    (root / "train.py").write_text("raise SystemExit('never imported')\n")
    return root


def own(function: str = "net", **more: object) -> ModelSpec:
    options: dict[str, object] = {"weights": "random", "input_shape": (1, 3, 16, 16), **more}
    return ModelSpec(source=f"nets:{function}", **options)


# identity


def test_an_identity_needs_no_torch_and_runs_no_code_of_the_user(project: Path) -> None:
    (project / "nets.py").write_text(NET + "\nraise SystemExit('was run')\n")
    program = (
        "import sys; from pathlib import Path; from sweeps.spec.model_inputs import ModelSpec;"
        "from workers.models.identity import identify;"
        "m = identify(ModelSpec(source='nets:net', weights='random', seed=3), [Path(sys.argv[1])]);"
        "assert not {'torch', 'nets'} & set(sys.modules); print(m.source, m.weights_id)"
    )
    argv = [sys.executable, "-c", program, str(project)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, check=True, text=True)
    source, weights = done.stdout.split()
    assert source == identify(own(), [project]).source
    assert weights == "random:3"


@pytest.mark.parametrize("changed", ["nets.py", "constants.py", "layers/blocks.py", "layers/activations.py"])
def test_every_file_that_the_model_imports_is_in_its_identity(project: Path, changed: str) -> None:
    before = identify(own(), [project]).source
    (project / changed).write_text((project / changed).read_text() + "\n# changed\n")
    assert identify(own(), [project]).source != before


def test_files_that_the_model_does_not_import_are_not_in_its_identity(project: Path) -> None:
    before = identify(own(), [project]).source
    (project / "train.py").write_text("print('changed')\n")
    assert identify(own(), [project]).source == before


def test_a_torchvision_model_is_known_by_its_name() -> None:
    assert identify(ModelSpec(source="mobilenet_v2", weights="random")).source == "torchvision:mobilenet_v2"


def test_pretrained_weights_are_known_by_torchvisions_newest_name() -> None:
    identity = identify(ModelSpec(source="mobilenet_v2", weights="pretrained"))
    assert identity.weights_id == "MobileNet_V2_Weights.IMAGENET1K_V2"


def test_a_checkpoint_is_known_by_its_bytes(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("a.pt", "b.pt", "c.pt")]
    for path, content in zip(paths, (b"one", b"one", b"two"), strict=True):
        path.write_bytes(content)
    ids = [identify(ModelSpec(source="resnet18", weights=str(path))).weights_id for path in paths]
    assert ids[0] == ids[1] != ids[2]
    assert ids[0] == hashlib.sha256(b"one").hexdigest()
    keyed = [ModelSpec(source="resnet18", weights=str(paths[0]), weights_key=key) for key in ("model", "model_ema")]
    assert len({ids[0], *(identify(model).weights_id for model in keyed)}) == 3


def test_demo_weights_depend_on_the_seed() -> None:
    first, second = (identify(ModelSpec(source="mobilenet_v2", weights="demo", seed=seed)) for seed in (0, 1))
    assert first.weights_id.startswith("demo:")
    assert first.weights_id != second.weights_id


def test_a_missing_module_is_named_with_where_it_was_looked_for(project: Path) -> None:
    with pytest.raises(ModelError, match=r"no module missing(.|\n)*my.* project"):
        identify(ModelSpec(source="missing:net", weights="random"), [project])


def test_a_syntax_error_is_shown_with_file_and_line(project: Path) -> None:
    (project / "layers" / "blocks.py").write_text("x = 1\nx = = 2\n")
    with pytest.raises(ModelError, match=r"blocks\.py:2 is not valid Python"):
        identify(own(), [project])


# own modules


def test_an_own_model_is_loaded_elsewhere_from_its_package_alone(project: Path, workspace: Workspace) -> None:
    packed = package(own(arguments={"classes": 7}), workspace, silent, [project])
    assert set(packed.files) == {"nets.py", "constants.py", "layers/blocks.py", "layers/activations.py"}
    images = np.random.default_rng(0).normal(size=(3, 3, 16, 16)).astype(np.float32)
    expected = eager_logits(load_eager(packed), images)
    assert expected.shape == (3, 7)
    program = (
        "import pickle, sys, numpy as np, torch; from workers.models.eager_model import load_eager, eager_logits;"
        "packed, images = pickle.load(sys.stdin.buffer); module = load_eager(packed);"
        "torch.jit.script(module); sys.stdout.buffer.write(eager_logits(module, images).tobytes())"
    )
    for path in project.rglob("*.py"):
        path.unlink()
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        input=pickle.dumps((packed, images)),
        capture_output=True,
        check=True,
    )
    np.testing.assert_allclose(np.frombuffer(done.stdout, np.float32).reshape(3, 7), expected, rtol=1e-5, atol=1e-6)


def test_two_models_from_files_of_one_name_do_not_mix(project: Path, tmp_path: Path, workspace: Workspace) -> None:
    other = tmp_path / "other"
    (other / "layers").mkdir(parents=True)
    for path in project.rglob("*.py"):
        (other / path.relative_to(project)).write_text(path.read_text())
    (other / "constants.py").write_text("WIDTH = 5\n")
    first = package(own(), workspace, silent, [project])
    second = package(own(), workspace, silent, [other])
    widths = [load_eager(packed).get_parameter("head.weight").shape[1] for packed in (first, second, first)]
    assert widths == [8, 5, 8]
    path = list(sys.path)
    torch.jit.script(load_eager(second))
    assert sys.path == path


def test_an_eager_model_is_in_eval_mode_and_without_gradients(workspace: Workspace) -> None:
    module = load_eager(package(small("mobilenet_v2"), workspace, silent))
    assert not module.training
    assert not any(parameter.requires_grad for parameter in module.parameters())


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("broken", r"nets:broken failed at nets\.py:\d+ with RuntimeError: no such layer"),
        ("number", "returned int, not a torch.nn.Module"),
        ("nett", r"no function nett(.|\n)*did you mean net\?"),
    ],
)
def test_a_function_that_makes_no_model_is_named(
    project: Path, workspace: Workspace, function: str, message: str
) -> None:
    with pytest.raises(ModelError, match=message):
        package(own(function), workspace, silent, [project])


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("(x, x)", "tuple instead of a tensor"),
        ("x", r"shape \[1, 3, 16, 16\] instead of"),
        ("x.flatten(1)[:, :1]", r"shape \[1, 1\] instead of"),
        ("x.flatten(1).argsort(1)", "torch.int64 instead of float"),
        ("x.flatten(1) / 0", "NaN or infinity"),
        ("torch.ones(1, 4)", "same output"),
        ("x.reshape(1, 7, -1)", r"cannot take an input of \[1, 3, 16, 16\]"),
    ],
)
def test_a_model_that_is_no_classifier_is_told_what_it_answered(
    project: Path, workspace: Workspace, answer: str, message: str
) -> None:
    (project / "nets.py").write_text(
        "import torch\nclass Net(torch.nn.Module):\n    def forward(self, x):\n"
        f"        return {answer}\ndef net():\n    return Net()\n"
    )
    with pytest.raises(ModelError, match=message):
        package(own(), workspace, silent, [project])


# checkpoints


def small(name: str, **more: object) -> ModelSpec:
    options: dict[str, object] = {"weights": "random", "input_shape": SMALL, **more}
    return ModelSpec(source=name, **options)


class Payload:
    """Unpickling it would create a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("modern", [True, False])
@pytest.mark.fault(41, "a pickle that runs a command, in several formats", "refused, never run")
def test_a_payload_in_a_checkpoint_is_refused_and_never_runs(
    tmp_path: Path, workspace: Workspace, modern: bool
) -> None:
    trap, path = tmp_path / "was run", tmp_path / "hostile.pt"
    torch.save({"state_dict": Payload(trap)}, path, _use_new_zipfile_serialization=modern)
    with pytest.raises(ModelError, match="holds more than tensors"):
        package(small("mobilenet_v2", weights=str(path)), workspace, silent)
    assert not trap.exists()


def test_a_whole_pickled_model_is_refused_with_what_to_save(tmp_path: Path, workspace: Workspace) -> None:
    path = tmp_path / "whole.pt"
    torch.save(torchvision.models.squeezenet1_1(), path)
    with pytest.raises(ModelError, match=r"squeezenet\.SqueezeNet(.|\n)*state_dict\(\)"):
        package(small("squeezenet1_1", weights=str(path)), workspace, silent)


def test_a_torchscript_archive_is_no_checkpoint(tmp_path: Path, workspace: Workspace) -> None:
    path = tmp_path / "script.pt"
    torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), path)
    with pytest.raises(ModelError, match="is a TorchScript archive"):
        package(small("squeezenet1_1", weights=str(path)), workspace, silent)


@pytest.mark.parametrize("modern", [True, False])
def test_a_truncated_checkpoint_is_called_damaged(tmp_path: Path, workspace: Workspace, modern: bool) -> None:
    path = tmp_path / "cut.pt"
    torch.save(torchvision.models.squeezenet1_1().state_dict(), path, _use_new_zipfile_serialization=modern)
    for length in (0, 100, 3000, path.stat().st_size - 50):
        path.write_bytes(path.read_bytes()[:length] or b"")
        with pytest.raises(ModelError, match="is damaged"):
            package(small("squeezenet1_1", weights=str(path)), workspace, silent)
        torch.save(torchvision.models.squeezenet1_1().state_dict(), path, _use_new_zipfile_serialization=modern)


@pytest.mark.parametrize("content", ["a text", [1, 2], {}, {"epoch": 3}])
def test_a_file_without_tensors_is_no_state_dict(tmp_path: Path, workspace: Workspace, content: object) -> None:
    path = tmp_path / "other.pt"
    torch.save(content, path)
    with pytest.raises(ModelError, match="holds no state_dict"):
        package(small("squeezenet1_1", weights=str(path)), workspace, silent)


@pytest.mark.parametrize(
    ("convert", "message"),
    [
        (lambda t: torch.quantize_per_tensor(t, 0.1, 0, torch.qint8), r"is quantized(.|\n)*give the fp32 weights"),
        (lambda t: t.to_sparse(), r"is sparse \(torch\.sparse_coo\)"),
        (lambda t: t.flatten(1).to_sparse_csr(), r"is sparse \(torch\.sparse_csr\)"),
        (lambda t: t.to("meta"), r"is a meta tensor"),
        (lambda t: t.to(torch.complex64), r"is complex \(torch\.complex64\)"),
    ],
    ids=["quantized", "sparse_coo", "sparse_csr", "meta", "complex"],
)
@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta", "ignore:.*quantiz.*:DeprecationWarning")
def test_a_tensor_that_is_not_dense_and_real_is_named(
    tmp_path: Path, workspace: Workspace, convert: Callable[[torch.Tensor], torch.Tensor], message: str
) -> None:
    state = torchvision.models.squeezenet1_1().state_dict()
    state["features.0.weight"] = convert(state["features.0.weight"])
    path = tmp_path / "odd.pt"
    torch.save(state, path)
    with pytest.raises(ModelError, match=r"features\.0\.weight in .*odd\.pt " + message):
        package(small("squeezenet1_1", weights=str(path)), workspace, silent)


def test_a_loading_hook_that_fails_is_a_model_error() -> None:
    module = torch.nn.Linear(2, 2)

    def refuse(*arguments: object) -> None:
        raise KeyError("an older layout")

    module.register_load_state_dict_pre_hook(refuse)
    with pytest.raises(ModelError, match=r"w\.pt cannot be loaded into the model: KeyError"):
        weights.fit(module, torch.nn.Linear(2, 2).state_dict(), "w.pt")


def test_a_checkpoint_that_does_not_fit_is_told_where(tmp_path: Path, workspace: Workspace) -> None:
    state = torchvision.models.squeezenet1_1(num_classes=7).state_dict()
    del state["features.0.bias"]
    state["extra.weight"] = torch.zeros(2)
    path = tmp_path / "other.pt"
    torch.save(state, path)
    with pytest.raises(ModelError) as caught:
        package(small("squeezenet1_1", weights=str(path)), workspace, silent)
    assert "missing: features.0.bias" in caught.value.message
    assert "unexpected: extra.weight" in caught.value.message
    assert "classifier.1.weight is [7, 512, 1, 1] instead of [1000, 512, 1, 1] and 1 more" not in caught.value.message
    assert "classifier.1.weight is [7, 512, 1, 1] instead of [1000, 512, 1, 1]" in caught.value.message
    assert "arguments" in caught.value.next_step


@pytest.mark.parametrize("wrapper", [None, "state_dict", "model"])
def test_training_scripts_wrappers_and_prefixes_are_understood_and_told(
    tmp_path: Path, workspace: Workspace, wrapper: str | None
) -> None:
    trained = torchvision.models.squeezenet1_1(num_classes=7).eval()
    state = {f"module.{name}": tensor for name, tensor in trained.state_dict().items()}
    path = tmp_path / "checkpoint.pt"
    torch.save(state if wrapper is None else {wrapper: state, "epoch": 3}, path)
    spec = small("squeezenet1_1", weights=str(path), arguments={"num_classes": 7})
    images = np.random.default_rng(0).normal(size=(2, 3, 64, 64)).astype(np.float32)
    with torch.no_grad():
        expected = trained(torch.from_numpy(images)).numpy()
    inputs = prepare(spec, SYNTHETIC, workspace, {}, silent).build_inputs
    np.testing.assert_allclose(eager_logits(load_eager(inputs.package), images), expected, rtol=1e-4, atol=1e-5)
    place = f" from `{wrapper}`" if wrapper else ""
    assert inputs.package.weights_text == f"the weights were read{place}, `module.` taken off 52 names"


def test_a_checkpoint_full_of_nan_is_refused(tmp_path: Path, workspace: Workspace) -> None:
    state = {name: torch.full_like(t, torch.nan) for name, t in torchvision.models.squeezenet1_1().state_dict().items()}
    torch.save(state, tmp_path / "nan.pt")
    with pytest.raises(ModelError, match="NaN or infinity"):
        package(small("squeezenet1_1", weights=str(tmp_path / "nan.pt")), workspace, silent)


def test_a_googlenet_checkpoint_with_training_heads_is_taken_without_them(tmp_path: Path, workspace: Workspace) -> None:
    trained = torchvision.models.googlenet(num_classes=5, aux_logits=True, init_weights=False)
    torch.save(trained.state_dict(), tmp_path / "googlenet.pt")
    spec = small("googlenet", weights=str(tmp_path / "googlenet.pt"), arguments={"num_classes": 5})
    packed = package(spec, workspace, silent)
    assert eager_logits(load_eager(packed), np.zeros((1, 3, 64, 64), np.float32)).shape == (1, 5)


def test_pretrained_weights_without_a_network_say_so(
    tmp_path: Path, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nothing listens there: as good as no network on every machine.
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "cache"))
    with pytest.raises(ModelError, match="no network") as caught:
        package(small("squeezenet1_1", weights="pretrained"), workspace, silent)
    assert caught.value.next_step == "give weights: path, or weights: random"


# random weights


def test_an_unknown_model_is_answered_with_the_ones_that_come_close(workspace: Workspace) -> None:
    with pytest.raises(ModelError, match=r"did you mean mobilenet_v2"):
        package(small("mobilenetv2"), workspace, silent)
    with pytest.raises(ModelError, match=r"did you mean mobilenet_v2"):
        identify(small("mobilenetv2", weights="pretrained"))


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("mobilenet_v2", {}),
        pytest.param("vit_b_16", {"image_size": 64}, marks=pytest.mark.system),  # 86 million weights
        ("googlenet", {}),
    ],
)
def test_settled_weights_answer_different_images_differently(
    workspace: Workspace, name: str, arguments: dict[str, int]
) -> None:
    fresh = torchvision.models.get_model(
        name, **({"init_weights": False, "aux_logits": False} if name == "googlenet" else {}), **arguments
    ).eval()
    images = load(SYNTHETIC, SMALL)[1].images
    unsettled = eager_logits(fresh, images)
    settled = prepare(small(name, arguments=arguments), SYNTHETIC, workspace, {}, silent).evaluation_logits
    variation = np.abs(settled - settled.mean(0)).max() / np.abs(settled).max()
    assert np.abs(settled).max() > 0.1
    assert variation > 0.1
    assert len(set(settled.argmax(1))) > 1
    scale = np.abs(unsettled).max()
    assert scale < 1e-6 or np.abs(unsettled - unsettled.mean(0)).max() < variation * scale


def test_random_weights_are_the_same_for_a_seed_in_every_workspace(tmp_path: Path) -> None:
    def state(folder: str, seed: int) -> bytes:
        workspace = Workspace.open(tmp_path / folder)
        return (
            load_eager(package(small("mnasnet0_5", seed=seed), workspace, silent))
            .get_buffer("layers.1.running_var")
            .numpy()
            .tobytes()
        )

    assert state("a", 0) == state("b", 0) != state("c", 1)


def test_making_a_model_leaves_the_process_random_state_alone(workspace: Workspace) -> None:
    before = torch.random.get_rng_state()
    package(small("squeezenet1_1"), workspace, silent)
    assert torch.equal(before, torch.random.get_rng_state())


def test_damaged_weights_in_the_workspace_are_made_anew(workspace: Workspace) -> None:
    whole = package(small("mobilenet_v3_small"), workspace, silent)
    (path,) = workspace.weights.glob("*.pt")
    path.write_bytes(path.read_bytes()[:1000])
    remade = package(small("mobilenet_v3_small"), workspace, silent)
    images = np.ones((1, 3, 64, 64), np.float32)
    assert np.array_equal(eager_logits(load_eager(whole), images), eager_logits(load_eager(remade), images))


# the reference


def test_reference_answers_are_computed_once_per_workspace(workspace: Workspace) -> None:
    spec = small("squeezenet1_1")
    first = prepare(spec, SYNTHETIC, workspace, {"torch": "x"}, silent)
    (path,) = workspace.references.glob("*.npy")
    np.save(path, first.evaluation_logits + 1.0)
    second = prepare(spec, SYNTHETIC, workspace, {}, silent)
    assert np.array_equal(second.evaluation_logits, first.evaluation_logits + 1.0)
    path.write_bytes(b"damaged")
    assert np.array_equal(prepare(spec, SYNTHETIC, workspace, {}, silent).evaluation_logits, first.evaluation_logits)


@pytest.mark.system
def test_another_way_to_settle_random_weights_has_reference_answers_of_its_own(tmp_path: Path) -> None:
    for folder in ("sweeps", "workers"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "program.py").write_text(PREPARE)

    def answers() -> set[str]:
        subprocess.run([sys.executable, "program.py"], cwd=tmp_path, check=True, capture_output=True)
        return {path.name for path in (tmp_path / "workspace").rglob("*.npy")}

    first = answers()
    assert len(first) == 1
    with (tmp_path / "workers" / "models" / "weights.py").open("a") as file:
        file.write("# another version\n")
    assert len(answers()) == 2


def test_replaced_files_of_a_download_are_answered_anew(project: Path, workspace: Workspace, tmp_path: Path) -> None:
    raw = tmp_path / "MNIST" / "raw"
    raw.mkdir(parents=True)
    data = DataSpec(
        calibration=SyntheticData(source="synthetic", images=4),
        evaluation=TorchvisionData(source="torchvision", dataset="MNIST", root=tmp_path),
    )
    answers, ids = [], []
    for seed in (0, 1, 0):
        pixels = np.random.default_rng(seed).integers(0, 256, (4, 28, 28), np.uint8)
        for split in ("train", "t10k"):
            (raw / f"{split}-images-idx3-ubyte").write_bytes(struct.pack(">IIII", 0x803, 4, 28, 28) + pixels.tobytes())
            (raw / f"{split}-labels-idx1-ubyte").write_bytes(struct.pack(">II", 0x801, 4) + bytes(range(4)))
        prepared = prepare(own(), data, workspace, {}, silent, [project])
        answers.append(prepared.evaluation_logits)
        ids.append(prepared.evaluation_manifest.id)
    assert np.array_equal(answers[0], answers[2])
    assert not np.array_equal(answers[0], answers[1])
    assert ids[0] == ids[2] != ids[1]
    assert len(list(workspace.references.glob("*.npy"))) == 2


def test_other_arguments_have_weights_and_reference_answers_of_their_own(workspace: Workspace) -> None:
    for classes in (7, 9):
        spec = small("squeezenet1_1", arguments={"num_classes": classes})
        assert prepare(spec, SYNTHETIC, workspace, {}, silent).evaluation_logits.shape == (6, classes)
    assert len(list(workspace.weights.glob("*.pt"))) == 2
    assert len(list(workspace.references.glob("*.npy"))) == 2


def test_labels_that_the_model_has_no_class_for_are_refused(workspace: Workspace) -> None:
    spec = small("squeezenet1_1", arguments={"num_classes": 9})
    data = DataSpec(evaluation=DigitsData(source="digits", images=40))
    with pytest.raises(DataError, match="has the class 9, squeezenet1_1 has only 9 classes"):
        prepare(spec, data, workspace, {}, silent)


def test_builds_are_verified_on_the_first_evaluation_images(workspace: Workspace) -> None:
    spec = small("squeezenet1_1", arguments={"num_classes": 10})
    prepared = prepare(
        spec, DataSpec(evaluation=DigitsData(source="digits", images=300)), workspace, {"a": "1"}, silent
    )
    inputs = prepared.build_inputs
    assert len(inputs.verification) == 256
    assert inputs.verification_labels is not None
    assert np.array_equal(inputs.verification_logits, prepared.evaluation_logits[:256])
    assert len(inputs.calibration) == 100
    assert inputs.versions == {"a": "1"}
    unlabelled = DataSpec(evaluation=SyntheticData(source="synthetic", images=20))
    assert len(prepare(spec, unlabelled, workspace, {}, silent).build_inputs.verification) == 8


def test_a_batch_that_is_not_full_is_answered_like_the_others(workspace: Workspace) -> None:
    module = load_eager(package(small("squeezenet1_1"), workspace, silent))
    images = np.random.default_rng(0).normal(size=(5, 3, 64, 64)).astype(np.float32)
    np.testing.assert_allclose(eager_logits(module, images, 2), eager_logits(module, images, 5), rtol=1e-3, atol=1e-4)


# the demo


@pytest.mark.system
def test_the_demo_trains_to_95_percent_once_and_shows_how_far_it_is(workspace: Workspace) -> None:
    first = demo_weights(workspace.root)
    assert first.shares == sorted(first.shares)
    assert first.shares[-1] == 1.0
    notes: list[str] = []
    second = prepare(DEMO.models[0], DataSpec(), workspace, {}, lambda what, _: notes.append(what))
    assert not any("training" in note for note in notes)
    assert second.build_inputs.package.state == first.state
    assert second.evaluation.labels is not None
    assert (second.evaluation_logits.argmax(1) == second.evaluation.labels).mean() >= 0.95
    assert len(second.evaluation) == 597


def test_the_demo_refuses_a_model_without_ten_classes_before_training(workspace: Workspace) -> None:
    with pytest.raises(ModelError, match="has 1000 classes"):
        package(small("mobilenet_v2", weights="demo"), workspace, silent)
    assert not list(workspace.root.rglob("*.pt"))
