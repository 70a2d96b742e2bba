"""A test that needs what a machine lacks is listed as not run, with the line that would enable it; with
--strict-machine it fails.

What takes another kind of CPU (the marker `vnni`), which no line enables, is listed as not shown, in strict mode too.
"""

import os
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import settings

from sweeps.cli import main
from sweeps.quarantine import STATE_VARIABLE
from tests import gallery, postgresql, runtimes, shared, side_by_side, sshd
from tests.workers.runtimes import old_torch
from tests.workers.runtimes.int8_cpu import here_sums_are_exact
from workers.models import model_process

pytest_plugins = ["tests.faults.plugin", "tests.virtual_phones"]

# Ray keeps the token of the home that it was first started in for as long as the process lives, and tests of phones
# have a home of their own.
os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))

# Threads of torch and of numpy's linear algebra wait by spinning, which costs several times the work itself where more
# threads wait than there are CPUs: here each worker and each process that it starts has as many as there are CPUs.
# Their libraries read this when they are loaded, in whatever this process starts too.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Nobody waits for its memory here: it would import torch again for every few tests.
model_process.FORKS.idle_s = None

# The duration of an example says how busy the machine is.
settings.register_profile("edgesweep", deadline=None)
# A change that lands is judged by the same examples each time; whoever works on it looks for new ones.
settings.register_profile("strict", deadline=None, derandomize=True, database=None)
settings.load_profile("edgesweep")

REQUIREMENTS = {
    # marker: (program, the line that installs it)
    "browser": ("chromium", "apt-get install -y chromium"),
    "compiler": ("g++", "apt-get install -y g++"),
    "cross_compiler": ("aarch64-linux-gnu-g++", "apt-get install -y g++-aarch64-linux-gnu cmake"),
    "postgresql": (postgresql.PG_CTL, "apt-get install -y postgresql"),
    "strace": ("strace", "apt-get install -y strace"),
    "sshd": (sshd.SSHD, "apt-get install -y openssh-server"),
}

NOT_SHOWN = "not shown on this machine: its CPU has no VNNI, so sums of 8-bit products saturate"

EDGESWEEP = str(Path(sys.executable).with_name("edgesweep"))
OWN_NET = """
import torch


def make_net(classes):
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False),
        torch.nn.BatchNorm2d(8),
        torch.nn.ReLU6(),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(8, classes),
    )
"""
# The models of a sweep file beside the network, where that is `net.py`.
OWN_NET_INPUTS = """
models:
  - {source: "net:make_net", name: net, weights: random, input_shape: [1, 3, 32, 32], arguments: {classes: 10}}
data:
  calibration: {source: synthetic, images: 8}
  evaluation: {source: synthetic, images: 8}
"""
# Scripting refuses a list comprehension over *arguments; tracing takes it.
ODD = """
class Odd(torch.nn.Module):
    def forward(self, *x):
        return torch.stack([*x]).mean(0)
"""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--strict-machine", action="store_true", help="fail a test that is skipped because this machine lacks a part"
    )


def pytest_configure(config: pytest.Config) -> None:
    # A program in the background of a shell ignores Ctrl-C, and so would all that the tests start and interrupt.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if not hasattr(config, "workerinput"):
        shared.open_folder()
    if config.getoption("--strict-machine"):
        settings.load_profile("strict")


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        shared.remove_folder()


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """A long argument is not part of its test's name: programs find that name in their environment, which has no room
    for a megabyte."""
    return f"{argname} of {len(val)}" if isinstance(val, str | bytes) and len(val) > 200 else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.get_closest_marker("long") is None)
    for item in items:
        if (group := side_by_side.group(item)) is not None and not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group(group))
        for marker, (program, line) in REQUIREMENTS.items():
            if item.get_closest_marker(marker) and shutil.which(program) is None:
                item.add_marker(pytest.mark.skip(reason=f"{program} is missing; enable with: {line}"))
        for name in {name for mark in item.iter_markers("runtime") for name in mark.args}:
            if lack := runtimes.lack(name):
                item.add_marker(pytest.mark.skip(reason=lack))
        if item.get_closest_marker("vnni") and not here_sums_are_exact():
            item.add_marker(pytest.mark.skip(reason=NOT_SHOWN))
        # In strict mode the tests install it themselves.
        lacks = not (old_torch.installed() or item.config.getoption("--strict-machine"))
        if lacks and item.get_closest_marker("old_torch"):
            line = "python -m tests.workers.runtimes.old_torch (3.1 GB)"
            item.add_marker(pytest.mark.skip(reason=f"an older torch is missing; enable with: {line}"))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    with side_by_side.with_its_turn(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report = yield
    strict = item.config.getoption("--strict-machine") and not (item.get_closest_marker("vnni") and _not_shown(report))
    if report.skipped and not hasattr(report, "wasxfail") and strict:
        report.outcome = "failed"
        report.longrepr = f"not run, which strict mode does not allow: {report.longrepr[2]}"
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = terminalreporter.stats.get("skipped", [])
    for section, not_shown in (("not run on this machine", False), ("not shown on this machine", True)):
        reports = [report for report in skipped if _not_shown(report) == not_shown]
        if reports:
            terminalreporter.section(section)
        for report in reports:
            terminalreporter.write_line(f"{report.nodeid}: {report.longrepr[2]}")


def _not_shown(report: pytest.TestReport) -> bool:
    """Tell whether a test was skipped for the kind of CPU, and for nothing else."""
    return report.skipped and isinstance(report.longrepr, tuple) and report.longrepr[2] == f"Skipped: {NOT_SHOWN}"


@pytest.fixture(autouse=True)
def _own_state(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """The state of devices is neither this user's nor another test's."""
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path_factory.getbasetemp() / "state" / secrets.token_hex(8)))


@pytest.fixture
def own_folder(tmp_path: Path) -> Path:
    """A user's folder with a network of one's own, `my_net:make_net`. Its name needs quoting."""
    home = tmp_path / "my 'work' $HOME"
    home.mkdir()
    (home / "my_net.py").write_text(OWN_NET)
    return home


@pytest.fixture
def unscriptable_net(own_folder: Path) -> None:
    """Make the user's network one that can be traced and not scripted."""
    odd = OWN_NET.replace("torch.nn.Linear(8, classes),", "torch.nn.Linear(8, classes), Odd(),")
    (own_folder / "my_net.py").write_text(odd + ODD)


@pytest.fixture
def start(own_folder: Path) -> "Callable[..., subprocess.Popen[str]]":
    """Start one command in the user's folder."""

    def command(*words: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [EDGESWEEP, *words], cwd=own_folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    return command


@pytest.fixture
def process(own_folder: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run one command in the user's folder, as users do: in a process of its own."""

    def command(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([EDGESWEEP, *words], cwd=own_folder, capture_output=True, text=True)

    return command


@pytest.fixture
def forked_runners() -> Iterator[None]:
    """Sweeps within this process fork their Python runners on this computer: tests that run dozens of them are about
    what becomes of their reports. Runners as processes of their own are in the tests of runners, of the command as a
    process, and of the README's model."""
    with gallery.forking():
        yield


@pytest.fixture
def edgesweep(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run one command in the user's folder, within this process. A traceback fails the test."""

    def command(*words: str) -> subprocess.CompletedProcess[str]:
        with monkeypatch.context() as patch:
            patch.chdir(own_folder)
            ended = CliRunner().invoke(main, words, prog_name="edgesweep")
        if ended.exception is not None and not isinstance(ended.exception, SystemExit):
            raise ended.exception
        return subprocess.CompletedProcess(words, ended.exit_code, ended.stdout, ended.stderr)

    return command
