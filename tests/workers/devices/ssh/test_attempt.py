"""The scripts of attempts, in the shells of this machine: how a program ended, and what else a shell may do there."""

import shutil
import subprocess
import sys
from pathlib import Path, PurePosixPath

import pytest

from workers.devices.interface import Completed
from workers.devices.remote.attempt import Report
from workers.devices.shell import quoted
from workers.devices.ssh.address import parse
from workers.devices.ssh.attempt import Attempt, leads_attempt
from workers.devices.ssh.board_connection import BoardConnection
from workers.devices.ssh.board_lock import BoardLock


class LocalShell(BoardConnection):
    """Runs scripts in a shell of this machine, in a session of its own as sshd does."""

    def __init__(self, folder: Path, shell: str) -> None:
        super().__init__(parse("nobody@nowhere"), answer_s=10, backoff_s=())
        self._folder = PurePosixPath(folder)
        self.shell_name = shell

    def script(self, script: str, words: str, seconds: float) -> Completed:
        argv = [self.shell_name, "-s", *f"edgesweep-{words}".split()]
        text = f"{{\n{script}\nexit\n}}\n".encode("utf-8", "surrogateescape")
        done = subprocess.run(argv, input=text, capture_output=True, timeout=seconds, start_new_session=True)
        return Completed(exit_code=done.returncode, stdout=done.stdout, stderr=done.stderr)


@pytest.fixture(params=["sh", "bash"])
def connection(request: pytest.FixtureRequest, tmp_path: Path) -> LocalShell:
    if shutil.which(request.param) is None:
        pytest.skip(f"{request.param} is missing; enable with: apt-get install -y {request.param}")
    return LocalShell(tmp_path / "it's a folder", str(request.param))


def run(connection: LocalShell, program: str, before: str = "") -> Report:
    return Attempt(connection, BoardLock(connection), quoted([sys.executable, "-c", program]), "python", before).run(60)


@pytest.mark.parametrize("code", [0, 1, 126, 127, 130 - 1, 137, 139, 255])
def test_an_exit_code_is_one_also_above_128(connection: LocalShell, code: int) -> None:
    assert run(connection, f"import sys; sys.exit({code})").completed.exit_code == code


@pytest.mark.parametrize("signal", [1, 2, 6, 9, 11, 13, 15])
def test_a_signal_is_told_as_one(connection: LocalShell, signal: int) -> None:
    program = "import os, signal, resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0)); "
    program += f"{signal} == 9 or signal.signal({signal}, signal.SIG_DFL); os.kill(os.getpid(), {signal})"
    assert run(connection, program).completed.exit_code == -signal


def test_output_is_kept_apart_byte_for_byte(connection: LocalShell) -> None:
    program = (
        "import sys; sys.stdout.buffer.write(bytes(range(256)) + b'\\n0 x -\\n'); sys.stderr.buffer.write(b'\\xff')"
    )
    done = run(connection, program).completed
    assert (done.exit_code, done.stdout, done.stderr) == (0, bytes(range(256)) + b"\n0 x -\n", b"\xff")


def test_the_report_names_the_boot(connection: LocalShell) -> None:
    assert run(connection, "").boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def test_an_attempt_deletes_the_one_before(connection: LocalShell) -> None:
    first = Attempt(connection, BoardLock(connection), "true", "true")
    first.run(60)
    second = Attempt(connection, BoardLock(connection), "true", "true", first.name)
    second.run(60)
    assert [path.name for path in Path(connection.folder(), "attempts").iterdir()] == [second.name]


def test_only_the_shell_of_an_attempt_leads_one() -> None:
    assert leads_attempt("/bin/sh\0-s\0edgesweep-attempt\0a1b2\0")
    assert not leads_attempt("/bin/sh\0-s\0edgesweep-task\0")
    assert not leads_attempt("/bin/sh\0-c\0x\n/bin/sh\0-s\0edgesweep-attempt\0")
    assert not leads_attempt("grep\0x\0/bin/sh\0-s\0edgesweep-attempt\0")
