"""Our files on a phone, sent and received by adb's file transfer."""

import hashlib
from pathlib import PurePosixPath
from typing import BinaryIO

from workers.devices.adb.phone_connection import FOLDER, PhoneConnection
from workers.devices.adb.wire import receive_file, send_file
from workers.devices.file_bounds import bounded
from workers.devices.remote.files import RemoteFiles

_PART = FOLDER / "part"


class AdbFiles(RemoteFiles):
    """The files in the run folder of one phone."""

    free_space_command = "df -k"
    corrupt_next_step = "try another cable or port"

    def __init__(self, connection: PhoneConnection) -> None:
        super().__init__(connection)
        self._connection = connection

    def _clear_script(self) -> str:
        # `rm` is a process, and seldom needed.
        return f"{{ [ ! -e {_PART} ] || rm -f {_PART}; }}"

    def _send(self, source: BinaryIO, size: int, name: str) -> PurePosixPath:
        self._connection.transfer(lambda wire: send_file(wire, source, str(_PART), 0o100755), name, size)
        return _PART

    def _receive(self, path: str, size: int, target: BinaryIO, most_bytes: int) -> None:
        write = bounded(target.write, self._connection.name, path, most_bytes)
        self._connection.transfer(lambda wire: receive_file(wire, path, write), path, size, "no_output")

    def _hash(self, path: PurePosixPath, size: int) -> str:
        digest = hashlib.sha256()
        self._connection.transfer(lambda wire: receive_file(wire, str(path), digest.update), path.name, size)
        return digest.hexdigest()
