"""The command `edgesweep run` in a process of its own, that a test kills, stops, or gives another clock."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Self

import psutil

from tests.faults import seen
from tests.workers.tiny_sweep import Sweep

EDGESWEEP = str(Path(sys.executable).with_name("edgesweep"))
SWEEP = """
name: tiny
models: [{{source: "tiny_net:make", name: tiny, weights: tiny.pt, input_shape: [1, 3, 16, 16]}}]
data: {{calibration: {{source: synthetic, images: 8}}, evaluation: {{source: synthetic, images: {images}, seed: 1}}}}
devices: [{devices}]
grids: [{{precision: [fp32], layout: {layout}, threads: {threads}}}]
objective: {{constraints: []}}
protocol: {{preset: quick, rounds: {rounds}, warmup_seconds: 0.01, min_seconds: 0.02, iterations: 3, gate: none}}
"""
GONE_S = 10.0
"""After SIGKILL of the driver, until nothing that it started is left."""


class DriverProcess:
    """Runs a `Sweep`, whose jobs it has, in its workspace. Use it as a context manager."""

    def __init__(self, sweep: Sweep, environment: Mapping[str, str] | None = None, executor: str = "inline") -> None:
        evaluation = sweep.spec.data.evaluation
        assert evaluation.source == "synthetic"
        # Beside the home, whose files are those of before.
        self._file = sweep.home.parent / "sweep.yaml"
        text = SWEEP.format(
            devices=", ".join(f'"{name}"' for name in sweep.spec.devices),
            images=evaluation.images,
            layout=json.dumps(sweep.spec.grids[0].layout),
            threads=list(sweep.spec.grids[0].threads),
            rounds=sweep.spec.protocol.rounds,
        )
        if sweep.spec.share:
            text += f"share: {sweep.spec.share}\n"
        self._file.write_text(text.replace("tiny.pt", str(sweep.home / "tiny.pt")))
        for name in ("tiny_net.py",):
            (self._file.parent / name).write_bytes((sweep.home / name).read_bytes())
        self._words = [EDGESWEEP, "run", str(self._file), "--workspace", str(sweep.workspace.root)]
        self._words += ["--executor", executor]
        self._environment = {**os.environ, "TMPDIR": tempfile.gettempdir(), **(environment or {})}
        self.output = self._file.parent / "output"

    def __enter__(self) -> Self:
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                self._words, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=self._environment
            )
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.tree():
            process.kill()
        self.process.wait()

    def tree(self) -> list[psutil.Process]:
        """The driver, and all that it has started and that runs on this computer."""
        try:
            driver = psutil.Process(self.process.pid)
            return [driver, *driver.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def kill(self) -> float:
        """SIGKILL of the driver alone. Returns after how many seconds nothing that it started was left."""
        assert self.process.poll() is None, self.output.read_text()
        started = self.tree()
        self.process.kill()
        seen.injected()
        self.process.wait()
        began = time.monotonic()
        _, left = psutil.wait_procs(started, timeout=GONE_S)
        assert left == [], [words_of(process) for process in left]
        seen.told()
        return time.monotonic() - began

    def stop(self) -> None:
        """SIGSTOP of the driver alone: what it started goes on."""
        assert self.process.poll() is None, self.output.read_text()
        self.process.send_signal(signal.SIGSTOP)
        seen.injected()

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def ended(self) -> str:
        """Wait for the driver's end, which must be in order, and return its output."""
        assert self.process.wait(timeout=600) == 0, self.output.read_text()
        return self.output.read_text()


def words_of(process: psutil.Process) -> list[str]:
    with suppress(psutil.NoSuchProcess):
        return process.cmdline()
    return []
