"""What is taken out of a workspace: a file, and what to expect of it."""

import hashlib
from pathlib import Path

import pytest

from sweeps.errors import EdgeSweepError
from sweeps.export import Shipped, export_candidate
from sweeps.frame import to_frame
from sweeps.rank import rank
from sweeps.spec import ObjectiveSpec
from sweeps.verdict import TIMED
from sweeps.workspace import Workspace

MODEL = b"a model"
FREE = ObjectiveSpec(constraints=())


@pytest.fixture
def workspace(tmp_path, records) -> Workspace:
    """With the artifacts of the timed job 0 and of the checked job 1."""
    made = Workspace.open(tmp_path / "workspace")
    for job in (records.job(0), records.checked_job(1)):
        folder = made.artifact(job.build_key)
        folder.mkdir(parents=True)
        (folder / "model.pt").write_bytes(MODEL)
        digest = hashlib.sha256(MODEL).hexdigest()
        records.manifest(job).model_copy(update={"file_sha256": digest}).write(folder)
    return made


@pytest.fixture
def export(workspace, records, tmp_path):
    frame = to_frame([records.row(records.job(0)), records.row(records.checked_job(1), ms=None)])
    frame.loc[frame["emulated"], "top1_percent"] = 99.5

    def run(job: str | None = None, objective: ObjectiveSpec = FREE) -> Shipped:
        ranking = rank(frame, objective, "s")
        return export_candidate(ranking, frame, workspace, model=None, job=job, output=tmp_path / "out")

    return run


def test_the_winner_is_exported_with_its_figures(export, tmp_path: Path, records) -> None:
    expected = export().expected
    assert (tmp_path / "out/model.pt").read_bytes() == MODEL
    assert (expected.timed, expected.executor) == (True, records.facts.fingerprint)
    assert expected.figures["latency_p50_ms"] == 10.0


def test_what_was_only_checked_is_exported_by_name_and_said_to_be_not_timed(export, tmp_path: Path) -> None:
    export("net · nnapi fp32 nchw")
    shipped = Shipped.model_validate_json((tmp_path / "out/manifest.json").read_bytes())
    expected = shipped.expected
    assert shipped.artifact.backend == "nnapi"
    assert (expected.timed, expected.executor, expected.rounds) == (False, "reference:nnapi@1", 0)
    assert expected.figures["top1_percent"] == 99.5
    assert not expected.figures.keys() & TIMED


def test_a_winner_that_was_only_checked_is_said_to_be_not_timed(export) -> None:
    expected = export(objective=ObjectiveSpec(maximize="top1_percent", constraints=())).expected
    assert (expected.job, expected.timed) == ("net · nnapi fp32 nchw", False)


def test_a_name_that_is_not_there_is_refused(export) -> None:
    with pytest.raises(EdgeSweepError, match="net · nothing"):
        export("net · nothing")
