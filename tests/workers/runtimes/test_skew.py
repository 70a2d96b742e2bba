"""Artifacts that are newer than the runtime that is to load them, under the pinned torch and under an older one."""

import os
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from sweeps.errors import RunnerError
from tests.workers.runtimes import old_torch
from workers.runtimes.interface import RunReport
from workers.runtimes.torchscript.capture import script
from workers.runtimes.torchscript.runner_report import parse
from workers.runtimes.torchscript.save import Format, save
from workers.runtimes.torchscript.torch_state import build_state

pytestmark = [pytest.mark.system, pytest.mark.long]

FORMATS: tuple[Format, ...] = ("pt", "ptl")
ROOT = Path(__file__).parents[3]
Run = Callable[..., RunReport]


def needs_old_torch(test: Callable[..., None]) -> Callable[..., None]:
    """Installing it takes time once."""
    return pytest.mark.old_torch(pytest.mark.timeout(old_torch.INSTALL_DEADLINE_S + 300)(test))


class Plain(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.flatten(x, 1) * 2


class Attention(torch.nn.Module):
    """torch 2.0 brought this operator."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.flatten(2)
        return torch.nn.functional.scaled_dot_product_attention(y, y, y).flatten(1)


@pytest.fixture(autouse=True)
def state() -> Iterator[None]:
    with build_state("none"):
        yield


def runner(python: Path | str) -> Run:
    def run(file: Path, *more: str) -> RunReport:
        argv = [str(python), "-W", "ignore", "-m", "workers.runtimes.torchscript.runner", "--model", str(file)]
        argv += ["--input-dims", "1,3,4,4", *more]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        ended = subprocess.run(argv, capture_output=True, check=False, env=environment, timeout=300)
        assert b"Traceback" not in ended.stderr  # an old torch warns that there is no numpy
        return parse(ended.stdout)

    return run


@pytest.fixture(scope="module")
def pinned() -> Run:
    return runner(sys.executable)


@pytest.fixture(scope="module")
def older() -> Run:
    return runner(old_torch.interpreter())


def rewritten(source: Path, target: Path, edits: dict[str, tuple[bytes, bytes]]) -> Path:
    """The archive with bytes replaced in the records whose names end so; each must occur."""
    left = dict(edits)
    with zipfile.ZipFile(source) as read, zipfile.ZipFile(target, "w") as written:
        for name in read.namelist():
            content = read.read(name)
            for end, (old, new) in edits.items():
                if name.endswith(end) and old in content:
                    content = content.replace(old, new)
                    left.pop(end, None)
            if "debug_pkl" not in name:
                written.writestr(name, content)
    assert not left, f"nothing to replace in {left}"
    return target


def plain(folder: Path, form: Format) -> Path:
    return save(script(Plain()), folder, form).file


def skew(run: Run, file: Path) -> str:
    with pytest.raises(RunnerError) as caught:
        run(file)
    assert caught.value.kind == "runtime_skew"
    assert "no newer than the runtime" in caught.value.message
    assert "newer runtime on the device" in caught.value.message
    return caught.value.message


@pytest.mark.parametrize("form", FORMATS)
def test_a_newer_file_version_is_told_with_the_highest_that_is_read(pinned: Run, tmp_path: Path, form: Format) -> None:
    newer = rewritten(plain(tmp_path, form), tmp_path / f"newer.{form}", {"/version": (b"3", b"99")})
    message = skew(pinned, newer)
    assert f"file version 99, this runtime (torch {torch.__version__}) reads up to 10" in message


def test_a_newer_bytecode_version_is_told_with_the_highest_that_is_read(pinned: Run, tmp_path: Path) -> None:
    newer = rewritten(
        plain(tmp_path, "ptl"), tmp_path / "newer.ptl", {"bytecode.pkl": (b"\x80\x02K\x08", b"\x80\x02K\x63")}
    )
    assert "bytecode version 99, this runtime" in skew(pinned, newer)
    assert "reads up to 9" in skew(pinned, newer)


@pytest.mark.parametrize("form", FORMATS)
def test_unknown_operators_are_named(pinned: Run, tmp_path: Path, form: Format) -> None:
    where = "bytecode.pkl" if form == "ptl" else ".py"
    newer = rewritten(plain(tmp_path, form), tmp_path / f"newer.{form}", {where: (b"flatten", b"flattem")})
    message = skew(pinned, newer)
    assert "has no operator aten::flattem" in message
    assert "another operator in the model" in message


def test_an_operator_with_a_new_argument_is_named(pinned: Run, tmp_path: Path) -> None:
    edits = {".py": (b"torch.flatten(x, 1)", b"torch.flatten(x, 1, like=x)")}
    message = skew(pinned, rewritten(plain(tmp_path, "pt"), tmp_path / "newer.pt", edits))
    assert "knows aten::flatten.using_ints with other arguments" in message


@needs_old_torch
@pytest.mark.parametrize("form", FORMATS)
def test_an_older_torch_times_and_evaluates_what_it_knows(older: Run, tmp_path: Path, form: Format) -> None:
    file = plain(tmp_path, form)
    report = older(file, "--iter", "3", "--warmup", "2")
    assert report.runtime_version.startswith(old_torch.VERSION)
    assert (report.file_version_max, report.bytecode_version_max) == (10, 9)
    assert (len(report.warmup_ns), len(report.samples_ns)) == (2, 3)
    images = torch.linspace(-1, 1, 2 * 48)
    (tmp_path / "in.bin").write_bytes(images.numpy().tobytes())
    older(file, "--eval-inputs", str(tmp_path / "in.bin"), "--eval-outputs", str(tmp_path / "out.bin"))
    answered = torch.frombuffer(bytearray((tmp_path / "out.bin").read_bytes()), dtype=torch.float32)
    torch.testing.assert_close(answered, images * 2)


@needs_old_torch
@pytest.mark.parametrize("form", FORMATS)
def test_an_operator_that_an_older_torch_lacks_is_named_and_runs_on_the_pinned_one(
    pinned: Run, older: Run, tmp_path: Path, form: Format
) -> None:
    saved = save(script(Attention()), tmp_path, form)
    assert "aten::scaled_dot_product_attention" in saved.operators
    assert len(pinned(saved.file, "--iter", "2").samples_ns) == 2
    message = skew(older, saved.file)
    assert f"this runtime (torch {old_torch.VERSION}" in message
    assert "has no operator aten::scaled_dot_product_attention" in message


@needs_old_torch
@pytest.mark.parametrize("form", FORMATS)
def test_newer_versions_are_told_by_the_older_torch_too(older: Run, tmp_path: Path, form: Format) -> None:
    source = plain(tmp_path, form)
    newer = rewritten(source, tmp_path / f"newer.{form}", {"/version": (b"3", b"11")})
    assert f"file version 11, this runtime (torch {old_torch.VERSION}" in skew(older, newer)
    if form == "ptl":
        newer = rewritten(source, tmp_path / "bytecode.ptl", {"bytecode.pkl": (b"\x80\x02K\x08", b"\x80\x02K\x0a")})
        assert "bytecode version 10, this runtime" in skew(older, newer)
