"""The start of the dashboard's server. Address, theme and workspace are arguments, so that no file in the user's folder
is needed."""

import http.client
import importlib.util
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil

from dashboard.arguments import Options
from sweeps.errors import EdgeSweepError
from sweeps.extras import install_line
from sweeps.retry import tries

APP = Path(__file__).with_name("app.py")
SERVER = APP.with_name("serve.py")
START_LIMIT_S = 60.0
_LOOK_S = 0.1
TOKEN_VARIABLE = "EDGESWEEP_DASHBOARD_TOKEN"  # noqa: S105  # a name
"""Environment variable with the token of the first link. The server removes it from its environment."""

SAYS_VARIABLE = "EDGESWEEP_DASHBOARD_SAYS"
"""Environment variable with the text that the server prints once it answers, or after 60 s. The server removes it from
its environment, too."""

_OPTIONS: dict[str, str] = {
    "server.headless": "true",
    "server.fileWatcherType": "none",
    "server.enableAgentApi": "false",
    "server.maxUploadSize": "1",
    "logger.hideWelcomeMessage": "true",
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


def command(
    options: Options,
    host: str = "127.0.0.1",
    port: int = 8501,
    app: Path = SERVER,
    names: Sequence[str] = (),
    auth_secrets: Path | None = None,
) -> list[str]:
    """Return the argv that serves a workspace at `http://host:port` until the process is ended.

    By default the server listens on this machine only. It accepts requests under this machine's addresses and name, and
    under `names`. `auth_secrets`: Streamlit's file with the section `auth`, for people who log in. Raises
    `EdgeSweepError` if a package is not installed, or the address is in use.
    """
    for package, needed in (("streamlit", True), ("authlib", options.login), ("httpx", options.login)):
        if needed and importlib.util.find_spec(package) is None:
            purpose = "the dashboard" if package == "streamlit" else f"{package}, which a login needs,"
            raise EdgeSweepError(f"{purpose} is not installed", install_line("dashboard"))
    _check_free(host, port)
    settings = {**_OPTIONS, "server.address": host, "server.port": str(port)}
    flags = [word for name, value in settings.items() for word in (f"--{name}", value)]
    flags += [word for name in _own_names(host, names) for word in ("--server.allowedHosts", name)]
    flags += [] if auth_secrets is None else ["--secrets.files", str(auth_secrets)]
    return [sys.executable, "-m", "streamlit", "run", str(app), *flags, "--", *options.arguments()]


def _own_names(host: str, names: Sequence[str]) -> list[str]:
    """Return the host names and addresses by which browsers may call this server. Requests under other names are
    refused: another person may have pointed such a name here."""
    hosts = ["127.0.0.1", "localhost", "::1"]
    if host not in hosts:
        own = [address.address for addresses in psutil.net_if_addrs().values() for address in addresses]
        hosts += [host, socket.gethostname(), *(address.partition("%")[0] for address in own)]
    return list(dict.fromkeys(name.lower() for name in (*hosts, *names)))


@contextmanager
def serving(
    workspace: Path,
    app: Path = SERVER,
    token: str = "",
    options: Options | None = None,
    auth_secrets: Path | None = None,
    port: int | None = None,
) -> Iterator[int]:
    """Serve `workspace` on 127.0.0.1 for the `with` block, and yield the port: `port`, or a free one.

    `token`: the token of a one-time link with all rights. `options`: the server's options, by default only the
    workspace. Raises `EdgeSweepError` with the end of the server's output if it does not answer within 60 s.
    """
    port = port or _free_port()
    with (
        tempfile.TemporaryFile("w+") as output,
        subprocess.Popen(  # noqa: S603  # our own argument list
            command(options or Options(workspace), port=port, app=app, auth_secrets=auth_secrets),
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, TOKEN_VARIABLE: token},
        ) as process,
    ):
        try:
            for is_last in tries(START_LIMIT_S, _LOOK_S):
                if _answers("127.0.0.1", port):
                    break
                if is_last or process.poll() is not None:
                    output.seek(0)
                    raise EdgeSweepError(
                        f"the dashboard did not start: {output.read()[-2000:].strip() or 'it said nothing'}",
                        "run `edgesweep dashboard` to see it start",
                    )
            yield port
        finally:
            # Streamlit's orderly shutdown can wait forever for the connection of a closed browser.
            process.terminate()
            try:
                process.wait(timeout=3)
            except subprocess.TimeoutExpired:
                process.kill()


def say_when_it_answers(text: str, host: str, port: int) -> None:
    """Print `text` on stderr as soon as this process's server answers, but after 60 s in any case: the link in it is
    printed nowhere else, and a slow computer may answer later."""
    # A server that listens on all addresses is checked at the loopback address.
    target = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104  # nothing is bound here

    def wait() -> None:
        for _ in tries(START_LIMIT_S, _LOOK_S):
            if _answers(target, port):
                break
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()

    threading.Thread(target=wait, name="say-when-it-answers", daemon=True).start()


def _check_free(host: str, port: int) -> None:
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            # Servers set this option too: with it, a new server can start right after another one has ended.
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


def _answers(host: str, port: int) -> bool:
    connection = http.client.HTTPConnection(host, port, timeout=2)
    try:
        connection.request("GET", "/_stcore/health")
        return connection.getresponse().status == http.client.OK
    except OSError:
        return False
    finally:
        connection.close()
