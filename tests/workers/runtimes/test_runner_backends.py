"""The runner on backends that this machine has not: evaluated on a reference, never timed, and listed."""

import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch.backends._nnapi.prepare import convert_model_to_nnapi

from sweeps.errors import RunnerError
from tests.workers.runtimes.forked_runs import refusal, refused, run
from tests.workers.runtimes.runs import RUNNER, answers, evaluating, request_of
from workers.models.accuracy import sqnr_db
from workers.runtimes.interface import RunRequest
from workers.runtimes.torchscript import metal, references, runner_report
from workers.runtimes.torchscript.capture import mixed, script, trace
from workers.runtimes.torchscript.save import Format, save
from workers.runtimes.torchscript.torch_state import build_state

pytestmark = pytest.mark.system

FORMATS: tuple[Format, ...] = ("pt", "ptl")
OPERATIONS = ("CONV_2D", "RELU", "AVERAGE_POOL_2D", "RESHAPE", "FULLY_CONNECTED")


@pytest.fixture(autouse=True)
def state() -> Iterator[None]:
    with build_state("qnnpack"):
        yield


def small() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3),
        torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(4, 3),
    ).eval()


def images(count: int) -> torch.Tensor:
    return torch.randn(count, 3, 8, 8, generator=torch.Generator().manual_seed(1))


def for_nnapi(folder: Path, form: Format) -> Path:
    converted = convert_model_to_nnapi(trace(small(), images(1)), images(1))
    return save(script(torch.nn.Sequential(converted)), folder, form).file


def run_by(file: Path, backend: str, reference: str | None = None) -> RunRequest:
    return request_of(file, 1, 3, 8, 8, backend=backend, reference=reference)


@pytest.fixture(scope="session")
def nnapi() -> str:
    return references.library("nnapi")


@pytest.mark.compiler
@pytest.mark.parametrize("form", FORMATS)
def test_nnapi_is_evaluated_on_the_reference_and_says_so(nnapi: str, tmp_path: Path, form: Format) -> None:
    request = run_by(for_nnapi(tmp_path, form), "nnapi", nnapi)
    report = run(replace(request, **evaluating(tmp_path, images(5))))
    assert (report.backend_ran, report.reference, report.samples_ns) == ("nnapi", True, ())
    torch.testing.assert_close(torch.from_numpy(answers(tmp_path, report)), small()(images(5)))


@pytest.mark.compiler
def test_an_emulated_backend_is_never_timed(nnapi: str, tmp_path: Path) -> None:
    file = for_nnapi(tmp_path, "pt")
    error = refused(run_by(file, "nnapi", nnapi))
    assert error.kind == "emulated"
    assert "an emulated backend's time is never a time" in error.message
    # A reference where the system looks for libraries is not timed either.
    argv = (*RUNNER, "--model", str(file), "--backend", "nnapi", "--input-dims", "1,3,8,8")
    environment = {**os.environ, "LD_LIBRARY_PATH": str(Path(nnapi).parent)}
    ended = subprocess.run(argv, capture_output=True, check=False, env=environment)
    with pytest.raises(RunnerError) as caught:
        runner_report.parse(ended.stdout)
    assert caught.value.kind == "emulated"


@pytest.mark.compiler
@pytest.mark.parametrize("form", FORMATS)
def test_what_nnapi_refuses_to_compile_is_told_with_its_reason(nnapi: str, tmp_path: Path, form: Format) -> None:
    converted = convert_model_to_nnapi(trace(small(), images(1)), images(1))
    converted.mod.ser_model[6] = 77  # the type of the first operand
    file = save(script(torch.nn.Sequential(converted)), tmp_path, form).file
    error = refused(replace(run_by(file, "nnapi", nnapi), **evaluating(tmp_path, images(1))))
    assert error.kind == "nnapi_compile_failed"
    assert "NNAPI returned error: 4 (bad data: " in error.message


@pytest.mark.compiler
def test_what_nnapi_refuses_to_run_is_told_with_its_reason(nnapi: str, tmp_path: Path) -> None:
    request = replace(run_by(for_nnapi(tmp_path, "pt"), "nnapi", nnapi), input_shape=(2, 3, 8, 8))
    error = refused(replace(request, **evaluating(tmp_path, images(2))))
    assert error.kind == "nnapi_run_failed"
    assert "input 0 has sizes [2, 3, 8, 8], but the model declares [1, 3, 8, 8]" in error.message


def test_without_nnapi_or_metal_the_backend_is_missing(tmp_path: Path) -> None:
    error = refused(run_by(for_nnapi(tmp_path, "pt"), "nnapi"))
    assert (error.kind, "there is no libneuralnetworks.so" in error.message) == ("backend_missing", True)
    assert refusal((*RUNNER, "--nnapi-devices")).kind == "backend_missing"


def test_a_reference_that_is_none_is_told(tmp_path: Path) -> None:
    file = for_nnapi(tmp_path, "pt")
    (tmp_path / "text.so").write_text("no library")
    libc = next(
        path for path in ("/lib/x86_64-linux-gnu/libm.so.6", "/lib/aarch64-linux-gnu/libm.so.6") if Path(path).is_file()
    )
    for library in (tmp_path / "none.so", tmp_path / "text.so", libc):
        request = replace(run_by(file, "nnapi", str(library)), **evaluating(tmp_path, images(1)))
        assert refused(request).kind == "bad_reference", library
    argv = (*RUNNER, "--model", str(file), "--input-dims", "1,3,8,8", "--reference", str(libc))
    assert refusal(argv).kind == "bad_arguments"


