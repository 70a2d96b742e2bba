"""Realistic mistakes: each message names the thing, the place and the next step, and comes within seconds of CPU.

Here all are made in one process. tests/benchmarks/bench_mistakes.py makes each in a process of its own, as people do.
"""

import os
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

from sweeps.cli.main import main

CPU_S = 5.0
"""The longest that a person's computer works before it says so."""
OURS = ("EDGESWEEP_", "MLFLOW_TRACKING")
"""Beginnings of the variables that a person who makes these mistakes has not set."""
MODEL = "{source: mobilenet_v2, weights: random, input_shape: [1, 3, 32, 32]}"
SYNTHETIC = "{calibration: {source: synthetic}, evaluation: {source: synthetic}}"


def sweep(**changes: str) -> str:
    """A sweep file, with other values of these keys."""
    return "".join(
        f"{key}: {value}\n"
        for key, value in {"name": "a", "models": f"[{MODEL}]", "grids": "[{}]", **changes}.items()
        if value
    )


def own(source: str, **changes: str) -> str:
    more = "".join(f", {key}: {value}" for key, value in ({"weights": "random"} | changes).items())
    model = f"{{source: '{source}', name: n, input_shape: [1, 3, 16, 16]{more}}}"
    return sweep(models=f"[{model}]", data=SYNTHETIC, objective="{constraints: []}")


def folder(path: str) -> str:
    return sweep(
        data=f"{{calibration: {{source: folder, path: {path}}}, evaluation: {{source: folder, path: {path}}}}}"
    )


@dataclass(frozen=True, slots=True)
class Mistake:
    """A mistake, and what the message must have: the thing and its place, then the next step."""

    name: str
    words: Sequence[str]
    parts: tuple[str, ...]
    step: str
    content: str = ""
    """The text of the sweep file `s.yaml`."""
    environment: tuple[tuple[str, str], ...] = ()


PLAN = ("plan", "s.yaml")
CHECK = ("plan", "--check", "s.yaml")
CORRECT = "correct the sweep file"
RUN_ONE = "edgesweep run sweep.yaml"

