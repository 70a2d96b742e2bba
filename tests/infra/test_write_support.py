"""Models are built and verified in every way: each cell ends with a figure or a reason, and nothing is lost."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner
from support_cells import grids
from support_survey import LISTED, Subject, Survey, subject
from support_table import SupportTable, column_of, group_of
from support_text import terminal_text
from write_support import write_support

from sweeps.journal.journal import Journal
from sweeps.manifest import Manifest
from sweeps.records import Failed, Skipped
from sweeps.spec.grid import GridSpec
from sweeps.spec.model_inputs import Argument, DataSpec, ModelSpec, SyntheticData
from sweeps.workspace import Workspace
from workers.driver.driver_events import AttemptFailed, Building
from workers.executors.inline import InlineExecutor
from workers.models.prepare import prepare
from workers.models.prepared_model import PreparedModel

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "infra" / "write_support.py"
SHAPE = (1, 3, 32, 32)
DATA = DataSpec(
    calibration=SyntheticData(source="synthetic", images=8), evaluation=SyntheticData(source="synthetic", images=8)
)
CPU_FP32 = grids(["cpu"], ["fp32"])
FEWER = tuple(
    grid.model_copy(update={"capture": ("trace",), "qengine": ("qnnpack",)}) if "fp32" not in grid.precision else grid
    for grid in grids()
)
"""int8 is captured by its other ways, and for x86, in tests of its own: each build takes a process to verify."""
# Four of MobileNetV2's 17 blocks: with and without expansion, of either stride, with and without a residual.
BLOCKS = [[1, 16, 1, 1], [6, 24, 2, 2], [6, 32, 1, 2]]
OWN = """
import torch


class Chosen(torch.nn.Module):
    \"\"\"Which branch it takes depends on the image.\"\"\"

    def __init__(self) -> None:
        super().__init__()
        self.body = torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 3, stride=2, padding=1), torch.nn.ReLU(),
            torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(8, 4),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.body(x)
        if x.sum() > 0:
            y = y * 2
        return y


def plain() -> torch.nn.Module:
    return Chosen().body


class Whole(Chosen):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x)


def whole() -> torch.nn.Module:
    return Whole()


def chosen() -> torch.nn.Module:
    return Chosen()


def broken() -> torch.nn.Module:
    raise RuntimeError("not today")
