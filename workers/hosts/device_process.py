"""The process of one device on its host: if it hangs, it can be ended, and blocks neither the agent nor other devices.

    python -P -m workers.hosts.device_process FILE_DESCRIPTOR PID_OF_THE_AGENT

Requests and answers cross a pipe between two processes of the same EdgeSweep: a second call through Ray would cost more
than the whole way from the driver. The process ends with the agent that has started it.
"""

import os
import pickle
import socket
import struct
import subprocess
import sys
import threading
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from sweeps.device_facts import DeviceFacts
from sweeps.records import Failed
from sweeps.text import duration
from sweeps.with_parent import end_with_parent
from workers.executors.lane import Lane, failed_by
from workers.measure.device_runner import AnswerT, Request

CLOSE_S = 10.0
"""The time that the process has to release the device."""
_END_S = 5.0
"""The time that a killed process has to disappear."""
_BESIDE_S = 1800.0
"""The time (s) that a request may take beside its work: a start, reaching the device, files at 1 MB/s, a compiler."""


class DeviceProcess:
    """The agent's side of the process: a `workers.hosts.device_slot.Worker`. A process that has died is replaced for
    the next request."""

    def __init__(self, facts: DeviceFacts, folder: Path) -> None:
        self._facts = facts
        self._folder = folder
        self._ended = False
        self._starting = threading.Lock()
        """The lock that is held during a start, and by `kill`, after which no process starts."""
        self._start()

    def ask(self, request: Request[AnswerT]) -> AnswerT | Failed:
        """Pass a request to the process. If the process has not answered in time, it is ended, and replaced for the
        next request."""
        limit_s = request.limit_s + _BESIDE_S
        overdue = ""
        try:
            with self._starting:
                if (self._process.poll() is not None or self._pipe.closed) and not self._ended:
                    self._start()
            try:
                _limit(self._pipe, limit_s)
                _send(self._pipe, request)
                answer: AnswerT | Failed = _receive(self._pipe)
            except BlockingIOError:
                # A process that waits for a broken disk goes on for a while after the kill.
                self._process.kill()
                self._pipe.close()
                overdue = f", which it had not answered after {duration(limit_s)}"
                raise
            return answer
        except (EOFError, OSError):
            message = f"the device's process on its host ended{self._how()} during a request{overdue}"
            return Failed(stage=request.stage, kind="worker_lost", message=message)
        except Exception as error:  # noqa: BLE001  # whatever cannot be packed or unpacked
            return failed_by(request.stage, error)

    def close(self) -> None:
        with suppress(OSError):
            _send(self._pipe, None)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(CLOSE_S)
        self.kill()

    def kill(self) -> None:
        with self._starting:
            self._ended = True
            self._process.kill()
        self._how()

    def _start(self) -> None:
        self._pipe, far_end = Pipe()
        with far_end:
            # The words are numbers, and a program of this installation.
            words = [
                sys.executable,
                "-P",
                "-m",
                "workers.hosts.device_process",
                str(far_end.fileno()),
                str(os.getpid()),
            ]
            self._process = subprocess.Popen(  # noqa: S603
                words, stdin=subprocess.DEVNULL, pass_fds=[far_end.fileno()], start_new_session=True
            )
        with suppress(OSError):  # the process has ended already, and `ask` reports it
            _send(self._pipe, (self._facts, self._folder))

    def _how(self) -> str:
        """Return the exit code in words; empty if the process does not end soon: nothing ends a process that waits for
        a broken disk."""
        with suppress(subprocess.TimeoutExpired):
            return f" with {self._process.wait(_END_S)}"
        return ""


def main() -> None:
    descriptor, agent = map(int, sys.argv[1:])
    os.set_inheritable(descriptor, False)  # the programs that it starts do not keep the agent waiting
    end_with_parent(agent)
    pipe = Connection(descriptor)
    lane = Lane(*_receive(pipe))
    try:
        with suppress(EOFError, OSError):  # the agent has ended
            while (request := _receive(pipe)) is not None:
                _send(pipe, lane.ask(request))
    finally:
        lane.close()


def _limit(pipe: "Connection[Any, Any]", seconds: float) -> None:
    """Limit each further wait for the other side to this time, after which it raises `BlockingIOError`. To use a thread
    for the limit would take longer than most requests."""
    with socket.socket(fileno=os.dup(pipe.fileno())) as end:
        for option in (socket.SO_SNDTIMEO, socket.SO_RCVTIMEO):
            end.setsockopt(socket.SOL_SOCKET, option, struct.pack("ll", int(seconds), int(seconds % 1 * 1e6)))


def _send(pipe: "Connection[Any, Any]", value: object) -> None:
    """Send a value. Large arrays, such as the images of an evaluation, are not copied."""
    buffers: list[pickle.PickleBuffer] = []
    packed = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    parts = [buffer.raw() for buffer in buffers]
    pipe.send((packed, [part.nbytes for part in parts]))
    for part in parts:
        pipe.send_bytes(part)


def _receive(pipe: "Connection[Any, Any]") -> Any:
    packed, sizes = pipe.recv()
    parts = [bytearray(size) for size in sizes]
    for part in parts:
        pipe.recv_bytes_into(part)
    return pickle.loads(packed, buffers=parts)  # noqa: S301  # of the other end, which is this program's own


if __name__ == "__main__":
    main()
