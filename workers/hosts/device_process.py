"""The process of one device on its host: what hangs there can be ended, and holds up neither agent nor other devices.

    python -P -m workers.hosts.device_process FILE_DESCRIPTOR

Requests and answers cross a pipe between two processes of one EdgeSweep: a second call through Ray would cost more than
the whole way from the driver. It ends with the agent that has started it.
"""

import os
import subprocess
import sys
import threading
import time
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path

from sweeps.device_facts import DeviceFacts
from sweeps.records import Failed
from workers.executors.lane import Lane, failed_by
from workers.measure.bench import AnswerT, Request

CLOSE_S = 10.0
"""To hand the device back."""
_LOOK_S = 0.5


class DeviceProcess:
    """The agent's end: a `workers.hosts.agent.Worker`."""

    def __init__(self, facts: DeviceFacts, folder: Path) -> None:
        self._pipe, theirs = Pipe()
        with theirs:
            # The number of a file descriptor, and a program of this installation.
            words = [sys.executable, "-P", "-m", "workers.hosts.device_process", str(theirs.fileno())]
            self._process = subprocess.Popen(words, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()])  # noqa: S603
        with suppress(OSError):  # it has ended already, and `ask` tells
            self._pipe.send((facts, folder))

    def ask(self, request: Request[AnswerT]) -> AnswerT | Failed:
        try:
            self._pipe.send(request)
            answer: AnswerT | Failed = self._pipe.recv()
            return answer
        except (EOFError, OSError):
            ended = self._process.wait()
            message = f"the device's process on its host ended with {ended} during a request"
            return Failed(stage=request.stage, kind="worker_lost", message=message)
        except Exception as error:  # noqa: BLE001  # whatever cannot be packed or unpacked
            return failed_by(request.stage, error)

    def close(self) -> None:
        with suppress(OSError):
            self._pipe.send(None)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(CLOSE_S)
        self.kill()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


def main() -> None:
    descriptor = int(sys.argv[1])
    os.set_inheritable(descriptor, False)  # the programs that it starts do not keep the agent waiting
    pipe = Connection(descriptor)
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    with suppress(EOFError):
        lane = Lane(*pipe.recv())
        while (request := pipe.recv()) is not None:
            pipe.send(lane.ask(request))
        lane.close()


def _end_with(agent: int) -> None:
    while os.getppid() == agent:
        time.sleep(_LOOK_S)
    os._exit(1)


if __name__ == "__main__":
    main()