MISTAKES = (
    Mistake("an unknown key", PLAN, ("s.yaml:4", "'grid'", "did you mean 'grids'?"), CORRECT, sweep() + "grid: [{}]\n"),
    Mistake(
        "an axis with a slip",
        PLAN,
        ("s.yaml:3", "grids[0]", "'precission'", "did you mean 'precision'?"),
        CORRECT,
        sweep(grids="[{precission: [int8]}]"),
    ),
    Mistake(
        "a value that is none",
        PLAN,
        ("s.yaml:3", "'int4'", "fp32, int8"),
        CORRECT,
        sweep(grids="[{precision: [int4]}]"),
    ),
    Mistake("one value, no list", PLAN, ("s.yaml:3", "write [int8]"), CORRECT, sweep(grids="[{precision: int8}]")),
    Mistake("a tab", PLAN, ("s.yaml:2", "tab"), "correct this line", "name: a\n\tmodels: []\n"),
    Mistake("a key twice", PLAN, ("s.yaml:4", "name", "lines 1 and 4"), CORRECT, sweep() + "name: b\n"),
    Mistake("no models", PLAN, ("s.yaml:1", "'models' is missing"), CORRECT, sweep(models="")),
    Mistake("no such file", ("plan", "swep.yaml"), ("swep.yaml", "no such file"), "give the path of a sweep file"),
    Mistake("a folder as file", ("plan", "empty"), ("empty", "this is a folder"), "give the path of a sweep file"),
    Mistake("another file", ("plan", "weights.pt"), ("weights.pt:1", "must be a block of keys"), CORRECT),
    Mistake(
        "a metric by half its name",
        PLAN,
        ("s.yaml:4", "objective.minimize", "'latency'", "did you mean 'latency_p50_ms'?"),
        CORRECT,
        sweep(objective="{minimize: latency}"),
    ),
    Mistake(
        "a constraint with a slip",
        PLAN,
        ("s.yaml:4", "objective.constraints[0].metric", "did you mean 'accuracy_drop_points'?"),
        CORRECT,
        sweep(objective="{constraints: [{metric: acuracy_drop_points, at_most: 1}]}"),
    ),
    Mistake("a preset", PLAN, ("s.yaml:4", "'fast'", "quick, full, race"), CORRECT, sweep(protocol="{preset: fast}")),
    Mistake("no rounds", PLAN, ("s.yaml:4", "protocol.rounds", "at least 1"), CORRECT, sweep(protocol="{rounds: 0}")),
    Mistake("a budget", PLAN, ("s.yaml:4", "did you mean 'device_minutes'?"), CORRECT, sweep(budget="{minutes: 5}")),
    Mistake("a device", PLAN, ("s.yaml:4", "'locl'", "did you mean 'local'?"), CORRECT, sweep(devices="[locl]")),
    Mistake(
        "a shape", PLAN, ("s.yaml:2", "input_shape", "4 are needed"), CORRECT, own("net:make").replace("[1, 3", "[3")
    ),
    Mistake(
        "two models of one name", PLAN, ("s.yaml:2", "models[1].name"), "correct", sweep(models=f"[{MODEL}, {MODEL}]")
    ),
    Mistake(
        "50,000 jobs",
        PLAN,
        ("50,944 jobs", "more than 10,000", "grids[0]"),
        "--yes",
        sweep(grids=f"[{{threads: {[*range(1, 129)]}, calibration_images: {[*range(1, 200)]}, precision: [int8]}}]"),
    ),
    Mistake(
        "a model's name",
        PLAN,
        ("torchvision has no classification model mobilnet_v2",),
        "did you mean mobilenet_v2",
        sweep(models="[{source: mobilnet_v2, weights: random, input_shape: [1, 3, 32, 32]}]"),
    ),
    Mistake(
        "a model's module", PLAN, ("no module nett", "nett:make"), "start edgesweep in the folder", own("nett:make")
    ),
    Mistake("a model's file", PLAN, ("bad.py:1", "not valid Python"), "correct the file", own("bad:make")),
    Mistake(
        "a checkpoint that is not there",
        PLAN,
        ("s.yaml:2", "models[0].weights", "no file", "missing.pt"),
        CORRECT,
        own("net:make", weights="missing.pt"),
    ),
    Mistake("images that are not there", PLAN, ("s.yaml:4", "no folder", "nowhere"), CORRECT, folder("nowhere")),
    Mistake("an empty folder", PLAN, ("empty has no sub-folders",), "one sub-folder per class", folder("empty")),
    Mistake("no classes", PLAN, ("flat has no sub-folders",), "one sub-folder per class", folder("flat")),
    Mistake("a class without images", PLAN, ("class dog", "photos/dog"), "add images", folder("photos")),
    Mistake("a board", PLAN, ("ssh:me@127.0.0.1:1",), "ssh -p 1 me@127.0.0.1", sweep(devices='["ssh:me@127.0.0.1:1"]')),
    Mistake("a command", ("rnak",), ("'rnak'",), "Did you mean 'rank'?"),
    Mistake("an option", ("run", "s.yaml", "--retry-faild"), ("'--retry-faild'",), "--retry-failed"),
    Mistake("an executor", ("run", "s.yaml", "--executor", "rai"), ("'rai'", "ray"), "--help"),
    Mistake("a file as workspace", ("run", "s.yaml", "--workspace", "net.py"), ("net.py",), "--workspace", sweep()),
    Mistake("a workspace in /proc", ("run", "s.yaml", "--workspace", "/proc/x"), ("/proc/x",), "--workspace", sweep()),
    *(
        Mistake(f"{words[0]} before a run", words, ("no sweep was run in", "edgesweep-data"), RUN_ONE)
        for words in (("rank",), ("status",), ("export",), ("compare", "a", "b"), ("sweeps", "delete", "a"))
    ),
    Mistake("a report of nothing", ("report",), ("--html",), "--help"),
    Mistake("a word", ("explain", "throtled"), ("'throtled'", "did you mean 'throttled'?"), "edgesweep explain"),
    Mistake("a lab without its token", (*PLAN, "--lab", "10.0.0.5:6379"), ("10.0.0.5:6379",), "--token-file", sweep()),
    Mistake("an argument", ("recipe", "mobilenet_v2", "--argument", "x"), ("'x'", "KEY=VALUE"), "num_classes=10"),
    Mistake(
        "a log", ("import", "--testapp", "net.py", "--variant", "x", "--device", "y"), ("the log",), "complete output"
    ),
    Mistake("a manifest", ("check", "net.py"), ("net.py", "manifest"), "edgesweep export"),
    Mistake("a backup", ("journal", "restore", "net.py"), ("net.py", "no backup"), "edgesweep journal backup"),
    Mistake("a journal", ("journal", "verify"), ("no journal", "journal.sqlite"), "--workspace"),
    Mistake(
        "a server that is down",
        ("rank",),
        ("http://127.0.0.1:1", "cannot be reached"),
        "start the server",
        environment=(("MLFLOW_TRACKING_URI", "http://127.0.0.1:1"),),
    ),
)
LOADED = (
    Mistake("a function", CHECK, ("net has no function mak",), "did you mean make", own("net:mak")),
    Mistake("a package", CHECK, ("imports.py:1", "no_such_package"), "install it", own("imports:make")),
    Mistake("a constructor", CHECK, ("net.py:3", "no weights here"), "make boom() work", own("net:boom")),
    Mistake("nothing returned", CHECK, ("net:none returned NoneType",), "return the model", own("net:none")),
    Mistake(
        "a checkpoint", CHECK, ("weights.pt", "no checkpoint"), "torch.save", own("net:make", weights="weights.pt")
    ),
    Mistake("an image", CHECK, ("broken/cat/0a.jpg",), "replace or remove it", folder("broken")),
)
"""Mistakes that only a look at the model or the images shows."""


