"""Small real networks as packages that a build can load, with batch norms settled on the images that are used."""

import ctypes
import importlib.util
import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

from sweeps.manifest import Manifest
from sweeps.variant import Variant
from tests.workers.runtimes.exported import Exported, build_all
from workers.models.eager_model import eager_logits, load_eager
from workers.models.model_code import construct
from workers.models.package import BuildInputs, ModelPackage
from workers.runtimes.torchscript import references
from workers.runtimes.torchscript.runtime import TorchScript

NETS = Path(__file__).with_name("nets.py")


def images(count: int, size: int, seed: int) -> np.ndarray:
    """Smooth images (N, 3, size, size), so that neighbouring values tell scrambled channels from right ones."""
    random = torch.Generator().manual_seed(seed)
    coarse = torch.randn((count, 3, 5, 5), generator=random) + torch.randn((count, 3, 1, 1), generator=random)
    return torch.nn.functional.interpolate(coarse, size=(size, size), mode="bicubic").numpy()


def package(source: str, shape: tuple[int, int, int, int], arguments: dict[str, int | float]) -> ModelPackage:
    files = {} if ":" not in source else {f"{source.partition(':')[0]}.py": NETS.read_bytes()}
    bare = ModelPackage(
        name=source.rpartition(":")[2],
        source=source,
        arguments=arguments,
        files=files,
        state=b"",
        weights_id="random:0",
        model_source=source,
        input_shape=shape,
    )
    torch.manual_seed(0)
    model = construct(source, arguments, files)
    model.train()
    with torch.no_grad():
        for norm in (m for m in model.modules() if isinstance(m, torch.nn.BatchNorm2d)):
            norm.momentum = None
            norm.bias.fill_(1.0)  # random networks are chaotic: without it, noise grows by half at every ReLU
        for seed in range(2):
            model(torch.from_numpy(images(16, shape[-1], 100 + seed)))
    state = io.BytesIO()
    torch.save(model.state_dict(), state)
    return replace(bare, state=state.getvalue())


def build_inputs(tiny_package: ModelPackage) -> BuildInputs:
    size = tiny_package.input_shape[-1]
    verification = images(24, size, 2)
    try:
        logits = eager_logits(load_eager(tiny_package), verification, tiny_package.input_shape[0])
    except (AttributeError, ArithmeticError):
        logits = np.zeros((24, 4), np.float32)  # this network is built to fail
    return BuildInputs(
        package=tiny_package,
        calibration=images(32, size, 1),
        calibration_id="c" * 64,
        verification=verification,
        verification_labels=None,
        verification_logits=logits,
        versions=TorchScript().versions(),
    )


def inputs_of(source: str, size: int = 32, batch: int = 1, **arguments: int | float) -> BuildInputs:
    return build_inputs(package(source, (batch, 3, size, size), arguments))


@pytest.fixture(scope="session")
def make_inputs() -> Callable[..., BuildInputs]:
    """`make_inputs(source, size=32, batch=1, **arguments)`: a network with settled weights, and images for it."""
    return inputs_of


@pytest.fixture(scope="session")
def nets() -> ModuleType:
    spec = importlib.util.spec_from_file_location("nets", NETS)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def tiny() -> BuildInputs:
    return inputs_of("nets:Tiny")


@pytest.fixture(scope="session")
def mobilenet() -> BuildInputs:
    return inputs_of("mobilenet_v2", 64, width_mult=0.35, num_classes=10)


@pytest.fixture(scope="session")
def reference() -> ctypes.CDLL:
    """NNAPI's reference library, loaded, so that PyTorch's runtime finds it."""
    return ctypes.CDLL(references.library("nnapi"), ctypes.RTLD_GLOBAL)


@pytest.fixture
def build(tmp_path: Path) -> Callable[[BuildInputs, Variant], tuple[Path, Manifest]]:
    """Build a variant into a new folder: the folder and the manifest."""

    def build(inputs: BuildInputs, variant: Variant) -> tuple[Path, Manifest]:
        out = tmp_path / f"artifact {len(list(tmp_path.iterdir()))}"
        out.mkdir()
        return out, TorchScript().build(variant, "b" * 64, inputs, out)

    return build


@pytest.fixture(scope="session")
def executorch(tiny: BuildInputs, tmp_path_factory: pytest.TempPathFactory) -> Exported:
    return build_all("executorch", tiny, tmp_path_factory.mktemp("executorch"))


@pytest.fixture(scope="session")
def onnxruntime(tiny: BuildInputs, tmp_path_factory: pytest.TempPathFactory) -> Exported:
    return build_all("onnxruntime", tiny, tmp_path_factory.mktemp("onnxruntime"))
