"""The tests' own look at what is sent to other computers."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.outside import sent_outside, traced

pytestmark = pytest.mark.strace

UDP = "import socket\nwith socket.socket(socket.{family}, socket.SOCK_DGRAM) as one:\n    one.{call}\n"
FAR = {
    "a connection": UDP.format(family="AF_INET", call='connect(("192.0.2.1", 80))'),
    "a datagram without one": UDP.format(family="AF_INET", call='sendto(b"x", ("192.0.2.1", 80))'),
    "a message without one": UDP.format(family="AF_INET", call='sendmsg([b"x"], (), 0, ("192.0.2.1", 80))'),
    "IPv6": UDP.format(family="AF_INET6", call='connect_ex(("2001:db8::1", 80))'),
    "a name": UDP.format(family="AF_INET", call='sendto(b"x", ("127.0.0.1", 53))'),
    "a child": f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {UDP!r}.format("
    "family='AF_INET', call='connect((\"192.0.2.1\", 80))')])",
}


@pytest.mark.parametrize("program", FAR.values(), ids=FAR)
def test_what_a_program_sends_to_other_computers_is_seen(program: str, tmp_path: Path) -> None:
    subprocess.run([*traced(tmp_path / "calls"), sys.executable, "-c", program], stderr=subprocess.DEVNULL)
    assert len(sent_outside(tmp_path / "calls")) == 1


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "::ffff:127.0.0.1"])
def test_what_stays_on_this_machine_is_not(address: str, tmp_path: Path) -> None:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    program = UDP.format(family=family.name, call=f'connect_ex(("{address}", 80))')
    subprocess.run([*traced(tmp_path / "calls"), sys.executable, "-c", program], check=True)
    assert address in (tmp_path / "calls").read_text()
    assert sent_outside(tmp_path / "calls") == []
