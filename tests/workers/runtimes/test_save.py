"""Saving, and what the saved file says of itself."""

import zipfile
from collections.abc import Callable, Iterator
from copy import copy
from pathlib import Path

import pytest
import torch
from torch.jit import mobile

from sweeps.errors import BuildError
from sweeps.manifest import TensorSpec
from workers.models.eager_model import load_eager
from workers.models.package import BuildInputs
from workers.runtimes.torchscript import archive
from workers.runtimes.torchscript.archive import NoArchive
from workers.runtimes.torchscript.capture import script
from workers.runtimes.torchscript.save import bundle, save
from workers.runtimes.torchscript.torch_state import build_state

FLOAT = TensorSpec(shape=(2, 3, 32, 32), dtype="float32")


@pytest.fixture(autouse=True)
def state() -> Iterator[None]:
    with build_state("qnnpack"):
        yield


@pytest.fixture
def module(tiny: BuildInputs) -> torch.jit.ScriptModule:
    return script(load_eager(tiny.package))


def test_a_pt_holds_source_and_no_bytecode(module: torch.jit.ScriptModule, tmp_path: Path) -> None:
    saved = save(module, tmp_path, "pt")
    assert (saved.file, saved.bytecode_version) == (tmp_path / "model.pt", None)
    assert "aten::conv2d" in saved.operators
    assert list(saved.operators) == sorted(saved.operators)
    assert archive.read(saved.file) == archive.Archive("pt", "cpu", 3, None)
    assert saved.file_version == 3


def test_a_ptl_runs_on_the_lite_interpreter_and_answers_the_same(
    module: torch.jit.ScriptModule, tiny: BuildInputs, tmp_path: Path
) -> None:
    saved = save(module, tmp_path, "ptl")
    assert (saved.file, saved.file_version, saved.bytecode_version) == (tmp_path / "model.ptl", 3, 8)
    images = torch.from_numpy(tiny.verification)
    lite = mobile._load_for_lite_interpreter(str(saved.file))
    torch.testing.assert_close(lite(images), module(images))
    assert set(saved.operators) == mobile._export_operator_list(lite)


