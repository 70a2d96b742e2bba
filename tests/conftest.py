"""What a machine lacks is listed as not run, with the line that would enable it; with --strict-machine it fails."""

import shutil
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.workers.runtimes import old_torch

# How long an example takes says how busy the machine is.
settings.register_profile("edgesweep", deadline=None)
settings.load_profile("edgesweep")

REQUIREMENTS = {
    # marker: (program, the line that installs it)
    "browser": ("chromium", "apt-get install -y chromium"),
    "compiler": ("g++", "apt-get install -y g++"),
}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--strict-machine", action="store_true", help="fail a test that is skipped because this machine lacks a part"
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for marker, (program, line) in REQUIREMENTS.items():
            if item.get_closest_marker(marker) and shutil.which(program) is None:
                item.add_marker(pytest.mark.skip(reason=f"{program} is missing; enable with: {line}"))
        # In strict mode the tests install it themselves.
        lacks = not (old_torch.installed() or item.config.getoption("--strict-machine"))
        if lacks and item.get_closest_marker("old_torch"):
            line = "python -m tests.workers.runtimes.old_torch (1.8 GB)"
            item.add_marker(pytest.mark.skip(reason=f"an older torch is missing; enable with: {line}"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and item.config.getoption("--strict-machine"):
        report.outcome = "failed"
        report.longrepr = f"not run, which strict mode does not allow: {report.longrepr[2]}"
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = terminalreporter.stats.get("skipped", [])
    if skipped:
        terminalreporter.section("not run on this machine")
        for report in skipped:
            terminalreporter.write_line(f"{report.nodeid}: {report.longrepr[2]}")
