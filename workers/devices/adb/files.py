"""Our files on a phone. Each is complete and verified, or missing."""

import hashlib
import os
import re
from pathlib import Path, PurePosixPath

from sweeps.errors import DeviceError
from workers.devices.adb.phone_connection import FOLDER, PhoneConnection
from workers.devices.adb.wire import receive_file, send_file
from workers.devices.bounds import bounded, too_large
from workers.devices.local import from_os_error
from workers.devices.shell import outcome_text, quoted

_RUN = FOLDER / "run"
_PART = FOLDER / "part"
_KEPT_FREE_BYTES = 2**20
_WRONG_HASH, _NO_HASH = 44, 45
_UNHASHED = "untold"
"""Printed instead of a file's hash: Android 7 has no `sha256sum`, so the file is pulled and hashed on this host."""


class AdbFiles:
    """The files in the run folder of one phone. Methods raise `DeviceError` as in `Device` and `AdbDevice`."""

    def __init__(self, link: PhoneConnection) -> None:
        self._link = link

    def push(self, source: Path, name: str, sha256: str | None) -> str:
        """Push under a temporary name, and rename the file when the phone reports the expected hash."""
        target = _RUN / name
        if target.parent != _RUN or not name.strip(". ") or "\0" in name:
            raise DeviceError("bad_name", f"{name!r} is no plain file name")
        try:
            with source.open("rb") as file:
                digest = sha256 or hashlib.file_digest(file, "sha256").hexdigest()
                size = file.seek(0, os.SEEK_END)
                if self._room_for(target, size, digest):
                    file.seek(0)
                    self._link.transfer(lambda wire: send_file(wire, file, str(_PART), 0o100755), name, size)
                    self._place(target, digest, size)
        except OSError as error:
            raise from_os_error(error) from error
        return str(target)

    def pull(self, path: str, target: Path, most_bytes: int) -> None:
        counted = self._link.shell(f"wc -c <{quoted([path])}")
        if counted.exit_code != 0 or not re.fullmatch(rb"[0-9]{1,15}", size := counted.stdout.strip()):
            raise DeviceError("no_output", f"adb:{self._link.serial}: {path} was not written{outcome_text(counted)}")
        name = f"adb:{self._link.serial}"
        if int(size) > most_bytes:
            raise too_large(name, path, most_bytes)
        part = target.with_name(target.name + ".part")
        try:
            with part.open("wb") as file:
                write = bounded(file.write, name, path, most_bytes)
                self._link.transfer(lambda wire: receive_file(wire, path, write), path, int(size), "no_output")
            part.replace(target)
        except OSError as error:
            raise from_os_error(error) from error
        finally:
            part.unlink(missing_ok=True)

    def remove(self, path: str) -> None:
        if PurePosixPath(path).parent != _RUN or not PurePosixPath(path).name.strip(". ") or "\0" in path:
            raise DeviceError("bad_name", f"{path!r} is not in the run folder of adb:{self._link.serial}")
        self._link.checked(f"rm -f -- {quoted([path])}")

    def _room_for(self, target: PurePosixPath, size: int, digest: str) -> bool:
        """Create the run folder; `False` if it already has this file. Raises `no_space`."""
        file = quoted([str(target)])
        there, space = self._link.sections(
            f"[ -e {file} ] && {{ sha256sum <{file} || {{ echo {_UNHASHED}; wc -c <{file}; }}; }}",
            f"{{ [ -d {_RUN} ] || mkdir -p {_RUN}; }} && {{ [ ! -e {_PART} ] || rm -f {_PART}; }} && df -k {_RUN}",
        )
        if there[:64] == digest or (there.split() == [_UNHASHED, str(size)] and self._hash(target, size) == digest):
            return False
        columns = re.search(r"\s[0-9]+\s+[0-9]+\s+([0-9]{1,15})\s+[0-9]+%", space)
        if columns is None:
            raise DeviceError(
                "os_error", f"adb:{self._link.serial}: {_RUN} cannot be created, or its free space is not known"
            )
        have = int(columns[1]) * 1024
        if have < size + _KEPT_FREE_BYTES:
            raise self._link.no_space(
                f"{target.name[:100]} needs {size / 1e6:.1f} MB, and {have / 1e6:.1f} MB are free"
            )
        return True

    def _place(self, target: PurePosixPath, digest: str, size: int) -> None:
        place, refuse = f"mv -f {_PART} {quoted([str(target)])}", f"{{ rm -f {_PART}; exit {_WRONG_HASH}; }}"
        placed = self._link.shell(
            f'h=$(sha256sum <{_PART}) || exit {_NO_HASH}; [ "${{h%% *}}" = {digest} ] || {refuse}; {place}'
        )
        if placed.exit_code == _NO_HASH:
            placed = self._link.shell(place if self._hash(_PART, size) == digest else refuse)
        if placed.exit_code == _WRONG_HASH:
            raise DeviceError(
                "corrupt_push",
                f"adb:{self._link.serial}: {target.name[:100]} arrived with a different checksum than it was sent with",
                "try another cable or port",
            )
        if placed.exit_code != 0:
            raise DeviceError(
                "os_error", f"adb:{self._link.serial}: {target.name[:100]} could not be renamed{outcome_text(placed)}"
            )

    def _hash(self, path: PurePosixPath, size: int) -> str:
        digest = hashlib.sha256()
        self._link.transfer(lambda wire: receive_file(wire, str(path), digest.update), path.name, size)
        return digest.hexdigest()
