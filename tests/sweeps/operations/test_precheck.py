"""The start of a run."""

from pathlib import Path

from sweeps.launching.live_report import LiveFile
from sweeps.operations.precheck import unusable
from sweeps.report.progress import RunProgress
from sweeps.spec.model_inputs import DataSpec, FolderData, ModelSpec, SyntheticData
from sweeps.workspace import Workspace
from tests.brightness import checkpoints, pictures


def test_each_model_is_told_of_before_it_is_tried_and_none_after_an_end_is_asked_for(tmp_path: Path, capsys) -> None:
    models = [ModelSpec(name=name, source=f"nowhere:{name}", weights="random") for name in ("first", "second")]
    workspace, answers = Workspace(tmp_path), iter([False, True])
    with RunProgress() as progress, LiveFile(workspace.live, "s") as live:
        refusals = unusable(models, DataSpec(), (tmp_path,), workspace, progress, live, lambda: next(answers))
    assert list(refusals) == ["first"]
    messages = capsys.readouterr().err
    assert messages.index("Trying first ...") < messages.index("first cannot be used: ")
    assert "second" not in messages


def test_what_a_run_tries_lies_in_its_workspace(tmp_path: Path) -> None:
    """The files lie not in the system's folder, which may be small."""
    workspace = Workspace(tmp_path)
    workspace.temporary.touch()
    models = [ModelSpec(name="first", source="mobilenet_v2", weights="random")]
    with RunProgress() as progress, LiveFile(workspace.live, "s") as live:
        refusals = unusable(models, DataSpec(), (tmp_path,), workspace, progress, live, lambda: False)
    assert refusals["first"].message.startswith(f"{workspace.temporary} cannot take what the model is tried with: ")


def test_more_outputs_than_folders_are_told_of_weights_that_were_trained(tmp_path: Path, capsys) -> None:
    checkpoints(tmp_path)
    source = FolderData(source="folder", path=pictures(tmp_path / "photos", "0 dark", "1 even", "2 bright", each=1))
    data, shape = DataSpec(calibration=SyntheticData(source="synthetic"), evaluation=source), (1, 3, 16, 16)
    models = [
        ModelSpec(name=weights, source="nets:make", weights=path, arguments={"outputs": 7}, input_shape=shape)
        for weights, path in (("trained", str(tmp_path / "make.pt")), ("untrained", "random"))
    ]
    workspace = Workspace(tmp_path)
    with RunProgress() as progress, LiveFile(workspace.live, "s") as live:
        assert not unusable(models, data, (tmp_path,), workspace, progress, live, lambda: False)
    messages = " ".join(capsys.readouterr().err.split())
    assert "trained: it answers 7 classes, the evaluation folder has 3" in messages
    assert "untrained: it answers" not in messages
