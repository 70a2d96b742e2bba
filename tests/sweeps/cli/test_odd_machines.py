"""Disks that cannot be written or are full, and environments that lack what is usual."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from sweeps.label_kinds import disqualified
from tests.computers import missing
from tests.conftest import EDGESWEEP
from workers.forks.limits import Ended
from workers.models.model_process import _full_disk

SWEEP = """name: odd
models: [{source: mobilenet_v2, weights: random, input_shape: [1, 3, 32, 32]}]
data: {calibration: {source: synthetic, images: 8}, evaluation: {source: synthetic, images: 8}}
grids: [{precision: [fp32], layout: [nchw]}]
objective: {constraints: []}
"""


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    (tmp_path / "s.yaml").write_text(SWEEP)
    (tmp_path / "disk").mkdir()
    return tmp_path / "s.yaml"


def on_disk(sweep: Path, options: str, *words: str) -> "subprocess.CompletedProcess[str]":
    """Run the command where `disk` is a file system of its own, mounted with these options."""
    script = f'mount -t tmpfs -o {options} tmpfs disk && exec "$@"'
    argv = ["unshare", "--mount", "sh", "-c", script, "sh", EDGESWEEP, *words]
    return subprocess.run(argv, cwd=sweep.parent, capture_output=True, text=True, timeout=300)


NO_DISKS = missing()
own_disks = pytest.mark.skipif(bool(NO_DISKS), reason=NO_DISKS or "there are some")


@pytest.mark.system
@own_disks
@pytest.mark.parametrize(
    ("options", "words", "named", "step"),
    [
        ("ro", ("run", "s.yaml", "--workspace", "disk"), "cannot be written: Read-only", "--workspace"),
        ("ro", ("run", "s.yaml", "--workspace", "disk/new"), "cannot be created: Read-only", "--workspace"),
        ("ro", ("rank", "--workspace", "disk"), "no sweep was run in", "edgesweep run"),
        ("size=256k", ("run", "s.yaml", "--workspace", "disk"), "disk is full", "free space on the disk"),
    ],
)
def test_a_disk_that_takes_nothing_is_named_with_the_next_step(
    sweep: Path, options: str, words: tuple[str, ...], named: str, step: str
) -> None:
    ended = on_disk(sweep, options, *words)
    assert ended.returncode == 1
    message, next_step = ended.stderr.strip().splitlines()
    assert named in message
    assert step in next_step


@pytest.mark.system
@own_disks
def test_a_plan_needs_no_disk_that_can_be_written(sweep: Path) -> None:
    ended = on_disk(sweep, "ro", "plan", "s.yaml", "--json", "--workspace", "disk")
    assert (ended.returncode, len(json.loads(ended.stdout)["jobs"])) == (0, 1)


# The library stands for a slow disk: whoever waits until his data lie on the disk waits 10 ms longer, a thousand times.
SLOW_DISK = """
#include <unistd.h>
#include <sys/syscall.h>
int fsync(int fd) { usleep(10000); return syscall(SYS_fsync, fd); }
int fdatasync(int fd) { usleep(10000); return syscall(SYS_fdatasync, fd); }
"""


@pytest.mark.system
@pytest.mark.compiler
def test_a_slow_disk_costs_time_and_nothing_else(
    sweep: Path, edgesweep: "Callable[..., subprocess.CompletedProcess[str]]"
) -> None:
    library = sweep.with_name("slow_disk.so")
    source = ["g++", "-shared", "-fPIC", "-o", str(library), "-x", "c", "-"]
    subprocess.run(source, input=SLOW_DISK, text=True, check=True)
    sweep.write_text(SWEEP + "protocol: {preset: quick, rounds: 2, min_seconds: 0.05, iterations: 5, gate: none}\n")
    environment = {**os.environ, "LD_PRELOAD": str(library)}
    words = [EDGESWEEP, "run", "s.yaml", "--executor", "inline", "--workspace", "disk"]
    ended = subprocess.run(words, cwd=sweep.parent, env=environment, capture_output=True, text=True)
    assert (ended.returncode, "Traceback" in ended.stderr) == (0, False), ended.stderr
    disk = str(sweep.with_name("disk"))
    (device,) = json.loads(edgesweep("rank", "--json", "--workspace", disk).stdout)["devices"]
    assert not disqualified(tuple(device["winner"]["trust"]))
    assert edgesweep("journal", "verify", "--workspace", disk).returncode == 0


@pytest.mark.system
def test_no_home_no_locale_no_terminal(sweep: Path) -> None:
    environment = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TERM": "dumb"}
    ended = subprocess.run(
        [EDGESWEEP, "plan", "s.yaml"], cwd=sweep.parent, env=environment, stdin=subprocess.DEVNULL, capture_output=True
    )
    assert ended.returncode == 0
    assert b"mobilenet_v2" in ended.stdout
    assert b"\x1b" not in ended.stdout + ended.stderr
    assert b"Traceback" not in ended.stderr


def test_a_full_disk_is_no_fault_of_the_model() -> None:
    def error_of(stderr: bytes) -> OSError | None:
        return _full_disk(Ended(exit_code=1, beyond="", limit=0.0, stdout=b"", stderr=stderr))

    error = error_of(b"Traceback (most recent call last):\nOSError: [Errno 28] No space left on device\n")
    assert error is not None
    assert error.strerror == "No space left on device"
    assert error_of(b"OSError: [Errno 28] No space left on device\nValueError: else\n") is None
    assert error_of(b"") is None
