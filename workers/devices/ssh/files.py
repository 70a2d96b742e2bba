"""Our files on a board, sent and received over ssh by programs of the board."""

import secrets
from pathlib import PurePosixPath
from typing import BinaryIO

from sweeps.errors import DeviceError
from workers.devices.file_bounds import bounded
from workers.devices.remote.files import RemoteFiles
from workers.devices.shell import TAIL_BYTES, quoted
from workers.devices.ssh.board_connection import FOLDER, BoardConnection
from workers.devices.ssh.streams import BLOCK_BYTES, Beginning, blocks_of


class SshFiles(RemoteFiles):
    """The files in the run folder of one board."""

    free_space_command = "df -kP"
    corrupt_next_step = "check the board's storage"

    def __init__(self, connection: BoardConnection) -> None:
        super().__init__(connection)
        self._connection = connection

    def _clear_script(self) -> str:
        return f"rm -f {quoted([str(self._connection.folder())])}/part-*"

    def _send(self, source: BinaryIO, size: int, name: str) -> PurePosixPath:
        part = f"part-{secrets.token_hex(8)}"
        output = Beginning(TAIL_BYTES)
        # The command has no redirection: the user's own shell, whatever it is, would interpret that.
        command = f"exec dd of={FOLDER}/{part} bs={BLOCK_BYTES}"
        if self._connection.send(command, blocks_of(source), output, size, name) != 0:
            words = output.content.decode("utf-8", "replace").strip()
            if "no space" in words.lower() or "quota" in words.lower():
                raise self._connection.no_space(f"{name[:100]} did not fit")
            raise DeviceError("os_error", f"{self._connection.name}: {name[:100]} could not be written: {words}")
        return self._connection.folder() / part

    def _receive(self, path: str, size: int, target: BinaryIO, most_bytes: int) -> None:
        # No more is received than the size that the board reported, even if the file has grown since.
        write = bounded(target.write, self._connection.name, path, size)
        code = self._connection.receive(f"head -c {size} <{quoted([path])}", size, write, path)
        if code != 0 or target.tell() != size:
            raise DeviceError(
                "no_output", f"{self._connection.name}: {path} has {size} bytes, and {target.tell()} were read"
            )

    def _hash(self, path: PurePosixPath, size: int) -> str:
        raise DeviceError(
            "os_error",
            f"{self._connection.name}: pushed files cannot be verified there: it has no sha256sum",
            "install coreutils, or BusyBox with sha256sum",
        )
