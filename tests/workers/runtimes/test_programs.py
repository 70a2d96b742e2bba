"""A device gets the program for the ABI that it tells."""

from dataclasses import replace
from pathlib import Path

import pytest

from sweeps.errors import BuildError
from workers.devices.local import local_facts
from workers.native.android import BESIDE
from workers.runtimes.torchscript import programs


@pytest.mark.parametrize("abi", ["..", "../x86_64", "/etc", "", "a" * 99, "x86_64\n"])
def test_an_abi_that_is_none_leads_to_no_file_of_the_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, abi: str
) -> None:
    (tmp_path / "runners").mkdir()
    monkeypatch.setenv(programs.FOLDER_VARIABLE, str(tmp_path / "runners"))
    for folder in (tmp_path, tmp_path / "x86_64"):
        folder.mkdir(exist_ok=True)
        (folder / "edgesweep_runner_full").touch()
    with pytest.raises(BuildError) as caught:
        programs.programs(replace(local_facts(), abi=abi))
    assert caught.value.kind == "no_runner"


def test_an_abi_without_a_runner_names_the_files_that_would_be_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(programs.FOLDER_VARIABLE, str(tmp_path))
    riscv = replace(local_facts(), abi="riscv64")
    with pytest.raises(BuildError, match="edgesweep_runner_full") as caught:
        programs.programs(riscv)
    assert "riscv64" in caught.value.message
    assert "explain android-runtime" in caught.value.next_step
    (tmp_path / "riscv64").mkdir()
    lite = tmp_path / "riscv64" / "edgesweep_runner_lite"
    lite.touch()
    assert set(programs.programs(riscv)) == {"ptl"}
    # An app needs the program itself beside the model, with what lies beside it.
    beside = lite.with_name(f"{lite.name}{BESIDE}")
    beside.mkdir()
    lite.write_bytes(bytes(2_000_000))
    (beside / "libpytorch_jni_lite.so").write_bytes(bytes(500_000))
    assert programs.programs(riscv)["ptl"].library_mb == 2.5


def test_a_phone_of_the_host_s_own_abi_is_brought_nothing_of_the_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(programs.FOLDER_VARIABLE, str(tmp_path))
    with pytest.raises(BuildError) as caught:
        programs.programs(local_facts())
    assert caught.value.kind == "no_runner"