def test_an_artifact_of_another_backend_is_told(tmp_path: Path) -> None:
    error = refused(run_by(for_nnapi(tmp_path, "pt"), "cpu"))
    assert (error.kind, error.message) == ("wrong_backend", "model.pt is made for the backend nnapi, not for cpu")
    error = refused(run_by(save(script(small()), tmp_path, "ptl").file, "metal"))
    assert (error.kind, error.message) == ("wrong_backend", "model.ptl is made for the backend cpu, not for metal")


@pytest.mark.compiler
def test_metal_is_evaluated_in_fp16_on_the_reference(nets: ModuleType, tmp_path: Path) -> None:
    library = metal.load_operators()
    file = save(metal.lower(script(small())), tmp_path, "ptl").file
    request = run_by(file, "metal", library)
    assert refused(request).kind == "emulated"
    assert refused(replace(request, reference=None)).kind == "backend_missing"
    report = run(replace(request, **evaluating(tmp_path, images(8))))
    assert (report.backend_ran, report.reference) == ("metal", True)
    answered, expected = answers(tmp_path, report), small()(images(8)).numpy()
    exact = metal.round_to_half(small())(images(8)).numpy()
    near_half, near_float = sqnr_db(exact, answered), sqnr_db(expected, answered)
    assert near_float is not None
    assert 40 < near_float < 90  # rounded, and the same model
    assert near_half is None or near_half > near_float


@pytest.mark.compiler
def test_accelerators_are_listed(nnapi: str) -> None:
    ended = subprocess.run((*RUNNER, "--nnapi-devices", "--reference", nnapi), capture_output=True, check=True)
    listing = runner_report.listing(ended.stdout)
    assert listing.operations is None
    described = [(device.name, device.type, device.feature_level, device.accepts) for device in listing.devices]
    assert described == [
        ("edgesweep-reference-conv8", "accelerator", 30, None),
        ("edgesweep-reference-all", "cpu", 30, None),
    ]
    with pytest.raises(RunnerError):
        runner_report.parse(ended.stdout)  # the listing is no run


@pytest.mark.compiler
@pytest.mark.parametrize("form", FORMATS)
def test_what_each_accelerator_takes_of_a_model_is_listed(nnapi: str, tmp_path: Path, form: Format) -> None:
    argv = (*RUNNER, "--nnapi-devices", "--reference", nnapi, "--model", str(for_nnapi(tmp_path, form)))
    listing = runner_report.listing(subprocess.run(argv, capture_output=True, check=True).stdout)
    assert listing.operations == OPERATIONS
    # The first takes 8-bit convolutions only, and this model is float.
    assert [device.accepts for device in listing.devices] == [(False,) * 5, (True,) * 5]


@pytest.mark.compiler
def test_an_accelerator_that_takes_a_part_of_a_model_is_listed_with_that_part(nnapi: str, tmp_path: Path) -> None:
    class Quantized(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = torch.ao.nn.quantized.Conv2d(3, 4, 3)
            self.conv.scale, self.conv.zero_point = 0.1, 3

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.relu(self.conv(x)).flatten(1)

    image = torch.quantize_per_tensor(images(1), 0.05, 128, torch.quint8)
    converted = convert_model_to_nnapi(trace(Quantized().eval(), image), image)
    file = save(script(torch.nn.Sequential(converted)), tmp_path, "pt").file
    argv = (*RUNNER, "--nnapi-devices", "--reference", nnapi, "--model", str(file))
    listing = runner_report.listing(subprocess.run(argv, capture_output=True, check=True).stdout)
    assert listing.operations == ("CONV_2D", "RELU", "RESHAPE")
    assert [device.accepts for device in listing.devices] == [(True, False, False), (True, True, True)]


def test_big_cores_of_a_machine_with_one_kind_are_told(tmp_path: Path) -> None:
    from workers.cores import clusters

    kinds = clusters()
    request = run_by(save(mixed(small(), images(1)), tmp_path, "pt").file, "cpu")
    for kind, cpus in (("little", kinds[:1]), ("big", kinds[-1:])):
        if len(kinds) < 2:
            error = refused(replace(request, cpus=kind))
            assert (error.kind, f"there are no {kind} ones" in error.message) == ("bad_cpus", True)
        else:
            assert run(replace(request, cpus=kind)).cpus_ran == cpus[0]


def test_the_cpus_that_it_ran_on_are_reported(tmp_path: Path) -> None:
    request = run_by(save(script(small()), tmp_path, "pt").file, "cpu")
    allowed = sorted(os.sched_getaffinity(0))
    assert run(request).cpus_ran == tuple(allowed)
    assert run(replace(request, cpus=str(allowed[-1]))).cpus_ran == (allowed[-1],)
    error = refused(replace(request, cpus=f"{allowed[-1]},4000"))
    assert (error.kind, "4000" in error.message) == ("bad_cpus", True)
