"""The runtime `eager`: one file with the package, run by the code that measures PyTorch Mobile's artifacts."""

import subprocess
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sweeps.errors import RunnerError
from sweeps.planning.axes import resolve_variant
from sweeps.spec.label import label_of
from sweeps.variant import Variant
from tests.builders import computer_facts
from tests.workers.runtimes.runs import request_of
from workers.models.package import BuildInputs
from workers.runtimes.eager.package_file import NoPackage, read, write
from workers.runtimes.eager.runtime import Eager
from workers.runtimes.interface import RunReport

LOCAL = computer_facts(runtime_versions=(), qengines=())
EAGER = resolve_variant(Variant(runtime="eager"), "x86_64")


def run(file: Path, shape: tuple[int, ...], **changes: object) -> RunReport:
    request = request_of(file, *shape, iterations=3)
    argv = Eager().command(replace(request, **changes))
    return Eager().parse(subprocess.run(argv, capture_output=True, check=False).stdout)


@pytest.mark.parametrize("axes", [{"layout": "nhwc"}, {"precision": "int8"}, {"backend": "nnapi"}, {"fuse": True}])
def test_no_axis_has_a_choice(axes: dict[str, str | bool]) -> None:
    assert resolve_variant(Variant(runtime="eager", **axes), "arm64-v8a") == EAGER
    assert label_of(EAGER) == "cpu fp32 nchw eager"


def test_it_runs_only_where_python_does() -> None:
    assert Eager().supports(EAGER, LOCAL) is None
    assert "phone" in str(Eager().supports(EAGER, replace(LOCAL, name="phone")))


@pytest.mark.parametrize("axes", [{"layout": "nhwc"}, {"precision": "int8"}, {"backend": "nnapi"}])
def test_what_is_more_than_eager_has_a_reason(axes: dict[str, str]) -> None:
    assert next(iter(axes.values())) in str(Eager().supports(replace(EAGER, **axes), LOCAL))


def test_a_package_survives_its_file_and_the_same_package_is_the_same_bytes(tiny: BuildInputs, tmp_path: Path) -> None:
    first, other = tmp_path / "one.zip", tmp_path / "other.zip"
    write(tiny.package, first)
    write(tiny.package, other)
    assert read(first) == tiny.package
    assert first.read_bytes() == other.read_bytes()


def test_every_cut_of_a_package_is_refused(tiny: BuildInputs, tmp_path: Path) -> None:
    whole, cut = tmp_path / "model.zip", tmp_path / "cut.zip"
    write(tiny.package, whole)
    content = whole.read_bytes()
    for length in range(0, len(content), len(content) // 40):
        cut.write_bytes(content[:length])
        with pytest.raises(NoPackage):
            read(cut)


def test_a_package_of_a_newer_version_is_refused_with_both_versions(tiny: BuildInputs, tmp_path: Path) -> None:
    file = tmp_path / "model.zip"
    write(tiny.package, file)
    with zipfile.ZipFile(file) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    contents["package.json"] = contents["package.json"].replace(b'"file_version": 1', b'"file_version": 2')
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
    with pytest.raises(NoPackage, match="version 2, this EdgeSweep reads 1"):
        read(file)


@pytest.mark.parametrize("network", ["tiny", "mobilenet"])
def test_it_answers_as_the_model_does_to_the_bit_or_nearly(
    network: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    inputs: BuildInputs = request.getfixturevalue(network)
    manifest = Eager().build(EAGER, "b" * 64, inputs, tmp_path)
    (tmp_path / "in.bin").write_bytes(inputs.verification.tobytes())
    report = run(
        tmp_path / manifest.file,
        inputs.package.input_shape,
        eval_inputs=str(tmp_path / "in.bin"),
        eval_outputs=str(tmp_path / "out.bin"),
    )
    logits = np.fromfile(tmp_path / "out.bin", "<f4").reshape(report.eval_images or 0, report.eval_classes or 0)
    np.testing.assert_allclose(logits, inputs.verification_logits, rtol=1e-4, atol=1e-4)
    assert manifest.verification.sqnr_db is None or manifest.verification.sqnr_db > 100


@pytest.mark.system
def test_input_reuse_is_measured_as_for_any_artifact(tiny: BuildInputs, tmp_path: Path) -> None:
    write(tiny.package, tmp_path / "model.zip")
    for reuse in (True, False):
        report = run(tmp_path / "model.zip", tiny.package.input_shape, reuse_input=reuse)
        assert (report.runner, len(report.samples_ns)) == (Eager().runner(), 3)


def test_a_model_that_prints_does_not_garble_the_report(tiny: BuildInputs, tmp_path: Path) -> None:
    [(name, source)] = tiny.package.files.items()
    loud = source + b"\nprint('loaded')\n_forward = torch.nn.Conv2d.forward\n"
    loud += b"torch.nn.Conv2d.forward = lambda self, x: print('ran') or _forward(self, x)\n"
    write(replace(tiny.package, files={name: loud}), tmp_path / "model.zip")
    assert len(run(tmp_path / "model.zip", tiny.package.input_shape).samples_ns) == 3


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({"state": b"no checkpoint"}, "load_failed"),
        ({"source": "nets:Missing"}, "load_failed"),
    ],
)
def test_a_package_that_cannot_be_loaded_has_a_kind(
    tiny: BuildInputs, tmp_path: Path, change: dict[str, object], kind: str
) -> None:
    write(replace(tiny.package, **change), tmp_path / "model.zip")
    with pytest.raises(RunnerError) as caught:
        run(tmp_path / "model.zip", tiny.package.input_shape)
    assert caught.value.kind == kind


def test_another_runtime_s_artifact_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.zip").write_bytes(b"PK not a zip")
    with pytest.raises(RunnerError, match="no whole package") as caught:
        run(tmp_path / "model.zip", (1, 3, 8, 8))
    assert caught.value.kind == "load_failed"


def test_another_backend_is_refused(tiny: BuildInputs, tmp_path: Path) -> None:
    write(tiny.package, tmp_path / "model.zip")
    with pytest.raises(RunnerError) as caught:
        run(tmp_path / "model.zip", tiny.package.input_shape, backend="nnapi")
    assert caught.value.kind == "wrong_backend"
