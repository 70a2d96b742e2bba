"""The one function that quotes command lines for the shells of devices, tried in the shells of this machine."""

import shutil
import subprocess
import sys

import pytest

from sweeps.errors import DeviceError
from workers.devices.interface import Completed
from workers.devices.shell import outcome_text, quoted

HOSTILE = [
    "plain",
    "two words",
    "it's",
    'say "hi"',
    "$(touch x); rm -rf *",
    "`id`",
    "a\nb",
    "-rf",
    "~root",
    "#no comment",
    "ünï",
    "%s {0} *?[",
    "!!",
    "\\",
    "\\'",
    "",
    "&& false",
    "\x7f\x1b[31m",
    "\udcff",
]


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_a_shell_gives_a_program_each_word_as_it_was(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is missing; enable with: apt-get install -y {shell}")
    line = quoted([sys.executable, "-c", "import os, sys; print(*map(os.fsencode, sys.argv[1:]), sep='\\n')", *HOSTILE])
    script = line.encode("utf-8", "surrogateescape")
    done = subprocess.run([shell, "-s"], input=script, capture_output=True, check=True, timeout=60)
    assert done.stdout.decode().splitlines() == [repr(word.encode("utf-8", "surrogateescape")) for word in HOSTILE]


def test_a_word_that_no_command_line_can_hold_is_refused() -> None:
    with pytest.raises(DeviceError) as caught:
        quoted(["echo", "a\0b"])
    assert caught.value.kind == "bad_name"


def test_a_message_has_the_exit_code_and_the_last_words() -> None:
    done = Completed(exit_code=3, stdout=b"out", stderr=b"x" * 1000 + b" the end\n")
    assert outcome_text(done).endswith("x the end)")
    assert len(outcome_text(done)) < 600
    assert outcome_text(Completed(exit_code=3, stdout=b"out", stderr=b"")) == " (exit code 3: out)"
    assert outcome_text(Completed(exit_code=0, stdout=b"", stderr=b"\xff")) == " (exit code 0: \ufffd)"
