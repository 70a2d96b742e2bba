"""A phone that says to each command what a test wants, over real sockets and without adb."""

import os
import re
import socket
import struct
from collections.abc import Callable
from pathlib import Path

from workers.devices.adb.adb_host import AdbHost, Attached
from workers.devices.adb.device import AdbDevice
from workers.devices.adb.wire import Deadline, Wire

_STDOUT, _EXIT = 1, 3
_PACKET = struct.Struct("<BI")
_MARK = re.compile(r"\necho ([0-9a-f]{16})''([0-9a-f]{16})\n")

Answer = Callable[[str], bytes | int | None]


class ScriptedHost(AdbHost):
    """An adb server with one phone. `answer` gives stdout or an exit code for each command; `None` is no answer, and
    a `ConnectionError` a connection that breaks."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(port=1)
        self._answer = answer
        # Bare descriptors: a socket that is forgotten together with this one may be the first to go, and then warns.
        self._ends: list[int] = []

    def close(self) -> None:
        while ends := getattr(self, "_ends", None):
            os.close(ends.pop())

    def ensure_server(self) -> None:
        self.server_count = 1

    def gone(self) -> bool:
        return False

    def devices(self) -> tuple[Attached, ...]:
        return (Attached(serial="R58M", state="device", usb=True),)

    def features(self, serial: str, deadline: Deadline) -> frozenset[str]:
        return frozenset({"shell_v2"})

    def open(self, serial: str, service: str, deadline: Deadline) -> Wire:
        with socket.create_server(("127.0.0.1", 0)) as server:
            near = socket.create_connection(server.getsockname())
            far, _ = server.accept()
        _, _, script = service.partition(":")
        marks = [f"{mark}{other}\n".encode() for mark, other in _MARK.findall(script)]
        commands = _MARK.sub("\0", script).split("\0")
        try:
            answers = [self._answer(command) for command in commands]
        except ConnectionError:
            far.close()
            return Wire(near, deadline)
        if service.startswith("shell,") and None not in answers:
            pairs = zip(answers, [*marks, b""], strict=True)
            text = b"".join(part for pair in pairs for part in pair if isinstance(part, bytes))
            status = next((answer for answer in answers if isinstance(answer, int)), 0)
            # No more than the buffers of a connection take: nobody reads meanwhile.
            far.sendall(_PACKET.pack(_STDOUT, len(text)) + text + _PACKET.pack(_EXIT, 1) + bytes([status]))
        self._ends.append(far.detach())
        return Wire(near, deadline)


def scripted(answer: Answer, *, answer_s: float = 5.0) -> AdbDevice:
    return AdbDevice(Path(), "R58M", ScriptedHost(answer), answer_s=answer_s, backoff_s=())
