"""A build that is taken out of a workspace is a file with what to expect of it."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

from sweeps.errors import EdgeSweepError
from sweeps.protocol.presets import resolve
from sweeps.ranking.comparison_input import Result, differing
from sweeps.ranking.exported_build import Shipped, export_candidate, read_shipped
from sweeps.ranking.rank import rank
from sweeps.ranking.session_ratio import sessions, together
from sweeps.results import read_rows, to_frame
from sweeps.settled import Settled
from sweeps.spec.catalog import TIMED
from sweeps.spec.objective import ObjectiveSpec
from sweeps.spec.protocol import GateSpec, ProtocolSpec
from sweeps.workspace import Workspace

MODEL = b"a model"
FREE = ObjectiveSpec(constraints=())
PROTOCOL = resolve(ProtocolSpec(preset="quick", min_seconds=0.25, gate=GateSpec(max_cpu_temp_c=55.0)))


@pytest.fixture
def workspace(tmp_path, records) -> Workspace:
    """A workspace with the artifacts of the timed job 0 and of the checked job 1."""
    workspace = Workspace.open(tmp_path / "workspace")
    for job in (records.job(0), records.checked_job(1)):
        folder = workspace.artifact(job.build_key)
        folder.mkdir(parents=True)
        (folder / "model.pt").write_bytes(MODEL)
        digest = hashlib.sha256(MODEL).hexdigest()
        records.manifest(job).model_copy(update={"file_sha256": digest}).write(folder)
    return workspace


@pytest.fixture
def export(workspace, records, tmp_path):
    protocol = json.dumps(PROTOCOL.comparable())

    def run(job: str | None = None, objective: ObjectiveSpec = FREE, **changes: object) -> Shipped:
        timed = records.row(records.job(0), protocol=protocol, gate="gated", grid="g", **changes)
        frame = to_frame([timed, records.row(records.checked_job(1), ms=None)])
        frame.loc[frame["emulated"], "top1_percent"] = 99.5
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


def test_a_manifest_says_how_it_was_measured_so_that_it_can_be_measured_alike(export, tmp_path: Path) -> None:
    export()
    expected = read_shipped(tmp_path / "out/manifest.json").expected
    assert expected.block_medians_ms == (10.0, 10.0, 10.0)
    assert expected.protocol is not None
    again = expected.protocol.resolve()
    assert again.comparable() == PROTOCOL.comparable()
    assert again.gate is not None
    assert again.gate.max_cpu_temp_c == 55.0


def test_a_manifest_is_comparable_with_the_row_that_it_came_from(export, tmp_path: Path, records) -> None:
    export()
    path = tmp_path / "out/manifest.json"
    row = records.row(records.job(0), protocol=json.dumps(PROTOCOL.comparable()), gate="gated", grid="g")
    (measured,) = (Result.of_row(row) for row in read_rows(to_frame([row]), "s"))
    shipped = read_shipped(path).comparable(path)
    assert differing(measured, shipped) == []
    assert shipped == replace(measured, trust=shipped.trust)


def test_a_manifest_names_its_runs_and_sessions_and_older_manifests_are_one_session(
    export, tmp_path: Path, records
) -> None:
    first, second = 1_790_000_000, 1_790_100_000
    visits = ((first * 1000, 10.0), (first * 1000 + 1, 10.1), ((second + 5) * 1000 + 2, 10.2))
    export(block_medians_ms=visits, sessions=(first, second))
    path = tmp_path / "out/manifest.json"
    comparable = read_shipped(path).comparable(path)
    assert [origin.run for origin in comparable.origins] == [str(first), str(first), str(second + 5)]
    assert [origin.session for origin in comparable.origins] == [first, first, second]
    document = json.loads(path.read_text())
    del document["expected"]["block_runs"], document["expected"]["sessions"]
    path.write_text(json.dumps(document))
    older = read_shipped(path).comparable(path)
    assert sessions(older) == 1
    assert not together(comparable, older)


def test_a_manifest_with_too_few_runs_is_refused(export, tmp_path: Path) -> None:
    export()
    path = tmp_path / "out/manifest.json"
    document = json.loads(path.read_text())
    document["expected"]["block_runs"].pop()
    path.write_text(json.dumps(document))
    with pytest.raises(EdgeSweepError, match="another number of runs"):
        read_shipped(path)


@pytest.mark.parametrize("missing", ["protocol", "block_medians_ms"])
def test_a_manifest_of_an_older_version_cannot_be_compared_and_says_what_to_do(
    export, tmp_path: Path, missing: str
) -> None:
    export()
    path = tmp_path / "out/manifest.json"
    document = json.loads(path.read_text())
    del document["expected"][missing]
    path.write_text(json.dumps(document | {"schema_version": 1}))
    with pytest.raises(EdgeSweepError, match="older EdgeSweep") as caught:
        read_shipped(path).comparable(path)
    assert "edgesweep export" in caught.value.next_step


def test_what_was_only_checked_cannot_be_compared_by_time(export, tmp_path: Path) -> None:
    export("net · nnapi fp32 nchw")
    path = tmp_path / "out/manifest.json"
    with pytest.raises(EdgeSweepError, match="holds no time"):
        read_shipped(path).comparable(path)


@pytest.mark.parametrize(
    ("part", "key", "value"),
    [
        ("artifact", "build_key", "../../home"),
        ("artifact", "file", "../../etc/passwd"),
        ("artifact", "file", ".hidden"),
        ("artifact", "file_sha256", "short"),
        ("artifact", "variant", {"runtime": 3}),
        ("artifact", "variant", {"unknown": "x"}),
        ("expected", "block_medians_ms", [-1.0]),
        ("expected", "block_medians_ms", [float("inf")]),
        ("expected", "protocol", {"preset": "quick"}),
        ("expected", "surprise", 1),
    ],
)
def test_a_manifest_that_is_not_one_is_refused(export, tmp_path: Path, part: str, key: str, value: object) -> None:
    export()
    path = tmp_path / "out/manifest.json"
    document = json.loads(path.read_text())
    document[part][key] = value
    path.write_text(json.dumps(document))
    with pytest.raises(EdgeSweepError, match=r"manifest\.json cannot be read"):
        read_shipped(path)


def test_a_manifest_that_is_not_there_is_an_error_with_its_path(tmp_path: Path) -> None:
    with pytest.raises(EdgeSweepError, match=r"nowhere\.json"):
        read_shipped(tmp_path / "nowhere.json")


def test_a_build_of_batches_only_is_exported_by_name_and_says_that_it_has_no_time(
    workspace, records, tmp_path: Path
) -> None:
    ended = Settled(job_key="", budget="race", rounds=0, reason="best", message="", batches=6, batches_decide=True)
    row = records.row(records.job(0), name="net · left", protocol=json.dumps(PROTOCOL.comparable()))
    metrics = {name: value for name, value in row.metrics.items() if not name.startswith("latency")}
    beside = replace(ended, by_key="the winner", ratio=1.01, ratio_low=0.99, ratio_high=1.03)
    row = replace(row, metrics=metrics, block_medians_ms=(), check_medians_ms=((7, 10.0),), settled=beside)
    frame = to_frame([row])
    ranking = rank(frame, FREE, "s")
    shipped = export_candidate(ranking, frame, workspace, model=None, job="left", output=tmp_path / "out")
    assert (shipped.expected.timed, shipped.expected.in_batches) == (False, True)
    assert shipped.expected.block_medians_ms == (), "the block that checks batches is no time"
    assert not any(name.startswith("latency") for name in shipped.expected.figures)
    path = tmp_path / "out/manifest.json"
    with pytest.raises(EdgeSweepError, match="was measured in batches only"):
        read_shipped(path).comparable(path)
