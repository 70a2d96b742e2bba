"""Pages keep what they have read of the store as long as nothing has changed there."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from dashboard import data
from dashboard.source import EVIDENCE_KEYS, KEYS, ResultTable, Source
from sweeps.journal.journal import Journal
from sweeps.planning.plan import Plan
from sweeps.spec.model_inputs import DataSpec, FolderData
from sweeps.workspace import Workspace
from tests.dashboard.conftest import BOARD, Recorder, by_axes, by_hand

Page = Callable[..., AppTest]


@pytest.mark.fault(54, "a sweep recorded beside an open page", "shown when the page is drawn again")
def test_a_sweep_that_is_recorded_beside_an_open_page_is_there_at_the_next_look(
    page: Page, tmp_path: Path, recorder_in: Callable[[Path], Callable[[str], None]]
) -> None:
    record = recorder_in(tmp_path)
    record("first")
    shown = page(tmp_path, "fleet")
    assert list(shown.dataframe[0].value["Sweep"]) == ["first"]
    record("second")
    shown.run()
    assert sorted(shown.dataframe[0].value["Sweep"]) == ["first", "second"]


def test_figures_that_are_imported_beside_an_open_page_are_there_at_the_next_look(
    page: Page, tmp_path: Path, recorder_in: Callable[[Path], Callable[[str], None]]
) -> None:
    recorder_in(tmp_path)("first")
    shown = page(tmp_path, "decide")
    assert not [frame for frame in shown.dataframe if "Mean (ms)" in frame.value]
    with Journal.open(Workspace(tmp_path).journal) as journal:
        journal.imports.add("first", by_hand(BOARD))
    shown.run()
    [figures] = [frame.value for frame in shown.dataframe if "Mean (ms)" in frame.value]
    assert list(figures["Mean (ms)"]) == [0.767]


def test_a_new_result_does_not_list_a_folder_of_images_again(tmp_path: Path) -> None:
    images, recorder = tmp_path / "images" / "cat", Recorder(Workspace.open(tmp_path / "own"))
    images.mkdir(parents=True)
    (images / "1.png").touch()
    folder = DataSpec(evaluation=FolderData(source="folder", path=images.parent))

    def of_folder(plan: Plan) -> Plan:
        return replace(plan, sweep=plan.sweep.model_copy(update={"data": folder}))

    def text_of(sweep: str) -> list[str]:
        recorder.record(sweep, by_axes, edit=of_folder)
        now = data.source(recorder.workspace.root)
        assert now is not None
        return [text for name in ("first", sweep) for text in data.more_images(now, name)]

    first = text_of("first")
    assert first[0] == f"Evaluation images: all 1 in {images.parent} are used; add more to it"
    (images / "2.png").touch()
    assert text_of("second") == first, "kept for minutes"
    data._more_images.clear()
    assert text_of("third")[0].startswith("Evaluation images: all 2 in ")


def test_pages_are_kept_until_a_file_that_they_read_has_changed() -> None:
    own = ResultTable(Path("own"), Path("v"), epoch=1, seq=5, plans=(("phones", 3), ("both", 4)), imported=0)
    copy = replace(own, path=Path("copy"), plans=(("both", 1), ("theirs", 2)))
    now = Source(own, copy)
    assert [now.of(sweep) for sweep in ("phones", "both", "theirs")] == [own, own, copy]
    assert [now.knows_jobs(sweep) for sweep in ("phones", "both", "theirs")] == [True, True, False]
    assert dict(now.plans) == {"phones": 3, "both": 4, "theirs": 2}
    assert Source(None, copy).of("both") == Source(None, copy).measured == copy
    results, evidence = KEYS[Source], EVIDENCE_KEYS[Source]
    changes = [Source(replace(own, seq=6), copy), Source(own, replace(copy, seq=6)), Source(own), Source(None, copy)]
    assert len({results(source) for source in (now, *changes)}) == 1 + len(changes)
    assert evidence(changes[1]) == evidence(now) != evidence(changes[0])
