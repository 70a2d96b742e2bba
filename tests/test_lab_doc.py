"""The files of `infra/` that start a lab are valid."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from sweeps.cli.main import main
from sweeps.spec import catalog
from workers.devices.ssh.discovery import VARIABLE

UNIT = Path(__file__).parents[1] / "infra" / "edgesweep-host.service"


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None,
    reason="systemd-analyze is missing; enable with: apt-get install -y systemd",
)
@pytest.mark.parametrize(("wrong", "complains"), [("", False), ("Restart=sometimes", True)], ids=["as it is", "wrong"])
def test_systemd_accepts_the_unit_of_a_host(tmp_path: Path, wrong: str, complains: bool) -> None:
    # The program is only where a person has installed it.
    text = re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", UNIT.read_text(), flags=re.MULTILINE)
    unit = tmp_path / UNIT.name
    unit.write_text(text.replace("Restart=on-failure", wrong) if wrong else text)
    checked = subprocess.run(
        ["systemd-analyze", "verify", "--user", str(unit)],
        env={"XDG_RUNTIME_DIR": str(tmp_path), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert checked.returncode == 0
    assert (checked.stderr != "") == complains, checked.stderr


def test_the_unit_can_name_boards() -> None:
    (line,) = re.findall(r"^#Environment=(.+)$", UNIT.read_text(), re.MULTILINE)
    (word,) = shlex.split(line)
    name, _, value = word.partition("=")
    assert name == VARIABLE
    assert all(catalog.device(f"ssh:{board}") for board in value.split())


def test_the_unit_starts_a_command_that_there_is() -> None:
    (line,) = re.findall(r"^ExecStart=(.+)$", UNIT.read_text(), re.MULTILINE)
    program, *words = shlex.split(line)
    assert program.endswith("/edgesweep")
    group = main.commands["host"].make_context("host", ["join"]).command
    join = group.commands["join"]  # type: ignore[attr-defined]
    assert words[:2] == ["host", "join"]
    assert join.make_context("join", words[2:]).params["head"] == "10.0.0.5:6379"
