"""The runner's files: both interpreters, inputs that a file carries, interfaces, and files that are wrong."""

import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from sweeps.manifest import TensorSpec
from tests.workers.runtimes.forked_runs import refusal, refused, run
from tests.workers.runtimes.runs import RUNNER, answers, evaluating, request_of
from tests.workers.runtimes.scripted_modules import Expects, Pair
from workers.models.eager_model import load_eager
from workers.runtimes.interface import BuildInputs
from workers.runtimes.torchscript.capture import script
from workers.runtimes.torchscript.runner_report import parse
from workers.runtimes.torchscript.save import Format, bundle, save
from workers.runtimes.torchscript.torch_state import build_state

FORMATS: tuple[Format, ...] = ("pt", "ptl")


@pytest.fixture(autouse=True)
def state() -> Iterator[None]:
    with build_state("qnnpack"):
        yield


@pytest.mark.parametrize("form", FORMATS)
def test_either_interpreter_times_and_answers_as_the_eager_model(
    tiny: BuildInputs, tmp_path: Path, form: Format
) -> None:
    saved = save(script(load_eager(tiny.package)), tmp_path, form)
    request = request_of(saved.file, 1, 3, 32, 32)
    timed = run(replace(request, warmup_iterations=2, iterations=3, threads=2))
    assert (len(timed.warmup_ns), len(timed.samples_ns), timed.threads_ran) == (2, 3, 2)
    assert (timed.backend_ran, timed.reference) == ("cpu", False)
    report = run(replace(request, **evaluating(tmp_path, torch.from_numpy(tiny.verification))))
    expected = torch.from_numpy(tiny.verification_logits)
    torch.testing.assert_close(torch.from_numpy(answers(tmp_path, report)), expected, atol=1e-4, rtol=1e-4)


class Full(torch.nn.Module):
    """Quantized in, quantized out."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.quantize_per_tensor(x.dequantize().flatten(1) + 0.1, 0.5, 20, torch.quint8)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("memory_format", ["contiguous_format", "channels_last"])
def test_a_quantized_interface_is_quantized_and_dequantized_outside(
    tmp_path: Path, form: Format, memory_format: str
) -> None:
    saved = save(script(Full()), tmp_path, form)
    request = replace(
        request_of(saved.file, 2, 3, 4, 4),
        input_dtype="quint8",
        input_scale=0.25,
        input_zero_point=128,
        memory_format=memory_format,
    )
    images = torch.linspace(-2, 2, 4 * 48).reshape(4, 3, 4, 4)
    report = run(replace(request, **evaluating(tmp_path, images)))
    expected = (((images * 4).round() / 4).flatten(1) + 0.1).mul(2).round() / 2
    torch.testing.assert_close(torch.from_numpy(answers(tmp_path, report)), expected)
    for reuse in (True, False):
        assert len(run(replace(request, iterations=3, reuse_input=reuse)).samples_ns) == 3


@pytest.mark.parametrize("form", FORMATS)
def test_an_input_that_the_file_carries_is_given_as_it_lies_there(tmp_path: Path, form: Format) -> None:
    saved = save(script(Expects()), tmp_path, form)
    spec = TensorSpec(shape=(1, 3, 4, 4), dtype="float32")
    images = torch.arange(2.0).reshape(2, 1, 1, 1).expand(2, 3, 4, 4) * 17 - 10
    file = bundle(saved.file, images, tmp_path, spec, "channels_last")
    timing = (*RUNNER, "--model", str(file), "--iter", "3", "--use-bundled-input")
    error = refusal((*timing, "1"))
    assert error.kind == "run_failed"
    assert "given 7" in error.message
    assert "True" in error.message
    assert len(parse(subprocess.run((*timing, "0"), capture_output=True, check=True).stdout).samples_ns) == 3
    assert refusal((*timing, "2")).message == "the model carries 2 inputs, counted from 0, and none is 2"
    plain = refusal((*RUNNER, "--model", str(saved.file), "--use-bundled-input", "0"))
    assert plain.kind == "no_bundled_input"


@pytest.mark.parametrize("form", FORMATS)
def test_logits_that_are_no_numbers_are_written_as_they_are(tmp_path: Path, form: Format) -> None:
    class Lost(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x / 0.0).flatten(1)

    saved = save(script(Lost()), tmp_path, form)
    images = torch.tensor([0.0, 1.0]).repeat(6).reshape(1, 3, 2, 2)
    report = run(replace(request_of(saved.file, 1, 3, 2, 2), **evaluating(tmp_path, images)))
    logits = torch.from_numpy(answers(tmp_path, report))
    assert bool(logits[0, ::2].isnan().all())
    assert bool(logits[0, 1::2].isinf().all())


class Words(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"logits": x.flatten(1)}


class Nothing(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor | None:
        return None if bool(x.sum() < 1e9) else x


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(("module", "answered"), [(Words(), "dict"), (Pair(), "tuple"), (Nothing(), "NoneType")])
def test_an_answer_that_is_no_tensor_is_told(
    tmp_path: Path, form: Format, module: torch.nn.Module, answered: str
) -> None:
    saved = save(script(module), tmp_path, form)
    images = torch.zeros(1, 3, 2, 2)
    error = refused(replace(request_of(saved.file, 1, 3, 2, 2), **evaluating(tmp_path, images)))
    assert (error.kind, error.message) == (
        "bad_output",
        f"the model answers a {answered}, not one tensor (batch, classes)",
    )


def test_a_file_under_the_other_formats_name_is_told(tmp_path: Path) -> None:
    pt, ptl = (save(script(Full()), tmp_path, form).file for form in FORMATS)
    (tmp_path / "other.pt").write_bytes(ptl.read_bytes())
    (tmp_path / "other.ptl").write_bytes(pt.read_bytes())
    errors = [refused(request_of(tmp_path / name, 1, 3, 2, 2)) for name in ("other.pt", "other.ptl")]
    assert [(error.kind, error.message) for error in errors] == [
        ("wrong_format", "other.pt holds bytecode for the lite interpreter: it is a ptl file under another name"),
        ("wrong_format", "other.ptl holds no bytecode for the lite interpreter: it is a pt file under another name"),
    ]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Format], bytes]:
    folder = tmp_path_factory.mktemp("whole")
    with build_state("none"):
        files = {form: save(script(torch.nn.Linear(4, 3)), folder, form).file.read_bytes() for form in FORMATS}
    return files.__getitem__


LOADER = """
import sys
from workers.runtimes.torchscript.runner.events import GiveUp
from workers.runtimes.torchscript.runner.load import inspect, load
for path in sys.argv[1:]:
    try:
        load(path, inspect(path, "cpu"))
        print("loaded")
    except GiveUp as given:
        print(given.kind, given.message.replace("\\n", " "))
