"""The protocol on a connection to a phone: shell_v2 packets and file transfer, each byte under a deadline.

Source: AOSP, packages/modules/adb, `docs/dev/services.md`, `shell_protocol.h`, `file_sync_protocol.h`. Every failure of
the connection is a `WireError`. The caller, which knows the host and the phone, finds out the cause.
"""

import select
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import BinaryIO

from workers.devices.remote.remote_shell import DeadlineError

_STDIN, _STDOUT, _STDERR, _EXIT, _CLOSE_STDIN = range(5)
_PACKET = struct.Struct("<BI")
_SYNC = struct.Struct("<4sI")
_SYNC_BLOCK_BYTES = 65536
_FAIL_WORDS_BYTES = 65536


class WireError(Exception):
    """The connection ended or broke the protocol."""


class WireDeadlineError(WireError, DeadlineError):
    """The deadline passed on a connection."""


class RefusedError(WireError):
    """The phone or the adb server refused the request; the message is its text."""


class Deadline:
    """A point in time. It is passed down instead of a timeout, which would restart at each step."""

    def __init__(self, seconds: float) -> None:
        self._at = time.monotonic() + seconds

    def remaining_s(self) -> float:
        """Return the remaining time (s), more than 0. Raises `WireDeadlineError`."""
        left = self._at - time.monotonic()
        if left <= 0:
            raise WireDeadlineError("the deadline passed")
        return left

    def passed(self) -> bool:
        return time.monotonic() >= self._at


class Wire:
    """A connection, closed at the end of its `with` block without the 20 ms that adbutils sleeps."""

    def __init__(self, connection: socket.socket, deadline: Deadline) -> None:
        self._connection = connection
        self._deadline = deadline
        # The requests are small, and each waits for its answer.
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> "Wire":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    def renew(self, deadline: Deadline) -> None:
        """Set another deadline."""
        self._deadline = deadline

    def is_silent(self) -> bool:
        """Tell whether nothing has arrived that was not received yet, not even the end of the connection."""
        arrived = select.poll()
        arrived.register(self._connection, select.POLLIN)
        return not arrived.poll(0)

    def send(self, data: bytes) -> None:
        with self._translated():
            self._connection.sendall(data)

    def receive(self, count: int) -> bytes:
        """Receive exactly `count` bytes."""
        parts = []
        while count > 0:
            with self._translated():
                self._acknowledge_at_once()
                part = self._connection.recv(min(count, 1 << 20))
            if not part:
                raise WireError("the connection ended")
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

    def ask(self, service: str) -> None:
        """Request a service. Raises `RefusedError` if there is no such service."""
        named = service.encode("utf-8", "surrogateescape")
        if len(named) > 0xFFFF:
            raise RefusedError(f"the command has {len(named)} bytes, and adb takes {0xFFFF}")
        self.send(b"%04x" % len(named) + named)
        status = self.receive(4)
        if status == b"FAIL":
            raise RefusedError(self.text())
        if status != b"OKAY":
            raise WireError(f"adb answered {status!r}")

    def text(self) -> str:
        """Receive a text that is preceded by its length."""
        size = self.receive(4)
        try:
            return self.receive(int(size, 16)).decode("utf-8", "replace")
        except ValueError as error:
            raise WireError(f"adb answered {size!r}") from error

    def _acknowledge_at_once(self) -> None:
        # The adb server delays a small packet until the previous one is acknowledged: 40 ms with delayed ACKs.
        if hasattr(socket, "TCP_QUICKACK"):
            self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            self._connection.settimeout(self._deadline.remaining_s())
            yield
        except TimeoutError as error:
            raise WireDeadlineError("the deadline passed") from error
        except OSError as error:
            raise WireError(f"the connection broke: {error}") from error


@dataclass(slots=True)
class Output:
    """The output of a program so far. Each stream is cut at the limit."""

    limit_bytes: int
    stdout: bytearray
    stderr: bytearray


def read_shell(wire: Wire, output: Output) -> int:
    """Read a `shell,v2,raw:` service to its end into `output`. Return the exit status that adbd reports, 128 + n for
    signal n.

    Raises `WireError` if the service ends without a status: then the output may be incomplete.
    """
    wire.send(_PACKET.pack(_CLOSE_STDIN, 0))
    while (status := _read_packet(wire, output)) is None:
        pass
    return status


def read_until(wire: Wire, output: Output, mark: bytes) -> int | None:
    """Read a `shell,v2,raw:` service until its stdout ends with `mark`. Return `None`, or the exit status if the
    service ends before."""
    status = None
    while status is None and not output.stdout.endswith(mark):
        status = _read_packet(wire, output)
    return status


def send_line(wire: Wire, line: str) -> None:
    """Send a line to the stdin of a `shell,v2,raw:` service."""
    data = f"{line}\n".encode("utf-8", "surrogateescape")
    wire.send(_PACKET.pack(_STDIN, len(data)) + data)


def _read_packet(wire: Wire, output: Output) -> int | None:
    kind, size = _PACKET.unpack(wire.receive(_PACKET.size))
    while size > 0:
        part = wire.receive(min(size, 1 << 20))
        size -= len(part)
        if kind == _EXIT:
            return part[0]
        stream = {_STDOUT: output.stdout, _STDERR: output.stderr}.get(kind)
        if stream is not None and len(stream) < output.limit_bytes:
            stream += part[: output.limit_bytes - len(stream)]
    return None


def send_file(wire: Wire, source: BinaryIO, path: str, mode: int) -> None:
    """Send a file over a `sync:` service. Raises `RefusedError` with the phone's message."""
    target = f"{path},{mode}".encode("utf-8", "surrogateescape")
    try:
        wire.send(_SYNC.pack(b"SEND", len(target)) + target)
        while block := source.read(_SYNC_BLOCK_BYTES):
            wire.send(_SYNC.pack(b"DATA", len(block)) + block)
        wire.send(_SYNC.pack(b"DONE", int(time.time())))
    except DeadlineError:
        raise
    except WireError:
        # A phone that refuses closes the connection while we send: its message may have arrived before.
        _sync_answer(wire, b"OKAY")
        raise
    _sync_answer(wire, b"OKAY")


def receive_file(wire: Wire, path: str, write: Callable[[bytes], object]) -> None:
    """Receive a file over a `sync:` service. Raises `RefusedError` with the phone's message."""
    source = path.encode("utf-8", "surrogateescape")
    wire.send(_SYNC.pack(b"RECV", len(source)) + source)
    while (size := _sync_answer(wire, b"DATA")) is not None:
        write(wire.receive(size))


def _sync_answer(wire: Wire, expected: bytes) -> int | None:
    """Receive an answer of the expected kind, and return its size; `None` for `DONE`."""
    kind, size = _SYNC.unpack(wire.receive(_SYNC.size))
    if kind == b"FAIL":
        raise RefusedError(wire.receive(min(size, _FAIL_WORDS_BYTES)).decode("utf-8", "replace"))
    if kind == b"DONE":
        return None
    if kind != expected or (kind == b"DATA" and size > 1 << 20):
        raise WireError(f"adb answered {kind!r} with {size}")
    return int(size)
