"""Phones are asked for their accelerators through the real adb daemon, with real artifacts and the real runner."""

import json
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from sweeps.cli.main import main
from sweeps.errors import SpecError
from sweeps.nnapi_answers import Answer
from sweeps.spec import built_in, catalog
from sweeps.spec.entries import BackendEntry
from sweeps.spec.grid import GridSpec
from sweeps.spec.model_inputs import ModelSpec
from tests import gallery
from tests.faulty_phone import FaultyPhone
from tests.workers.tiny_sweep import Sweep
from workers.accelerators import Inquiry, of_accelerators
from workers.devices.local import host_abi
from workers.driver.driver_events import AttemptFailed, Building, Event
from workers.executors.inline import InlineExecutor
from workers.runtimes.torchscript import native_runner, references
from workers.runtimes.torchscript.programs import FOLDER_VARIABLE

pytestmark = [pytest.mark.system, pytest.mark.compiler]

BOTH = GridSpec(backend=("nnapi",), layout=("nhwc",))
FP32 = GridSpec(backend=("nnapi",), precision=("fp32",), layout=("nhwc",))
EVIL = "<script>npu</script> [red]x[/red] \x1b[31m\x1b]0;t\x07"


@dataclass(frozen=True)
class Asked:
    answers: list[Answer]
    events: list[Event]


def names(phones: list[FaultyPhone]) -> tuple[str, ...]:
    return tuple(f"adb:{phone.serial}" for phone in phones)


def ask(sweep: Sweep, before_asking: Callable[[], None] = lambda: None) -> Asked:
    """Nothing is built that another test of this run has built."""
    keys = [job.build_key for job in sweep.plan.jobs]
    gallery.bring(sweep.workspace, keys)
    inquiry = Inquiry(sweep.plan, sweep.workspace.root)
    with closing(InlineExecutor(sweep.workspace.root)) as executor:
        events: list[Event] = list(inquiry.build(executor, sweep.prepare, lambda: False))
    gallery.keep(sweep.workspace, keys)
    before_asking()
    return Asked(list(inquiry.answers()), events)