"""


def loads(*files: Path) -> list[str]:
    """List how loading each file ends, in one process that outlives them all."""
    ended = subprocess.run([sys.executable, "-c", LOADER, *map(str, files)], capture_output=True, text=True, check=True)
    return ended.stdout.splitlines()


@pytest.mark.parametrize("form", FORMATS)
def test_truncated_files_are_told(tmp_path: Path, whole: Callable[[Format], bytes], form: Format) -> None:
    files = [tmp_path / f"{number}.{form}" for number in range(40)]
    for number, file in enumerate(files):
        file.write_bytes(whole(form)[: len(whole(form)) * number // len(files)])
    lines = loads(*files)
    assert len(lines) == len(files)
    assert all(f"load_failed {file.name} is no whole archive" in line for file, line in zip(files, lines, strict=True))


def records(content: bytes, folder: Path) -> dict[str, bytes]:
    path = folder / "read.zip"
    path.write_bytes(content)
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist() if "debug_pkl" not in name}


def written(path: Path, content: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, record in content.items():
            archive.writestr(name, record)
    return path


@pytest.mark.parametrize("form", FORMATS)
def test_lost_and_damaged_records_are_told(tmp_path: Path, whole: Callable[[Format], bytes], form: Format) -> None:
    sound = records(whole(form), tmp_path)
    needed = ["data.pkl", "data/0", ".py"] if form == "pt" else ["data.pkl", "data/0", "bytecode.pkl"]
    files = [written(tmp_path / f"sound.{form}", sound)]
    for number, name in enumerate(f"model/{end}" for end in needed):
        name = next(record for record in sound if record.endswith(name.partition("/")[2]))
        if not name.endswith("bytecode.pkl"):  # without it, it is a pt file under another name
            files.append(written(tmp_path / f"lost{number}.{form}", {k: v for k, v in sound.items() if k != name}))
        for damage in (b"", b"\x80\x02garbage", b"\x00" * 64, b"(" * 5000):
            if not name.endswith("data/0"):
                files.append(written(tmp_path / f"damaged{len(files)}.{form}", sound | {name: damage}))
    lines = loads(*files)
    assert lines[0] == "loaded"
    assert len(lines) == len(files)
    assert {line.split()[0] for line in lines[1:]} == {"load_failed"}


def test_a_file_that_would_fill_the_memory_is_refused_before_torch_reads_it(
    tmp_path: Path, whole: Callable[[Format], bytes]
) -> None:
    packed = tmp_path / "model.pt"
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as bomb:
        for name, content in records(whole("pt"), tmp_path).items():
            bomb.writestr(name, content)
        with bomb.open("model/code/bomb.py", "w") as source:
            for _ in range(520):
                source.write(bytes(2**20))
    error = refused(request_of(packed, 1, 4))
    assert (error.kind, "would fill 520 MB" in error.message) == ("load_failed", True)
