"""Computers in namespaces: what the bench of a lab stands on."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.computers import Network, missing

pytestmark = [pytest.mark.system, pytest.mark.skipif(bool(missing()), reason=missing())]

_ANSWER = """
import socket
with socket.create_server(("0.0.0.0", 5000)) as server:
    print("up", flush=True)
    while True:
        server.accept()[0].close()
"""
_OWNER = """
import sys, time
from pathlib import Path
from tests.computers import Network
with Network(Path(sys.argv[1])) as network:
    one = network.add("one")
    one.start(["sleep", "1000"])
    print(one.keeper, flush=True)
    time.sleep(1000)
"""


def eventually(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_computers_reach_one_another_until_a_link_is_cut_and_share_nothing_else(tmp_path: Path) -> None:
    with Network(tmp_path) as network:
        first, second = network.add("one"), network.add("two")
        server = second.start([sys.executable, "-c", _ANSWER])
        assert server.stdout is not None
        assert server.stdout.readline() == "up\n"
        ask = f"import socket; socket.create_connection(('{network.address('two')}', 5000), 1)"

        def reached() -> bool:
            return (
                first.run([sys.executable, "-c", f"try:\n {ask}\nexcept OSError: raise SystemExit(1)"]).returncode == 0
            )

        assert reached()
        network.cut("two")
        assert not reached()
        network.mend("two")
        assert reached()
        second.stop()
        (second.folder / "of two").touch()
        output = first.run(["sh", "-c", "hostname; ls /tmp; ps ax"]).stdout
        assert output.splitlines()[:2] == ["one", "home"]
        assert "5000" not in output
        second.go_on()
        assert server.poll() is None
        second.kill()
        assert server.poll() is not None
        assert not reached()
        assert "of two" in network.add("two").run(["ls", "/tmp"]).stdout, "its disk is still there"


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT], ids=["killed", "Ctrl-C"])
def test_nothing_stays_of_computers_whose_owner_ends(tmp_path: Path, end: signal.Signals) -> None:
    links = Path("/proc/net/dev").read_text().count(":")
    with subprocess.Popen(
        [sys.executable, "-c", _OWNER, str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])},
        text=True,
    ) as owner:
        try:
            assert owner.stdout is not None
            space = str(Path(f"/proc/{int(owner.stdout.readline())}/ns/pid").readlink())
            eventually(lambda: len(within(space)) == 2)
            owner.send_signal(end)
            owner.wait(60)
        finally:
            owner.kill()
    eventually(lambda: within(space) == [])
    assert Path("/proc/net/dev").read_text().count(":") == links


def within(space: str) -> list[int]:
    """Processes of a namespace."""
    pids = []
    for pid in psutil.pids():
        try:
            if str(Path(f"/proc/{pid}/ns/pid").readlink()) == space:
                pids.append(pid)
        except OSError:
            continue
    return pids
