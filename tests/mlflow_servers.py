"""A real server of MLflow that a test stops and starts, and a proxy before them that misbehaves."""

import http.client
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.faults import seen
from tests.free_port import free_port

_START_S = 300.0
MODES = ("slow", "500", "429", "lost")


class MlflowServer:
    """`mlflow server` on a store of its own. `start()` and `stop()`, as often as wanted."""

    def __init__(self, folder: Path, store_uri: str) -> None:
        self.port = free_port()
        self.uri = f"http://127.0.0.1:{self.port}"
        self._log = folder / "mlflow-server.log"
        self._words = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(self.port)]
        self._words += ["--workers", "1", "--backend-store-uri", store_uri]
        self._words += ["--artifacts-destination", str(folder / "server-artifacts")]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        # The server's processes for jobs that nobody sends are most of its start.
        without = {"MLFLOW_DISABLE_TELEMETRY": "1", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._words, stdout=log, stderr=log, start_new_session=True, env=os.environ | without
            )
        deadline = time.monotonic() + _START_S
        while not self._answers():
            assert self._process.poll() is None, self._log.read_text()
            assert time.monotonic() < deadline, self._log.read_text()

    def stop(self) -> None:
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def _answers(self) -> bool:
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)) as connection:
            try:
                connection.request("GET", "/health")
                return connection.getresponse().status == 200
            except OSError:
                time.sleep(0.1)
                return False


class Proxy(ThreadingHTTPServer):
    """A proxy that hands requests on to a server, and harms some of those that write, in each of the `MODES` in
    turn."""

    daemon_threads = True

    def __init__(self, port: int, every: int = 3) -> None:
        """Harms every so manieth. `slow`: a second later; `lost`: done, without a reply."""
        super().__init__(("127.0.0.1", 0), _Handler)
        self.to, self.every = port, every
        self.writes = 0
        self.harmed: list[str] = []
        self.uri = f"http://127.0.0.1:{self.server_port}"
        self._lock = threading.Lock()

    @contextmanager
    def serving(self) -> Iterator[None]:
        thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield
        finally:
            self.shutdown()
            thread.join()
            self.server_close()

    def harm(self, method: str, path: str) -> str:
        """The mode in which to harm this request; empty for none."""
        if method == "GET" or "/search" in path or not self.every:
            return ""
        with self._lock:
            self.writes += 1
            if self.writes % self.every:
                return ""
            self.harmed.append(MODES[len(self.harmed) % len(MODES)])
            seen.injected()
            return self.harmed[-1]


class _Handler(BaseHTTPRequestHandler):
    server: Proxy

    def _relay(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        mode = self.server.harm(self.command, self.path)
        if mode in ("500", "429"):
            self.send_response(int(mode))
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        if mode == "slow":
            time.sleep(1.0)
        headers = {name: value for name, value in self.headers.items() if name != "Host"}
        with closing(http.client.HTTPConnection("127.0.0.1", self.server.to)) as connection:
            connection.request(self.command, self.path, body, headers)
            answer = connection.getresponse()
            content = answer.read()
        if mode == "lost":
            self.close_connection = True
            return
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.headers.get("Content-Type", "application/json"))
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_GET(self) -> None:
        self._relay()

    def do_POST(self) -> None:
        self._relay()

    def do_PUT(self) -> None:
        self._relay()

    def do_PATCH(self) -> None:
        self._relay()

    def do_DELETE(self) -> None:
        self._relay()

    def log_message(self, *_: object) -> None:
        pass
