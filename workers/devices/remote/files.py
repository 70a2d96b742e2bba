"""Our files on a device. Each file is complete and verified, or missing."""

import hashlib
import os
import re
from abc import ABC, abstractmethod
from pathlib import Path, PurePosixPath
from typing import BinaryIO, ClassVar

from sweeps.errors import DeviceError
from sweeps.whole_file import whole_file
from workers.devices.file_bounds import too_large
from workers.devices.local import from_os_error
from workers.devices.remote.remote_shell import RemoteShell
from workers.devices.shell import outcome_text, quoted

_KEPT_FREE_BYTES = 2**20
_WRONG_HASH, _NO_HASH = 44, 45
_UNHASHED = "untold"
"""The word that is printed instead of a file's hash on a device without `sha256sum`, such as Android 7."""


class RemoteFiles(ABC):
    """The files in the run folder of one device. Methods raise `DeviceError` as in `Device`."""

    free_space_command: ClassVar[str]
    """The command that prints the free space (KiB) of the folder given after it, as `df` does."""
    corrupt_next_step: ClassVar[str]
    """The next step for the user if a file arrives with other bytes."""

    def __init__(self, remote: RemoteShell) -> None:
        self._remote = remote

    def push(self, source: Path, name: str, sha256: str | None) -> str:
        """Push a file under a temporary name, and rename it when the device reports the expected hash. Return its
        path."""
        target = self._run / name
        if target.parent != self._run or not name.strip(". ") or "\0" in name:
            raise DeviceError("bad_name", f"{name!r} is no plain file name")
        try:
            with source.open("rb") as file:
                digest = sha256 or hashlib.file_digest(file, "sha256").hexdigest()
                size = file.seek(0, os.SEEK_END)
                if self._room_for(target, size, digest):
                    file.seek(0)
                    self._place(self._send(file, size, name), target, digest, size)
        except OSError as error:
            raise from_os_error(error) from error
        return str(target)

    def pull(self, path: str, target: Path, most_bytes: int) -> None:
        counted = self._remote.shell(f"wc -c <{quoted([path])}")
        if counted.exit_code != 0 or not re.fullmatch(rb"[0-9]{1,15}", digits := counted.stdout.strip()):
            raise DeviceError("no_output", f"{self._remote.name}: {path} was not written{outcome_text(counted)}")
        if (size := int(digits)) > most_bytes:
            raise too_large(self._remote.name, path, most_bytes)
        try:
            with whole_file(target) as part, part.open("wb") as file:
                self._receive(path, size, file, most_bytes)
        except OSError as error:
            raise from_os_error(error) from error

    def remove(self, path: str) -> None:
        if PurePosixPath(path).parent != self._run or not PurePosixPath(path).name.strip(". ") or "\0" in path:
            raise DeviceError("bad_name", f"{path!r} is not in the run folder of {self._remote.name}")
        self._remote.checked(f"rm -f -- {quoted([path])}")

    @abstractmethod
    def _clear_script(self) -> str:
        """Return the script that deletes the remains of an interrupted push."""

    @abstractmethod
    def _send(self, source: BinaryIO, size: int, name: str) -> PurePosixPath:
        """Send `size` bytes to a temporary file on the device, and return its path. `name`: the file's name, for
        messages."""

    @abstractmethod
    def _receive(self, path: str, size: int, target: BinaryIO, most_bytes: int) -> None:
        """Receive a file that had `size` bytes when it was counted, and never more than `most_bytes`."""

    @abstractmethod
    def _hash(self, path: PurePosixPath, size: int) -> str:
        """Return the SHA-256 of a file on a device without `sha256sum`, in hex."""

    @property
    def _run(self) -> PurePosixPath:
        return self._remote.folder() / "run"

    def _room_for(self, target: PurePosixPath, size: int, digest: str) -> bool:
        """Create the run folder, and check the free space. Return `False` if the folder already has this file. Raises
        `no_space`."""
        file, run = quoted([str(target)]), quoted([str(self._run)])
        present, space = self._remote.sections(
            f"[ -f {file} ] && {{ sha256sum <{file} || {{ echo {_UNHASHED}; wc -c <{file}; }}; }}",
            f"{{ [ -d {run} ] || mkdir -p {run}; }} && {self._clear_script()} && {self.free_space_command} {run}",
        )
        if present[:64] == digest or (present.split() == [_UNHASHED, str(size)] and self._hash(target, size) == digest):
            return False
        columns = re.search(r"\s[0-9]+\s+[0-9]+\s+([0-9]{1,15})\s+[0-9]+%", space)
        if columns is None:
            raise DeviceError(
                "os_error", f"{self._remote.name}: {run} cannot be created, or its free space is not known"
            )
        free = int(columns[1]) * 1024
        if free < size + _KEPT_FREE_BYTES:
            raise self._remote.no_space(
                f"{target.name[:100]} needs {size / 1e6:.1f} MB, and {free / 1e6:.1f} MB are free"
            )
        return True

    def _place(self, part: PurePosixPath, target: PurePosixPath, digest: str, size: int) -> None:
        from_, to = quoted([str(part)]), quoted([str(target)])
        place = f"{{ [ -x {from_} ] || chmod 700 {from_}; }} && mv -f {from_} {to}"
        refuse = f"{{ rm -f {from_}; exit {_WRONG_HASH}; }}"
        placed = self._remote.shell(
            # A script is repeated if its connection was lost: then the file may already be in place.
            f'if [ ! -e {from_} ]; then h=$(sha256sum <{to}); [ "${{h%% *}}" = {digest} ] && exit 0; fi\n'
            f'h=$(sha256sum <{from_}) || exit {_NO_HASH}; [ "${{h%% *}}" = {digest} ] || {refuse}; {place}'
        )
        if placed.exit_code == _NO_HASH:
            placed = self._remote.shell(place if self._hash(part, size) == digest else refuse)
        if placed.exit_code == _WRONG_HASH:
            raise DeviceError(
                "corrupt_push",
                f"{self._remote.name}: {target.name[:100]} arrived with a different checksum than it was sent with",
                self.corrupt_next_step,
            )
        if placed.exit_code != 0:
            raise DeviceError(
                "os_error", f"{self._remote.name}: {target.name[:100]} could not be renamed{outcome_text(placed)}"
            )
