"""The command that people copy."""

from pathlib import Path

import pytest

from sweeps.cli.options import run_command


@pytest.mark.parametrize(
    ("folder", "file", "command"),
    [
        ("edgesweep-data", None, "edgesweep run SWEEP.yaml"),
        ("edgesweep-data", "my nets.yaml", "edgesweep run 'my nets.yaml'"),
        ("results", "s.yaml", "edgesweep run s.yaml --workspace results"),
        ("/elsewhere", None, "edgesweep run SWEEP.yaml --workspace /elsewhere"),
    ],
)
def test_the_command_to_run_on_names_the_file_and_a_workspace_that_is_not_the_usual(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, file: str | None, command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("EDGESWEEP_WORKSPACE", raising=False)
    assert run_command(tmp_path / folder, Path(file) if file else None) == command


def test_the_workspace_of_the_environment_is_the_usual_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGESWEEP_WORKSPACE", str(tmp_path / "here"))
    assert run_command(tmp_path / "here") == "edgesweep run SWEEP.yaml"
