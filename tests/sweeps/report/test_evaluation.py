"""Where images would settle a constraint, it is said whether there are more of them."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from dashboard.report.html import page
from dashboard.report.markdown import markdown
from sweeps.ranking.overview import verdicts_of
from sweeps.ranking.rank import rank_rows
from sweeps.report.evaluation import images_document, more_images, more_images_of
from sweeps.results import ResultRow
from sweeps.spec.model_inputs import DataSpec, FolderData, SyntheticData
from sweeps.spec.sweep import SweepSpec
from sweeps.stats import drop_of


@pytest.fixture
def spec(records, tmp_path: Path) -> SweepSpec:
    """A sweep with 200 of 300 images."""
    for number in range(300):
        path = tmp_path / f"class_{number % 2}" / f"{number}.png"
        path.parent.mkdir(exist_ok=True)
        path.touch()
    folder = FolderData(source="folder", path=tmp_path, images=200)
    data = DataSpec(calibration=SyntheticData(source="synthetic"), evaluation=folder)
    return records.plan().sweep.model_copy(update={"data": data})


def row_of(records, lost: int, gained: int) -> ResultRow:
    drop = drop_of(lost, gained, 200)
    row = records.row(records.job(0), images=200)
    named = ("accuracy_drop_points", "accuracy_drop_low_points", "accuracy_drop_high_points")
    row.metrics.update(zip(named, (drop.value, drop.low, drop.high), strict=True))
    return row


def test_tables_overview_and_reports_name_an_open_constraint_and_no_settled_one(records, spec, tmp_path):
    ranked = rank_rows([row_of(records, 2, 1)], spec.objective, "s")
    notes = list(more_images(spec, ranked))
    assert notes == [
        f"Evaluation images: 200 of 300 in {tmp_path} are used; data: evaluation: images: 300 uses the others too"
    ]
    assert list(more_images_of(spec, verdicts_of("s", ranked.devices, []))) == notes
    assert "200 of 300 in" in markdown("s", [], objective="", version="1", notes=notes)
    updated = datetime(2026, 11, 1, tzinfo=UTC)
    assert notes[0] in page("s", [], objective="", updated=updated, version="1", sweep_file="", notes=notes)
    assert images_document(spec, ranked) == {"used": 200, "there": 300, "where": str(tmp_path)}
    broken = rank_rows([row_of(records, 90, 0)], spec.objective, "s")
    assert [*more_images(spec, broken), *more_images_of(spec, verdicts_of("s", broken.devices, []))] == []
    assert images_document(spec, broken) is None
