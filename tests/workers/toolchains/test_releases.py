"""Two releases of ONNX Runtime in one sweep: the one before the installed one is really installed, once per machine."""

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from sweeps.cli.main import main
from sweeps.device_facts import VIRTUAL_PHONE
from sweeps.journal.journal import Journal
from sweeps.manifest import Manifest
from sweeps.spec.toolchains import toolchain
from sweeps.workspace import Workspace
from tests.conftest import OWN_NET_INPUTS
from workers.devices.local import local_facts
from workers.runtimes.onnxruntime.runtime import OnnxRuntime
from workers.toolchains import environments

pytestmark = [pytest.mark.system, pytest.mark.runtime("onnxruntime"), pytest.mark.xdist_group("releases")]

OLDER = toolchain("onnxruntime==1.31.1")
"""The newest release before the one in infra/constraints.txt."""
SWEEP = f"""
name: releases
{OWN_NET_INPUTS}
grids:
  - {{runtime: [onnxruntime], precision: [fp32], toolchain: [installed, "{OLDER.text}"]}}
  - {{runtime: [onnxruntime], precision: [int8], toolchain: ["{OLDER.text}"], runner_toolchain: [installed]}}
protocol: {{preset: quick, rounds: 2, warmup_seconds: 0.05, min_seconds: 0.1, iterations: 5, gate: none,
           sentinel_every: 0}}
"""


@pytest.fixture(scope="module")
def older() -> Path:
    """Make it as the command does, with the trial that its first build would make."""
    done = CliRunner().invoke(main, ["toolchain", "add", OLDER.text])
    assert done.exit_code == 0, done.output
    return environments.folder_of(OLDER)


@pytest.mark.usefixtures("older")
def test_both_releases_stand_side_by_side_in_one_ranking(own_folder: Path) -> None:
    (own_folder / "net.py").write_bytes((own_folder / "my_net.py").read_bytes())
    file = own_folder / "releases.yaml"
    file.write_text(SWEEP)
    workspace = Workspace(own_folder / "workspace")
    installed = OnnxRuntime().versions()["onnxruntime"]

    def done(*words: str) -> str:
        ended = CliRunner().invoke(main, [*words, "--workspace", str(workspace.root)])
        assert ended.exit_code == 0, ended.output
        return ended.stdout

    done("run", str(file), "--executor", "inline")
    (device,) = json.loads(done("rank", "--json"))["devices"]
    assert device["not_ranked"] == []
    assert len(device["ranking"]) == 3
    with Journal.open(workspace.journal, read_only=True) as journal:
        ranked = {row.variant: row for row in journal.results.rows("releases")}
    usual = "onnxruntime cpu fp32 nchw"
    by_older = f"{usual} {OLDER.word}"
    (crossed,) = ranked.keys() - {usual, by_older}
    assert crossed.endswith(f" {OLDER.word} run-by-installed")
    built = {name: Manifest.read(workspace.artifact(row.build_key)) for name, row in ranked.items()}
    for name, row in ranked.items():
        ran = OLDER.version if name.endswith(OLDER.word) else installed
        version = OLDER.version if OLDER.word in name else installed
        assert (row.runtime_version, built[name].versions["onnxruntime"]) == (f"onnxruntime {ran}", version), name
    assert len({row.build_key for row in built.values()}) == 3
    # Told apart or not: what two builds of this size are depends on the machine.
    pair = [f"releases:{ranked[name].name}" for name in (by_older, usual)]
    compared = CliRunner().invoke(main, ["compare", *pair, "--json", "--workspace", str(workspace.root)])
    (result,) = json.loads(compared.stdout)["results"]
    assert result["finding"] != "not comparable", result
    argv = ["profile", ranked[by_older].name, "--device", "local", "--iterations", "2", "--json"]
    assert json.loads(done(*argv))["runtime"] == f"onnxruntime {OLDER.version}"


@pytest.mark.compiler
@pytest.mark.usefixtures("older")
def test_a_virtual_phone_runs_the_releases_own_library() -> None:
    runtime = OnnxRuntime()
    phone = replace(local_facts(), exec_context=VIRTUAL_PHONE, abi="x86_64")
    for programs, version in (
        (runtime.programs_of(phone, OLDER.text), OLDER.version),
        (runtime.programs(phone), runtime.versions()["onnxruntime"]),
    ):
        ended = subprocess.run(runtime.introduction(programs["onnx"].path), capture_output=True, check=True)
        assert runtime.identity(ended.stdout).runtime_version == f"onnxruntime {version}"
