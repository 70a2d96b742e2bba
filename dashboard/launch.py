"""Serves the dashboard: address, theme and workspace are arguments, so no file in the user's folder is needed."""

import http.client
import importlib.util
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sweeps.errors import EdgeSweepError

APP = Path(__file__).with_name("app.py")
START_LIMIT_S = 60.0

_OPTIONS: dict[str, str] = {
    "server.headless": "true",
    "server.fileWatcherType": "none",
    "browser.gatherUsageStats": "false",
    "client.toolbarMode": "minimal",
    "client.showErrorDetails": "none",
    "theme.font": "sans-serif",
    "theme.baseRadius": "10px",
    "theme.showWidgetBorder": "true",
    "theme.headingFontSizes": '["2rem", "1.5rem", "1.2rem", "1.05rem", "1rem", "0.9rem"]',
    "theme.headingFontWeights": "[700, 650, 600, 600, 600, 600]",
    "theme.metricValueFontSize": "1.7rem",
    "theme.metricValueFontWeight": "600",
    "theme.light.primaryColor": "#0B5CAD",
    "theme.light.backgroundColor": "#FFFFFF",
    "theme.light.secondaryBackgroundColor": "#F3F6FA",
    "theme.light.textColor": "#17212E",
    "theme.light.borderColor": "#D9E0E8",
    "theme.light.codeBackgroundColor": "#F3F6FA",
    "theme.light.codeTextColor": "#17212E",
    "theme.light.dataframeHeaderBackgroundColor": "#F3F6FA",
    "theme.dark.primaryColor": "#4BA3F0",
    "theme.dark.backgroundColor": "#10161E",
    "theme.dark.secondaryBackgroundColor": "#1A232E",
    "theme.dark.textColor": "#E6EDF5",
    "theme.dark.borderColor": "#2C3947",
    "theme.dark.codeBackgroundColor": "#1A232E",
    "theme.dark.codeTextColor": "#E6EDF5",
    "theme.dark.dataframeHeaderBackgroundColor": "#1A232E",
}


def command(workspace: Path, host: str = "127.0.0.1", port: int = 8501, app: Path = APP) -> list[str]:
    """The argv that serves `workspace` at `http://host:port` until the process is ended.

    By default it listens on this machine only, because the page has no login. Raises `EdgeSweepError` if Streamlit is
    not installed, or the address is in use.
    """
    if importlib.util.find_spec("streamlit") is None:
        raise EdgeSweepError("the dashboard is not installed", "pip install 'edgesweep[dashboard]'")
    _check_free(host, port)
    options = {**_OPTIONS, "server.address": host, "server.port": str(port)}
    flags = [word for name, value in options.items() for word in (f"--{name}", value)]
    return [sys.executable, "-m", "streamlit", "run", str(app), *flags, "--", "--workspace", str(workspace)]


@contextmanager
def serving(workspace: Path, app: Path = APP) -> Iterator[int]:
    """Serve `workspace` on 127.0.0.1 and a free port, which is yielded, while the block runs.

    Raises `EdgeSweepError` with the end of the server's output if it does not answer within 60 s.
    """
    port = _free_port()
    with (
        tempfile.TemporaryFile("w+") as output,
        subprocess.Popen(  # noqa: S603  # our own argument list
            command(workspace, port=port, app=app), stdout=output, stderr=subprocess.STDOUT
        ) as process,
    ):
        try:
            deadline = time.monotonic() + START_LIMIT_S
            while not _answers(port):
                if process.poll() is not None or time.monotonic() > deadline:
                    output.seek(0)
                    raise EdgeSweepError(
                        f"the dashboard did not start: {output.read()[-2000:].strip() or 'it said nothing'}",
                        "run `edgesweep dashboard` to see it start",
                    )
                time.sleep(0.1)
            yield port
        finally:
            # Streamlit's orderly shutdown can wait forever for the connection of a closed browser.
            process.terminate()
            try:
                process.wait(timeout=3)
            except subprocess.TimeoutExpired:
                process.kill()


def _check_free(host: str, port: int) -> None:
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            # As servers do, so that a new one can start right after another one has ended.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        raise EdgeSweepError(
            f"the dashboard cannot listen on {host}:{port}: {error.strerror}",
            f"end the program that listens there, or use another port: edgesweep dashboard --port {port % 65535 + 1}",
        ) from error


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _answers(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
    try:
        connection.request("GET", "/_stcore/health")
        return connection.getresponse().status == http.client.OK
    except OSError:
        return False
    finally:
        connection.close()
