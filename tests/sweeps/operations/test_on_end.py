"""A real program and a real server are told how a sweep ended."""

import json
import sqlite3
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from sweeps.errors import WorkspaceError
from sweeps.launching.text_check import check
from sweeps.operations import on_end
from sweeps.operations.on_end import told_at_the_end
from sweeps.spec.ending import OnEndSpec
from sweeps.spec.sweep import SweepSpec, sweep_yaml
from sweeps.workspace import Workspace

SPEC = "name: {}\nmodels: [{{source: mobilenet_v2, weights: random, input_shape: [1, 3, 64, 64]}}]\ngrids: [{{}}]\n"


def spec(**options: object) -> SweepSpec:
    return SweepSpec.model_validate(
        {
            "name": "night",
            "models": [{"source": "mobilenet_v2", "weights": "random", "input_shape": (1, 3, 64, 64)}],
            "grids": ({},),
            "on_end": OnEndSpec(**options),  # type: ignore[arg-type]
        },
        strict=False,
    )


def writes_to(path: Path) -> tuple[str, ...]:
    return sys.executable, "-c", "import sys; open(sys.argv[1], 'wb').write(sys.stdin.buffer.read())", str(path)


@pytest.fixture
def posted() -> Iterator[tuple[str, list[bytes]]]:
    """An address, and what was posted to it; `/moved` leads elsewhere."""
    bodies: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.path == "/moved":
                self.send_response(307)
                self.send_header("Location", "/elsewhere")
            else:
                bodies.append(body)
                self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", bodies
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_program_and_an_address_are_told_how_it_ended(tmp_path: Path, posted: tuple[str, list[bytes]]) -> None:
    address, bodies = posted
    workspace = Workspace.open(tmp_path / "ws")
    with told_at_the_end(spec(command=writes_to(tmp_path / "told"), webhook=f"{address}/end"), workspace):
        pass
    summary = json.loads((tmp_path / "told").read_bytes())
    assert (summary["sweep"], summary["state"], summary["places"]) == ("night", "finished", [])
    assert [json.loads(body) for body in bodies] == [summary]


def test_a_run_that_stops_in_order_tells_it(tmp_path: Path) -> None:
    requested = spec(command=writes_to(tmp_path / "told"))
    with told_at_the_end(requested, Workspace.open(tmp_path / "ws")) as end:
        end.stopped = True
    assert json.loads((tmp_path / "told").read_bytes())["state"] == "stopped"


@pytest.mark.parametrize(("raised", "state"), [(KeyboardInterrupt, "stopped"), (SystemExit, "failed")])
def test_a_run_that_is_ended_tells_it_and_is_ended(tmp_path: Path, raised: type[BaseException], state: str) -> None:
    requested = spec(command=writes_to(tmp_path / "told"))
    with pytest.raises(raised), told_at_the_end(requested, Workspace.open(tmp_path / "ws")):
        raise raised
    assert json.loads((tmp_path / "told").read_bytes())["state"] == state


def test_a_run_that_another_one_keeps_from_beginning_tells_nothing(tmp_path: Path) -> None:
    requested = spec(command=writes_to(tmp_path / "told"))
    with pytest.raises(WorkspaceError), told_at_the_end(requested, Workspace.open(tmp_path / "ws")):
        raise WorkspaceError("another run has it")
    assert not (tmp_path / "told").exists()


def test_the_program_s_own_output_is_not_that_of_the_run(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    requested = spec(command=(sys.executable, "-c", "print('taken')"))
    with told_at_the_end(requested, Workspace.open(tmp_path / "ws")):
        pass
    printed = capfd.readouterr()
    assert (printed.out, printed.err.strip()) == ("", "taken")


def test_nothing_of_it_is_stored_or_reported() -> None:
    requested = spec(command=("curl", "-H", "secret"), webhook="https://hooks.example/secret")
    assert "secret" not in requested.kept_json() + sweep_yaml(requested)


def test_what_fails_in_it_is_told_and_costs_nothing(
    tmp_path: Path, posted: tuple[str, list[bytes]], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_end, "COMMAND_S", 0.2)
    workspace = Workspace.open(tmp_path / "ws")
    address, bodies = posted
    for options in (
        {"command": ("no-such-program",)},
        {"command": (sys.executable, "-c", "raise SystemExit(3)")},
        {"command": ("true", "\0")},
        {"command": (sys.executable, "-c", "import time; time.sleep(60)")},
        {"webhook": "http://127.0.0.1:1/"},
        {"webhook": f"{address}/moved"},
    ):
        with told_at_the_end(spec(**options), workspace):
            pass
        assert "on_end: the" in capsys.readouterr().err
    assert bodies == []


@pytest.mark.parametrize("broken", [sqlite3.OperationalError("disk I/O error"), OSError("no such device")])
def test_results_that_cannot_be_read_are_left_out_and_the_end_is_told_all_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, broken: Exception
) -> None:
    def refused(*_: object) -> None:
        raise broken

    monkeypatch.setattr(on_end, "overview", refused)
    with told_at_the_end(spec(command=writes_to(tmp_path / "told")), Workspace.open(tmp_path / "ws")):
        pass
    summary = json.loads((tmp_path / "told").read_bytes())
    assert (summary["state"], summary["places"]) == ("finished", [])
    assert str(broken) in capsys.readouterr().err


def test_a_sweep_that_is_started_in_the_browser_tells_nobody(tmp_path: Path) -> None:
    text = SPEC.format("night") + "on_end: {command: [touch, /tmp/x]}\n"
    checked = check(Workspace.open(tmp_path), text)
    assert checked.spec is None
    assert [(problem.line, problem.message[:6]) for problem in checked.problems] == [(4, "on_end")]


@pytest.mark.parametrize("address", ["file:///etc/passwd", "ftp://x/", "http://", "example"])
def test_an_address_is_one_of_the_web(address: str) -> None:
    with pytest.raises(ValueError, match="http"):
        OnEndSpec(webhook=address)