@pytest.fixture
def mistakes_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in [*os.environ]:
        if name.startswith(OURS):
            monkeypatch.delenv(name)
    lay_out()
    return tmp_path


def lay_out() -> None:
    """Write what the mistakes are about into the current folder."""
    Path("net.py").write_text(
        "import torch\ndef make(): return torch.nn.Flatten()\ndef boom(): raise ValueError('no weights here')\n"
        "def none(): return None\n"
    )
    Path("bad.py").write_text("def make(:\n")
    Path("imports.py").write_text("import no_such_package\ndef make(): pass\n")
    Path("weights.pt").write_bytes(b"not a checkpoint")
    for name, file in (
        ("empty", ""),
        ("flat", "a.jpg"),
        ("photos/cat", "a.jpg"),
        ("photos/dog", ""),
        ("broken/cat", "a.jpg"),
    ):
        Path(name).mkdir(parents=True)
        if file:
            for number in range(3):
                Path(name, f"{number}{file}").write_bytes(b"not an image")


def tell(mistake: Mistake) -> tuple[str, float]:
    """The command's message, and the CPU time of this process for it."""
    if mistake.content:
        Path("s.yaml").write_text(mistake.content)
    began_s = time.process_time()
    ended = CliRunner().invoke(main, list(mistake.words), env=dict(mistake.environment), prog_name="edgesweep")
    spent_s = time.process_time() - began_s
    assert isinstance(ended.exception, SystemExit), ended.exception
    assert ended.exit_code in (1, 2), ended.output
    return ended.output, spent_s


def check(mistake: Mistake, message: str) -> None:
    assert [words for words in mistake.parts if words not in message] == [], message
    assert mistake.step in message, message
    assert "next: " in message or "Try 'edgesweep" in message or mistake in LOADED
    assert " object at 0x" not in message
    assert re.search(r"\b[0-9a-f]{12,}\b", message) is None, "a key"
    assert "Traceback" not in message
    assert "sqlite:///" not in message


def test_there_are_forty_mistakes_of_every_kind() -> None:
    names = [mistake.name for mistake in (*MISTAKES, *LOADED)]
    assert len(set(names)) == len(names) >= 40


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_a_mistake_is_named_with_its_place_and_the_next_step_at_once(mistakes_folder: Path, mistake: Mistake) -> None:
    message, spent_s = tell(mistake)
    check(mistake, message)
    assert spent_s < CPU_S


@pytest.mark.parametrize("mistake", LOADED, ids=lambda mistake: mistake.name)
@pytest.mark.system
@pytest.mark.xdist_group("one server imports torch for all")
def test_a_mistake_in_a_model_or_an_image_is_found_by_a_check(mistakes_folder: Path, mistake: Mistake) -> None:
    message, spent_s = tell(mistake)
    check(mistake, message)
    assert spent_s < CPU_S