"""


def _subject(source: str, name: str | None = None, **arguments: Argument) -> Subject:
    named = {} if name is None else {"name": name}
    model = ModelSpec(source=source, weights="random", input_shape=SHAPE, arguments=arguments, **named)
    return Subject(model=model, data=DATA)


class _Desk:
    """A workspace with an executor, to look into models as the command does."""

    def __init__(self, root: Path) -> None:
        self.workspace = Workspace.open(root / "results")
        self.root = root
        (root / "own_nets.py").write_text(OWN)
        self.executor = InlineExecutor(self.workspace.root)
        self.journal = Journal.open(self.workspace.journal)

    def survey(
        self, subjects: Sequence[Subject], cells: tuple[GridSpec, ...] = CPU_FP32, *, retry_failed: bool = False
    ) -> Survey:
        return Survey(subjects, cells, self.workspace.root, [self.root], self.journal, retry_failed=retry_failed)

    def run(self, survey: Survey, stop_after: int | None = None) -> list[str]:
        """Names of what was built or tried, at most `stop_after`."""
        ended: list[str] = []

        def ready(model: ModelSpec, data: DataSpec, versions: Mapping[str, str]) -> PreparedModel:
            return prepare(model, data, self.workspace, versions, lambda *_: None, [self.root])

        def stop() -> bool:
            return stop_after is not None and len(ended) >= stop_after

        running: tuple[str, ...] = ()
        for event in survey.run(self.executor, ready, stop):
            match event:
                case Building(_, _, now):
                    ended += [name for name in running if name not in now]
                    running = now
                case AttemptFailed(name, failed, _):
                    assert failed.message, name
        return ended


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[_Desk]:
    desk = _Desk(tmp_path)
    yield desk
    desk.executor.close()
    desk.journal.close()


def _outcomes(table: SupportTable, model: str) -> dict[tuple[str, ...], Manifest | Skipped | Failed]:
    row = next(row for row in table.rows if row.model == model)
    return {(group_of(cell.variant), *column_of(cell.variant)): cell.outcome for cell in row.cells}


@pytest.mark.system
@pytest.mark.long
@pytest.mark.compiler
@pytest.mark.timeout(1800)
def test_two_models_in_every_way_leave_no_cell_without_a_figure_or_a_reason(desk: _Desk) -> None:
    # One of a library, and one of a module with a class of its own.
    subjects = [
        _subject("mobilenet_v2", width_mult=0.25, num_classes=10, inverted_residual_setting=BLOCKS),
        _subject("workers.small_vit:small_vit", image_size=32, depth=1),
    ]
    survey = desk.survey(subjects, FEWER)
    desk.run(survey)
    table = survey.table()
    assert "builder torchscript" in table.versions
    whole = _outcomes(table, "mobilenet_v2").keys()
    assert len(whole) == 4 + 4 + 2 + 3 + 3 + 3 + 4
    for row in table.rows:
        found = _outcomes(table, row.model)
        assert found.keys() == whole
        for place, outcome in found.items():
            if isinstance(outcome, Manifest):
                assert outcome.verification.images == 8
                assert outcome.verification.executor.startswith("reference:") == (outcome.backend != "cpu"), place
            else:
                assert outcome.reason if isinstance(outcome, Skipped) else outcome.message, place
        for method in ("static_fx", "static_eager", "qat", "dynamic"):
            assert isinstance(found["metal", f"int8 {method}", ""], Skipped)
        for capture in ("script", "trace", "mixed"):
            assert isinstance(found["cpu fp32", "fp32", capture], Manifest), found["cpu fp32", "fp32", capture]
    mobilenet = _outcomes(table, "mobilenet_v2")
    assert {place for place, outcome in mobilenet.items() if isinstance(outcome, Failed)} == set()
    vit = _outcomes(table, "small_vit")["metal", "fp32", "script"]
    assert isinstance(vit, Failed)
    assert "aten::gelu" in vit.message, "a failure names its operator"
    assert "aten::gelu" in terminal_text(table)
    again = desk.survey(subjects, FEWER)
    assert again.pending() == 0
    assert desk.run(again) == []
    assert again.table() == table


@pytest.mark.system
@pytest.mark.runtime("executorch")
@pytest.mark.runtime("onnxruntime")
def test_each_cell_of_the_other_runtimes_has_a_figure_or_a_reason_with_their_version(desk: _Desk) -> None:
    cells = tuple(
        grid.model_copy(update={"quantization": ("static",), "granularity": ("per_channel",)})
        for grid in grids(runtimes=["executorch", "onnxruntime"])
    )
    survey = desk.survey([_subject("own_nets:whole"), _subject("own_nets:chosen")], cells)
    # Vulkan's build is checked without a device that has it.
    assert survey.pending() == 2 * (4 + 3)
    desk.run(survey)
    table = survey.table()
    for outcome in _outcomes(table, "whole").values():
        assert isinstance(outcome, Manifest), outcome
        assert outcome.verification.images == 8
        assert (outcome.coverage is not None) == (outcome.runtime == "executorch")
    for place, outcome in _outcomes(table, "chosen").items():
        assert isinstance(outcome, Failed), place
        assert outcome.kind == "not_exportable"
        assert "exports no control flow" in outcome.message
        assert re.search(r"(torch|executorch|onnxruntime) \d+\.\d+", outcome.message)
    assert {"executorch", "onnxruntime", "builder executorch", "builder onnxruntime"} <= table.versions.keys()


@pytest.mark.system
def test_an_interrupted_survey_goes_on_and_an_unusable_model_leaves_the_others_alone(
    desk: _Desk,
) -> None:
    two = [_subject("own_nets:chosen"), _subject("own_nets:plain")]
    first = desk.run(desk.survey(two), stop_after=2)
    assert len(first) == 2
    assert desk.survey(two).pending() == 6
    survey = desk.survey([_subject("own_nets:broken"), _subject("no_such_module:net"), *two])
    assert not {*first} & {*desk.run(survey)}
    table = survey.table()
    for name, reason in (("broken", "not today"), ("net", "no module no_such_module")):
        for outcome in _outcomes(table, name).values():
            assert isinstance(outcome, Failed)
            assert outcome.stage == "load"
            assert reason in outcome.message
    chosen = _outcomes(table, "chosen")
    assert isinstance(chosen["cpu fp32", "fp32", "trace"], Failed)
    assert isinstance(chosen["cpu fp32", "fp32", "script, not fused"], Manifest), "scripting keeps the branch"
    assert all(isinstance(outcome, Manifest) for outcome in _outcomes(table, "plain").values())
    assert desk.survey(two).pending() == 0
    failed = [outcome for outcome in chosen.values() if isinstance(outcome, Failed)]
    assert desk.survey(two, retry_failed=True).pending() == len(failed), "only when it is asked for"


@pytest.mark.system
@pytest.mark.long
def test_ctrl_c_loses_nothing_and_the_same_command_goes_on(tmp_path: Path) -> None:
    (tmp_path / "own_nets.py").write_text(OWN)
    words = "own_nets:plain --workspace results --executor inline --backend cpu --precision fp32 --json"
    shape_and_output = ["--input-shape", "1,3,32,32", "--output", "infra/support.md"]
    # Where the model's module lies: the folder that it starts in.
    argv = [sys.executable, str(PROGRAM), *words.split(), *shape_and_output]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    told, asked = [], False
    with subprocess.Popen(
        argv, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    ) as first:
        assert first.stderr is not None
        for line in first.stderr:
            told.append(line)
            # Once: a second one would stop it at once.
            if not asked and line.startswith("Building: 1 of 4"):
                first.send_signal(signal.SIGINT)
                asked = True
    assert first.returncode == 130, "".join(told)
    assert "Nothing is lost" in told[-1]
    kept = {path.name for path in (tmp_path / "results" / "artifacts").iterdir()}
    assert 0 < len(kept) < 4
    second = subprocess.run(argv, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert second.returncode == 0, second.stderr
    assert f"{4 - len(kept)} builds to make of plain" in second.stderr
    (model,) = json.loads(second.stdout)["models"]
    assert [cell["state"] for cell in model["cells"]] == ["verified"] * 4
    assert kept < {cell["build_key"] for cell in model["cells"]}
    assert "| plain | " in (tmp_path / "infra" / "support.md").read_text()


def test_what_cannot_be_meant_is_answered_with_what_to_write(tmp_path: Path) -> None:
    never_made = tmp_path / "never-made"
    for named, options, exit_code, message in (
        (["mobilenet_v2", "sweep.yaml"], [], 2, "is a sweep file"),
        (["sweep.yaml"], ["--weights", "demo"], 2, "is a sweep file"),
        (["mobilenet_v2"], ["--input-shape", "1,3,64"], 2, "not four whole numbers"),
        (["mobilenet_v2"], ["--input-shape", "1,3,0,64"], 2, "not four whole numbers"),
        (["a:net", "b:net"], [], 2, "two models are called net"),
        (["not a name"], [], 1, "write module:function"),
        (["resnet81"], [], 1, "did you mean"),
        (["own:net"], ["--weights", "pretrained"], 1, "no pretrained weights"),
    ):
        words = [*named, *options, "--workspace", str(never_made), "--executor", "inline"]
        ended = CliRunner().invoke(write_support, words)
        assert ended.exit_code == exit_code
        assert message in ended.stderr
    assert not never_made.exists()


def test_the_list_names_every_model_of_the_zoo_with_data_that_fit_its_weights() -> None:
    assert len(LISTED) == 14
    for source in LISTED:
        one = subject(source)
        labelled = one.data.evaluation.source == "digits"
        assert labelled == (one.model.weights == "demo")
        assert one.model.input_shape[2] == (64 if labelled else 224)
    assert subject("vit_b_16", "random", SHAPE).model.arguments == {"image_size": 32}