def test_operators_of_a_newer_schema_raise_the_file_version(tmp_path: Path) -> None:
    class Divide(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.div(x, 3, rounding_mode="floor")

    # From version 6 on torch keeps the version in another record.
    assert [save(script(Divide()), tmp_path, form).file_version for form in ("pt", "ptl")] == [4, 4]
    assert archive.read(save(script(Gelu()), tmp_path, "pt").file).file_version == 10


class Gelu(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.gelu(x)


def test_what_torch_cannot_write_is_a_build_error(module: torch.jit.ScriptModule, tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="cannot save the model as ptl") as caught:
        save(module, tmp_path / "nowhere", "ptl")
    assert caught.value.kind == "not_savable"


@pytest.mark.parametrize("form", ["pt", "ptl"])
@pytest.mark.parametrize("memory_format", ["contiguous_format", "channels_last"])
def test_bundled_inputs_are_whole_batches_in_the_models_layout(
    module: torch.jit.ScriptModule, tiny: BuildInputs, tmp_path: Path, form: str, memory_format: str
) -> None:
    images = torch.from_numpy(tiny.verification)[:5]
    saved = save(module, tmp_path, "ptl" if form == "ptl" else "pt")
    before = saved.file.read_bytes()
    file = bundle(saved.file, images, tmp_path, FLOAT, memory_format)
    assert file == tmp_path / f"eval.{form}"
    assert archive.read(file).format == form
    assert saved.file.read_bytes() == before
    # Two batches of two, 12 kB an image: the fifth image is left out, and no slice drags all images in.
    assert file.stat().st_size - len(before) < 4 * 12_288 + 20_000
    batches = all_bundled(file)
    assert len(batches) == 2
    for batch, expected in zip(batches, images.split(2), strict=False):
        assert batch.is_contiguous(memory_format=getattr(torch, memory_format))
        torch.testing.assert_close(batch, expected, rtol=0, atol=0)


@pytest.mark.parametrize("form", ["pt", "ptl"])
def test_bundled_inputs_of_a_quantized_interface_are_quantized(tmp_path: Path, form: str) -> None:
    class Quantized(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.dequantize().flatten(1)

    saved = save(script(Quantized()), tmp_path, "ptl" if form == "ptl" else "pt")
    spec = TensorSpec(shape=(1, 3, 8, 8), dtype="quint8", scale=0.25, zero_point=100)
    images = torch.linspace(-1, 1, 2 * 192).reshape(2, 3, 8, 8)
    batches = all_bundled(bundle(saved.file, images, tmp_path, spec, "contiguous_format"))
    assert [(x.dtype, x.q_scale(), x.q_zero_point()) for x in batches] == [(torch.quint8, 0.25, 100)] * 2
    torch.testing.assert_close(torch.cat(batches).dequantize(), (images * 4).round() / 4)


def all_bundled(file: Path) -> list[torch.Tensor]:
    if file.suffix == ".ptl":
        inputs = mobile._load_for_lite_interpreter(str(file)).run_method("get_all_bundled_inputs")
    else:
        inputs = torch.jit.load(str(file)).get_all_bundled_inputs()
    return [x for (x,) in inputs]


def test_less_than_a_batch_to_bundle_is_a_build_error(module: torch.jit.ScriptModule, tmp_path: Path) -> None:
    saved = save(module, tmp_path, "pt")
    with pytest.raises(BuildError, match="1 images are fewer than a batch of 2") as caught:
        bundle(saved.file, torch.zeros(1, 3, 32, 32), tmp_path, FLOAT, "contiguous_format")
    assert caught.value.kind == "not_bundled"


def test_every_cut_of_an_archive_is_none(module: torch.jit.ScriptModule, tmp_path: Path) -> None:
    whole = save(module, tmp_path, "ptl").file.read_bytes()
    cut = tmp_path / "cut.ptl"
    for length in range(0, len(whole), 997):
        cut.write_bytes(whole[:length])
        with pytest.raises(NoArchive):
            archive.read(cut)


def test_damaged_bytes_are_an_archive_or_none_and_nothing_else(module: torch.jit.ScriptModule, tmp_path: Path) -> None:
    whole = save(module, tmp_path, "ptl").file.read_bytes()
    random = torch.Generator().manual_seed(0)
    damaged = tmp_path / "damaged.ptl"
    refused = 0
    for _ in range(300):
        content = bytearray(whole)
        for place in torch.randint(len(whole) // 2, len(whole), (8,), generator=random).tolist():
            content[place] ^= 1 << int(torch.randint(8, (), generator=random))
        damaged.write_bytes(content)
        try:
            archive.read(damaged)
        except NoArchive:
            refused += 1
    assert refused > 30


def zipped(path: Path, records: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archived:
        for name, content in records.items():
            archived.writestr(name, content)
    return path


WHOLE = {"model/data.pkl": b"\x80\x02.", "model/version": b"3\n"}


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ({}, "holds no TorchScript"),
        ({"model/weights.bin": b"x"}, "holds no TorchScript"),
        (WHOLE | {"model/version": b"three\n"}, "invalid literal"),
        (WHOLE | {"model/version": b"9" * 100}, "version is no number"),
        (WHOLE | {"model/bytecode.pkl": b"\x80\x02\x88."}, "bytecode has no version"),
        (WHOLE | {"model/bytecode.pkl": b"\x80\x02X\xff\xff\xff\xff"}, "no whole archive"),
        (WHOLE | {"model/bytecode.pkl": b""}, "no whole archive"),
    ],
)
def test_a_zip_file_that_is_no_model_says_what_is_wrong(
    tmp_path: Path, records: dict[str, bytes], message: str
) -> None:
    with pytest.raises(NoArchive, match=message):
        archive.read(zipped(tmp_path / "model.pt", records))


def test_sources_that_would_fill_the_memory_are_refused_unread(tmp_path: Path) -> None:
    bomb = tmp_path / "model.pt"
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archived:
        for name, content in WHOLE.items():
            archived.writestr(name, content)
        with archived.open("model/code/__torch__.py", "w") as source:
            for _ in range(520):
                source.write(bytes(2**20))
    assert bomb.stat().st_size < 2_000_000
    with pytest.raises(NoArchive, match="its sources would fill 520 MB"):
        archive.read(bomb)


def test_records_that_share_their_bytes_are_refused(tmp_path: Path) -> None:
    path = zipped(tmp_path / "model.pt", WHOLE | {"model/data/0": bytes(4000)})
    with zipfile.ZipFile(path, "a") as archived:
        first = archived.getinfo("model/data/0")
        for number in range(2, 20):
            copied_record = copy(first)
            copied_record.filename = copied_record.orig_filename = f"model/data/{number}"
            archived.filelist.append(copied_record)
        archived._didModify = True
    with pytest.raises(NoArchive, match="overlap"):
        archive.read(path)


def test_an_artifact_tells_its_backend(make_inputs: Callable[..., BuildInputs], tmp_path: Path) -> None:
    from torch.backends._nnapi.prepare import convert_model_to_nnapi

    image = torch.zeros(1, 3, 8, 8)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU()).eval()
    converted = convert_model_to_nnapi(torch.jit.trace(model, image), image)
    for form in ("pt", "ptl"):
        saved = save(script(torch.nn.Sequential(converted)), tmp_path, "ptl" if form == "ptl" else "pt")
        assert archive.read(saved.file).backend == "nnapi"
