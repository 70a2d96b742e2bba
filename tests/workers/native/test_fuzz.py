"""Thousands of broken models end as error codes, in a process that lives to count them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.system, pytest.mark.long, pytest.mark.compiler]

ROOT = Path(__file__).parents[3]


def fuzzed(kind: str, seed: int, count: int) -> dict[str, int]:
    argv = [sys.executable, "-m", "tests.workers.native.fuzzer", kind, str(seed), str(count)]
    ended = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=500, check=False)
    assert ended.returncode == 0, ended.stderr[-2000:]
    codes: dict[str, int] = json.loads(ended.stdout)
    return codes


def test_no_sequence_of_calls_crashes(library: object) -> None:
    codes = fuzzed("calls", 1, 4000)
    # Both kinds were met: models that still compute, and models that are refused while they compute.
    assert codes["0"] > 500
    assert codes["4"] > 200


def test_no_serialized_model_crashes(library: object) -> None:
    codes = fuzzed("serialized", 1, 2000)
    assert codes["0"] > 50
    assert codes["1"] > 1000
