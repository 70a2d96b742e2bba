"""Code of the user's that ends its process, never ends, or takes all there is: a sentence, and the next model."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from sweeps.errors import ModelError
from sweeps.spec.model_inputs import DataSpec, ModelSpec, SyntheticData
from sweeps.workspace import Workspace
from tests.workers.tiny_model import SOURCE
from workers.models import model_process
from workers.models.prepare import prepare

DATA = DataSpec(
    calibration=SyntheticData(source="synthetic", images=2), evaluation=SyntheticData(source="synthetic", images=3)
)
EVIL = """
import os, sys, time
import torch

def leave():
    os._exit(7)

def leave_politely():
    sys.exit("enough")

def abort():
    os.abort()

def loop():
    while True:
        pass

def fork():
    while True:
        os.fork()

def escape():
    while True:
        if os.fork() == 0:
            os.setsid()

def fill():
    kept = []
    while True:
        kept.append(bytearray(os.urandom(1024)) * 10_000)

def demand():
    return torch.nn.Linear(1, 100 * 2**30 // 4)

def talk():
    while True:
        print("x" * 10_000)

class Leaver(torch.nn.Module):
    def forward(self, x):
        os._exit(0)

def leave_later():
    return Leaver()

FOLDER = os.environ["TMPDIR"]

def put_pipes():
    for name in ("answer.json", "progress", "progress.part"):
        if os.path.lexists(os.path.join(FOLDER, name)):
            os.unlink(os.path.join(FOLDER, name))
        os.mkfifo(os.path.join(FOLDER, name))
    return make()

def put_a_folder():
    os.mkdir(os.path.join(FOLDER, "answer.json"))
    return make()

def overwriting(content):
    import pathlib
    rename = pathlib.Path.replace
    def replace(self, target):
        rename(self, target)
        if str(target).endswith("answer.json"):
            os.unlink(target)
            os.mkfifo(target) if content is None else open(target, "w").write(content)
    pathlib.Path.replace = replace
    return make()

def overwrite_with_a_list():
    return overwriting("[1]")

def overwrite_with_depth():
    return overwriting("[" * 100_000)

def overwrite_with_other_types():
    return overwriting('{"arguments": 1, "weights_id": {}, "source": null}')

def overwrite_with_a_pipe():
    return overwriting(None)

def tell_nonsense():
    os.makedirs(FOLDER, exist_ok=True)
    open(os.path.join(FOLDER, "progress"), "w").write("nan and more\\tx\\x1b[31m")
    time.sleep(0.3)
    return make()

def answer_itself():
    open(os.path.join(FOLDER, "answer.json"), "w").write("{}")
    os._exit(0)

def write_everywhere():
    for descriptor in range(3, 256):
        try:
            os.write(descriptor, b"x" * 1000)
        except OSError:
            pass
    return make()

def leave_a_child():
    if os.fork() == 0:
        time.sleep(1000)
    return make()
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "evil.py").write_text(EVIL + SOURCE.decode())
    return tmp_path


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = replace(model_process.LIMITS, processes=20, memory_bytes=400 * 2**20, output_bytes=2**20)
    monkeypatch.setattr(model_process, "LIMITS", limits)


def lines_of(home: Path, function: str) -> list[str]:
    """The steps of its progress."""
    steps: list[str] = []
    model = ModelSpec(source=f"evil:{function}", weights="random", input_shape=(1, 3, 16, 16))
    workspace = Workspace.open(home / "workspace")
    prepare(model, DATA, workspace, {}, lambda title, share: steps.append(title), (home,))
    return steps


def left() -> list[psutil.Process]:
    """List the processes that the server has started and not ended."""
    process = model_process.FORKS._process
    assert process is not None
    return psutil.Process(process.pid).children(recursive=True)


@pytest.fixture
def nothing_is_left() -> Iterator[None]:
    yield
    assert left() == []


@pytest.mark.usefixtures("nothing_is_left")
@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("leave", "evil:leave ended its process with exit code 7"),
        ("leave_politely", "evil:leave_politely failed .*SystemExit: enough"),
        ("leave_later", "evil:leave_later ended its process with exit code 0"),
        ("abort", r"evil:abort crashed its process \(SIGABRT\)"),
        ("fork", "evil:fork started more than 20 processes"),
        ("escape", "evil:escape started more than 20 processes"),
        ("fill", "evil:fill took more than 0.4 GiB of memory"),
        ("demand", "evil:demand (failed .*memory|took more than 0.4 GiB)"),
        ("talk", "evil:talk printed more than 1 MiB"),
        ("put_a_folder", "evil:put_a_folder ended its process|it cannot be loaded|gone, or is something else"),
        ("overwrite_with_a_list", "evil:overwrite_with_a_list: what was made of it is gone, or is something else"),
        ("overwrite_with_depth", "evil:overwrite_with_depth: what was made of it is gone, or is something else"),
        ("overwrite_with_other_types", "gone, or is something else"),
        ("overwrite_with_a_pipe", "gone, or is something else"),
        ("answer_itself", "gone, or is something else"),
    ],
)
def test_code_that_misbehaves_is_one_model_error_and_leaves_nothing(home: Path, function: str, message: str) -> None:
    with pytest.raises(ModelError, match=message) as caught:
        lines_of(home, function)
    assert caught.value.next_step


@pytest.mark.usefixtures("nothing_is_left")
def test_an_endless_loop_is_ended_after_a_while_without_progress(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_process, "LIMITS", replace(model_process.LIMITS, silent_s=1.0))
    with pytest.raises(ModelError, match="evil:loop does not come to an end: nothing happened for 1"):
        lines_of(home, "loop")


@pytest.mark.usefixtures("nothing_is_left")
@pytest.mark.parametrize("function", ["put_pipes", "write_everywhere", "tell_nonsense"])
def test_a_good_model_is_made_whatever_its_code_wrote_before(home: Path, function: str) -> None:
    assert lines_of(home, function)[-1].startswith(function)


@pytest.mark.usefixtures("nothing_is_left")
def test_processes_that_a_good_model_started_end_with_its_preparation(home: Path) -> None:
    assert lines_of(home, "leave_a_child")[-1].startswith("leave_a_child")


def test_a_file_that_hides_a_package_is_named(home: Path) -> None:
    (home / "torch.py").write_text("")
    with pytest.raises(ModelError, match=r"torch\.py has the name of the package torch, which evil:make imports"):
        lines_of(home, "make")


def test_torch_taken_from_the_user_s_folder_by_pythonpath_is_named(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "hiding").mkdir()
    (home / "hiding" / "torch.py").write_text("")
    monkeypatch.setenv("PYTHONPATH", str(home / "hiding"))
    model_process.FORKS.close()
    with pytest.raises(ModelError, match=r"PyTorch cannot be imported: torch is .*hiding/torch\.py"):
        lines_of(home, "make")


@pytest.mark.system
def test_a_server_that_had_nothing_to_do_and_went_home_is_started_again(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model_process.FORKS.close()
    monkeypatch.setattr(model_process.FORKS, "idle_s", 0.0)
    lines_of(home, "make")
    process = model_process.FORKS._process
    assert process is not None
    assert process.wait(60) == 0
    assert lines_of(home, "make")
