"""The dashboard as a real server process."""

import http.client
import socket
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner

from dashboard import web_server
from dashboard.arguments import Options, server_options
from sweeps.cli.main import main
from sweeps.errors import EdgeSweepError
from tests.free_port import free_port
from tests.outside import sent_outside, traced


def test_the_command_hands_over_the_workspace_last(tmp_path: Path) -> None:
    folder = tmp_path / "it's; a $HOME"
    port = free_port()
    argv = web_server.command(Options(folder), port=port)
    assert argv[-3:] == ["--", "--workspace", str(folder)]
    assert argv[argv.index("--server.port") + 1] == str(port)


def test_the_lab_that_the_operator_names_is_known_to_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Options(tmp_path, lab="10.0.0.1:6379", token_file=tmp_path / "token")
    assert lab.lab_options == ("--lab", "10.0.0.1:6379", "--token-file", str(tmp_path / "token"))
    assert Options(tmp_path).lab_options == ()
    monkeypatch.setattr(sys, "argv", ["app.py", *lab.arguments()])
    assert server_options() == lab
    monkeypatch.setenv("EDGESWEEP_LAB", "10.0.0.2:6379")
    assert server_options() == lab
    monkeypatch.setattr(sys, "argv", ["app.py"])
    assert server_options().lab == "10.0.0.2:6379"


def test_without_streamlit_the_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    about = tmp_path / "edgesweep-0.1.0.dist-info" / "METADATA"
    about.parent.mkdir()
    about.write_text("Name: edgesweep\nVersion: 0.1.0\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.delitem(sys.modules, "streamlit", raising=False)
    with pytest.raises(EdgeSweepError, match="the dashboard is not installed") as caught:
        web_server.command(Options(tmp_path))
    assert caught.value.next_step == "pip install 'edgesweep[dashboard]'"


def test_a_server_that_is_slow_to_answer_still_has_its_link_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(web_server, "START_LIMIT_S", 0.0)
    before = set(threading.enumerate())
    web_server.say_when_it_answers("here is the link", "127.0.0.1", free_port())
    for thread in set(threading.enumerate()) - before:
        thread.join()
    assert capsys.readouterr().err == "here is the link\n"


@pytest.mark.strace
@pytest.mark.fault(56, "a real server started", "it listens on loopback only")
def test_it_says_where_once_it_answers_and_listens_and_speaks_on_this_machine_only(tmp_path: Path) -> None:
    port = free_port()
    argv = ["-c", "from sweeps.cli.main import main; main()", "dashboard", "--port", str(port)]
    with subprocess.Popen(
        [*traced(tmp_path / "calls"), sys.executable, *argv, "--workspace", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            output = ""
            while line := process.stdout.readline():
                output += line
                if "it works once" in line:
                    break
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            connection.request("GET", "/_stcore/health")
            assert connection.getresponse().status == http.client.OK, output
            connection.close()
            pids = {process.pid, *(child.pid for child in psutil.Process(process.pid).children(recursive=True))}
            addresses = {
                connection.laddr.ip
                for connection in psutil.net_connections("inet")
                if connection.status == psutil.CONN_LISTEN and connection.pid in pids
            }
            assert addresses == {"127.0.0.1"}
        finally:
            for child in psutil.Process(process.pid).children(recursive=True):
                child.kill()
        output += process.stdout.read()
    assert sent_outside(tmp_path / "calls") == []
    assert output.count(f"http://127.0.0.1:{port}") == 2, output
    assert "URL" not in output


def test_it_has_ended_after_the_block(tmp_path: Path) -> None:
    with web_server.serving(tmp_path, port=free_port()) as port:
        pass
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    with pytest.raises(ConnectionRefusedError):
        connection.request("GET", "/")


def test_a_server_that_cannot_start_says_why(tmp_path: Path) -> None:
    with (
        pytest.raises(EdgeSweepError, match=r"missing\.py"),
        web_server.serving(tmp_path, tmp_path / "missing.py", port=free_port()),
    ):
        pass


def test_secrets_that_others_may_read_are_refused_with_the_way_to_keep_them(tmp_path: Path) -> None:
    secrets = tmp_path / "secrets.toml"
    secrets.touch(mode=0o644)
    ended = CliRunner().invoke(main, ["dashboard", "--workspace", str(tmp_path), "--auth-secrets", str(secrets)])
    assert ended.exit_code == 1
    assert f"others may read the file of secrets {secrets} (mode 0644)" in ended.stderr
    assert f"chmod 600 {secrets}" in ended.stderr
    assert "where a container mounts it, give it the mode 0400 or 0440 there" in ended.stderr.replace("\n", " ")


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o440, 0o640])
def test_secrets_as_containers_mount_them_are_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int) -> None:
    secrets = tmp_path / "secrets.toml"
    secrets.touch()
    secrets.chmod(mode)
    started: list[list[str]] = []
    monkeypatch.setattr("os.execve", lambda _path, argv, _environment: started.append(argv))
    words = ["dashboard", "--workspace", str(tmp_path), "--auth-secrets", str(secrets), "--port", str(free_port())]
    ended = CliRunner().invoke(main, words)
    assert ended.exit_code == 0, ended.output
    assert str(secrets) in started[0]


def test_a_port_that_is_taken_is_named_with_the_way_to_another(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        ended = CliRunner().invoke(main, ["dashboard", "--workspace", str(tmp_path), "--port", str(port)])
    assert ended.exit_code == 1
    assert f"cannot listen on 127.0.0.1:{port}" in ended.stderr
    assert "--port" in ended.stderr
    assert "EdgeSweep listens" not in ended.stderr