@pytest.fixture
def runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Have phones run this shell script as their runner."""

    def runner(script: str) -> None:
        folder = tmp_path / "runners" / host_abi()
        folder.mkdir(parents=True)
        for interpreter in ("full", "lite"):
            (folder / f"edgesweep_runner_{interpreter}").write_text(f"#!/bin/sh\n{script}\n")
        monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "runners"))

    return runner


def test_a_phone_without_nnapi_says_so_and_the_reference_answers_in_its_place(
    phones: list[FaultyPhone], tmp_path: Path
) -> None:
    model = ModelSpec(source="squeezenet1_1", weights="random", input_shape=(1, 3, 64, 64))
    sweep = Sweep(tmp_path, BOTH, devices=names(phones[:1]), models=(model,))
    survey = ask(sweep)
    assert [(answer.precision, answer.note) for answer in survey.answers] == [
        ("fp32", "no NNAPI here"),
        ("int8", "no NNAPI here"),
    ]
    for answer in survey.answers:
        assert answer.reference == references.names()["nnapi"]
        assert "CONV_2D" in answer.operations
        assert [sum(accelerator.accepts) for accelerator in answer.accelerators][1] == len(answer.operations)
    # The reference's accelerator takes convolutions in int8 alone.
    float_npu, int8_npu = (answer.accelerators[0] for answer in survey.answers)
    assert not any(float_npu.accepts)
    assert any(int8_npu.accepts)
    assert [event for event in survey.events if isinstance(event, Building)]
    second = ask(sweep)
    assert second.answers == survey.answers
    assert second.events == []
    assert Inquiry(sweep.plan, sweep.workspace.root).pending() == 0


def test_a_phone_with_nnapi_answers_itself(
    phones: list[FaultyPhone], tmp_path: Path, runner: Callable[[str], None]
) -> None:
    # The runner knows the reference when it sees it, so that it is never taken for a phone's own NNAPI in silence.
    runner(f'exec "{native_runner.program()}" "$@" --reference "{references.library("nnapi")}"')
    sweep = Sweep(tmp_path, FP32, devices=names(phones[:1]))
    (answer,) = ask(sweep).answers
    assert (answer.note, answer.reference) == ("", "")
    assert len(answer.accelerators) == 2
    assert all(len(accelerator.accepts) == len(answer.operations) for accelerator in answer.accelerators)
    (job,) = sweep.plan.jobs
    assert list((phones[0].data / "local/tmp/edgesweep/run").glob(f"{job.build_key[:16]}-*"))


def test_one_that_is_unplugged_says_so_and_the_next_phone_answers(phones: list[FaultyPhone], tmp_path: Path) -> None:
    sweep = Sweep(tmp_path, FP32, devices=names(phones))
    try:
        unplugged, present = ask(sweep, phones[0].unplug).answers
    finally:
        phones[0].plug()
    assert phones[0].serial in unplugged.note
    assert (unplugged.accelerators, unplugged.reference) == ((), "")
    assert present.operations
    assert present.phone == f"adb:{phones[1].serial}"


def test_a_runner_that_dies_or_lies_costs_an_answer_and_no_more(
    phones: list[FaultyPhone], tmp_path: Path, runner: Callable[[str], None]
) -> None:
    start = {"event": "start", "runner": "r", "runner_version": "1", "torch": "2", "engines": ["qnnpack"]}
    runner(f'echo \'{json.dumps(start)}\'; case "$*" in *--model*) exit 139 ;; esac; echo \'{{"event": "end"}}\'')
    sweep = Sweep(tmp_path, FP32, devices=names(phones[:1]))
    (answer,) = ask(sweep).answers
    assert answer.note == "crashed: the runner ended with exit code -11"
    assert answer.accelerators == ()


def test_a_model_that_nnapi_cannot_have_says_why(phones: list[FaultyPhone], tmp_path: Path) -> None:
    (tmp_path / "sorts.py").write_text(
        "import torch\n"
        "class Sorts(torch.nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.linear = torch.nn.Linear(16, 4)\n"
        "    def forward(self, x):\n"
        "        return self.linear(torch.cumsum(x, 2).mean((1, 2)))\n"
        "def make():\n"
        "    return Sorts()\n"
    )
    model = ModelSpec(source="sorts:make", weights="random", input_shape=(1, 3, 16, 16), name="sorts")
    sweep = Sweep(tmp_path, FP32, devices=names(phones[:1]), models=(model,))
    survey = ask(sweep)
    assert [event.failed.kind for event in survey.events if isinstance(event, AttemptFailed)] == [
        "unsupported_operator"
    ]
    (answer,) = survey.answers
    assert answer.note.startswith("its build failed (unsupported_operator): ")
    assert answer.operations == ()


def test_of_a_sweep_only_what_is_for_nnapi_is_asked_about(tmp_path: Path) -> None:
    spec = Sweep(tmp_path, GridSpec(backend=("cpu", "nnapi")), GridSpec()).spec
    (grid,) = of_accelerators(spec).grids
    assert grid.backend == ("nnapi",)
    with pytest.raises(SpecError, match="no grid has the backend nnapi"):
        of_accelerators(spec.model_copy(update={"grids": (GridSpec(),)}))


def test_only_runtimes_of_the_grid_are_asked_about_and_each_backend_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = replace(built_in.TORCHSCRIPT, name="other")
    npu = replace(built_in.EAGER, name="npus", backends=(BackendEntry(name="npu", lists_accelerators=True),))
    for runtime in (other, npu):
        monkeypatch.setitem(catalog.runtimes(), runtime.name, runtime)
    spec = Sweep(tmp_path, GridSpec()).spec

    def only(*grids: dict[str, tuple[str, ...]]) -> tuple[GridSpec, ...]:
        changed = tuple(GridSpec().model_copy(update=grid) for grid in grids)
        return of_accelerators(spec.model_copy(update={"grids": changed})).grids

    with pytest.raises(SpecError) as caught:
        only({"runtime": ("torchscript", "other", "eager")})
    assert caught.value.message == "tiny: no grid has the backend nnapi"
    eager = {"runtime": ("eager",), "backend": ("nnapi",)}
    with pytest.raises(SpecError, match="no grid has the backend nnapi or npu"):
        only(eager)
    (grid,) = only(eager, {"runtime": ("eager", "other"), "backend": ("cpu", "npu", "nnapi")})
    assert (grid.runtime, grid.backend) == (("other",), ("nnapi",))


def test_the_command_prints_a_hostile_driver_s_name_to_the_letter_and_harmless(
    phones: list[FaultyPhone], tmp_path: Path, runner: Callable[[str], None]
) -> None:
    start = {"event": "start", "runner": "r", "runner_version": "1", "torch": "2.12.1", "engines": ["qnnpack"]}
    device = {"event": "nnapi_device", "name": EVIL, "type": "gpu", "version": EVIL, "feature_level": 29}
    plain = [start, device, {"event": "end"}]
    model = {"event": "nnapi_model", "operations": ["CONV_2D", "SOFTMAX"]}
    listing = [start, model, device | {"accepts": [True, False]}, {"event": "end"}]
    for name, events in (("plain", plain), ("asked", listing)):
        (tmp_path / name).write_text("".join(f"{json.dumps(event)}\n" for event in events))
    runner(f'case "$*" in *--model*) exec cat "{tmp_path}/asked" ;; esac; exec cat "{tmp_path}/plain"')
    sweep = tmp_path / "sweep.yaml"
    sweep.write_text(
        "name: asked\n"
        "models: [{source: squeezenet1_1, weights: random, input_shape: [1, 3, 32, 32]}]\n"
        "data: {calibration: {source: synthetic}, evaluation: {source: synthetic, images: 4, seed: 1}}\n"
        "grids: [{backend: [cpu, nnapi], precision: [fp32], layout: [nhwc]}]\n"
        f'devices: ["adb:{phones[0].serial}"]\n'
    )

    def edgesweep(*words: str) -> str:
        argv = ["devices", "accelerators", str(sweep), *words, "--executor", "inline"]
        ended = CliRunner().invoke(main, [*argv, "--workspace", str(tmp_path / "ws")])
        assert ended.exit_code == 0, ended.output
        return ended.stdout

    (answer,) = json.loads(edgesweep("--json"))["answers"]
    (accelerator,) = answer["supported_by"]
    assert accelerator["name"] == EVIL
    assert (accelerator["accepted"], accelerator["not_accepted"]) == ({"CONV_2D": 1}, {"SOFTMAX": 1})
    text = edgesweep()
    assert "1 of 2 (not: SOFTMAX)" in " ".join(text.split())
    assert "supported by" in text
    assert "<script>npu</script>" in text
    assert "\x1b" not in text
