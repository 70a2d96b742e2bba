"""What opening an executor leaves of the program that opened it."""

import signal
from pathlib import Path
from types import SimpleNamespace

import pytest

from sweeps.operations import executor
from sweeps.planning.plan import Plan
from sweeps.workspace import Workspace


class TakesSignals:
    """An executor whose start replaces a handler, as Ray's does in the main thread."""

    def __init__(self, folder: Path) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)

    def close(self) -> None:
        pass


def test_a_program_that_opens_an_executor_has_its_own_signal_handlers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor, "InlineExecutor", TakesSignals)
    before = signal.getsignal(signal.SIGTERM)
    planned: Plan = SimpleNamespace(devices=())
    with executor.open_executor("inline", Workspace(tmp_path), planned):
        assert signal.getsignal(signal.SIGTERM) == before
