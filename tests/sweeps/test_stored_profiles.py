"""Profiles that a workspace keeps: found again, replaced, and left out where they are damaged."""

import json
import os
from pathlib import Path

import pytest

from sweeps.errors import StoreError
from sweeps.stored_profiles import StoredOperator, StoredProfile, place, profiles_of_build, store, store_trace
from sweeps.workspace import Workspace

KEY = "ab" * 32


def profile(**changed: object) -> StoredProfile:
    fields: dict[str, object] = {
        "job": "net · cpu fp32",
        "build_key": KEY,
        "device": "adb:../evil",
        "device_id": "../evil\n",
        "threads": 1,
        "cpus": "all",
        "reuse_input": True,
        "runner": "native-x 1",
        "runtime": "x 1.2",
        "iterations": 3,
        "profiled_iteration_p50_us": 12.5,
        "suffix": "trace.json",
    }
    return StoredProfile.model_validate(fields | changed)


CONV = StoredOperator(name="conv", where="", calls_per_iteration=2, self_us_per_iteration=10.0, percent=80.0)


def test_the_newest_of_each_device_and_way_to_run_is_found_again(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    assert profiles_of_build(workspace, KEY) == ()
    newest = profile(operators=(CONV,))
    trace = store_trace(workspace, newest, {"traceEvents": []})
    assert trace.parent == workspace.profiles / KEY
    store_trace(workspace, newest, {"traceEvents": [1]})
    [entry] = profiles_of_build(workspace, KEY)
    assert (entry.profile, json.loads(entry.file.read_text())) == (newest, {"traceEvents": [1]})
    captured = profile(capture="perfetto", suffix="perfetto-trace")
    place(workspace, captured).write_bytes(b"recorded")
    os.utime(store(workspace, captured), ns=(2**61, 2**61))
    store(workspace, profile(threads=2))
    first, *rest = profiles_of_build(workspace, KEY)
    assert (first.profile, first.file.read_bytes()) == (captured, b"recorded")
    assert {other.profile.threads for other in rest} == {1, 2}
    assert not profiles_of_build(workspace, "cd" * 32)


def test_what_is_damaged_or_not_of_the_build_is_left_out(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    path = store(workspace, profile())
    whole = path.read_text()
    for text in ("", "{}", whole.replace(KEY, "cd" * 32), whole.replace("12.5", "NaN"), whole[:-9], "[" * 100_000):
        path.write_text(text)
        assert profiles_of_build(workspace, KEY) == [], text[:50]
    path.write_text(whole)
    (path.parent / "other.json").write_text(whole)
    assert len(profiles_of_build(workspace, KEY)) == 1
    assert profiles_of_build(workspace, "../../etc") == ()
    with pytest.raises(ValueError, match="suffix"):
        profile(suffix="../x")


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "profiles").write_text("in the way")
    with pytest.raises(StoreError, match="cannot be written"):
        store(Workspace(tmp_path), profile())


def test_a_build_s_key_is_no_way_out_of_the_workspace(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="is no key of a build"):
        place(Workspace(tmp_path / "workspace"), profile(build_key="../../elsewhere"))
    assert list(tmp_path.iterdir()) == []
