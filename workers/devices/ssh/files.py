"""Our files on a board. Each is complete and verified, or missing."""

import hashlib
import os
import re
import secrets
from pathlib import Path, PurePosixPath

from sweeps.errors import DeviceError
from workers.devices.bounds import bounded, too_large
from workers.devices.local import from_os_error
from workers.devices.shell import TAIL_BYTES, outcome_text, quoted
from workers.devices.ssh.board_connection import FOLDER, BoardConnection, no_space
from workers.devices.ssh.streams import BLOCK_BYTES, Kept, blocks_of

_KEPT_FREE_BYTES = 2**20
_WRONG_HASH, _NO_HASH = 44, 45


class SshFiles:
    """The files in the run folder of one board. Methods raise `DeviceError` as in `Device` and `SshDevice`."""

    def __init__(self, link: BoardConnection) -> None:
        self._link = link

    def push(self, source: Path, name: str, sha256: str | None) -> str:
        """Push under a temporary name, and rename the file when the board reports the expected hash."""
        self._link.ensure_contact()
        target = self._run / name
        if target.parent != self._run or not name.strip(". ") or "\0" in name:
            raise DeviceError("bad_name", f"{name!r} is no plain file name")
        try:
            with source.open("rb") as file:
                digest = sha256 or hashlib.file_digest(file, "sha256").hexdigest()
                size = file.seek(0, os.SEEK_END)
                if self._room_for(target, size, digest):
                    file.seek(0)
                    part = f"part-{secrets.token_hex(8)}"
                    said = Kept(TAIL_BYTES)
                    # No redirection: its words would be those of the user's own shell, whatever that is.
                    command = f"exec dd of={FOLDER}/{part} bs={BLOCK_BYTES}"
                    if self._link.send(command, blocks_of(file), said, size, name) != 0:
                        raise self._not_written(name, said.content.decode("utf-8", "replace").strip())
                    self._place(self._link.folder / part, target, digest)
        except OSError as error:
            raise from_os_error(error) from error
        return str(target)

    def pull(self, path: str, target: Path, most_bytes: int) -> None:
        counted = self._link.shell(f"wc -c <{quoted([path])}")
        if counted.exit_code != 0 or not re.fullmatch(rb"[0-9]{1,15}", told := counted.stdout.strip()):
            raise DeviceError("no_output", f"{self._link.name}: {path} was not written{outcome_text(counted)}")
        if (size := int(told)) > most_bytes:
            raise too_large(self._link.name, path, most_bytes)
        part = target.with_name(target.name + ".part")
        try:
            with part.open("wb") as file:
                # Not more than was told, whatever the file has become.
                write = bounded(file.write, self._link.name, path, size)
                code = self._link.receive(f"head -c {size} <{quoted([path])}", size, write, path)
                got = file.tell()
            if code != 0 or got != size:
                raise DeviceError("no_output", f"{self._link.name}: {path} has {size} bytes, and {got} were read")
            part.replace(target)
        except OSError as error:
            raise from_os_error(error) from error
        finally:
            part.unlink(missing_ok=True)

    def remove(self, path: str) -> None:
        self._link.ensure_contact()
        if PurePosixPath(path).parent != self._run or not PurePosixPath(path).name.strip(". ") or "\0" in path:
            raise DeviceError("bad_name", f"{path!r} is not in the run folder of {self._link.name}")
        self._link.checked(f"rm -f -- {quoted([path])}")

    @property
    def _run(self) -> PurePosixPath:
        return self._link.folder / "run"

    def _room_for(self, target: PurePosixPath, size: int, digest: str) -> bool:
        """`False` if the board already has this file. Deletes what an interrupted push left. Raises `no_space`."""
        file, run = quoted([str(target)]), quoted([str(self._run)])
        parts = quoted([str(self._link.folder)]) + "/part-*"
        there, space = self._link.sections(
            f"[ -f {file} ] && sha256sum <{file}", f"mkdir -p {run} && rm -f {parts} && df -kP {run}"
        )
        if there[:64] == digest:
            return False
        columns = re.search(r"\s[0-9]+\s+[0-9]+\s+([0-9]{1,15})\s+[0-9]+%", space)
        if columns is None:
            raise DeviceError("os_error", f"{self._link.name}: {run} cannot be made, or its free space is not known")
        have = int(columns[1]) * 1024
        if have < size + _KEPT_FREE_BYTES:
            raise no_space(
                self._link.name, f"{target.name[:100]} needs {size / 1e6:.1f} MB, and {have / 1e6:.1f} MB are free"
            )
        return True

    def _not_written(self, name: str, words: str) -> DeviceError:
        if "no space" in words.lower() or "quota" in words.lower():
            return no_space(self._link.name, f"{name[:100]} did not fit")
        return DeviceError("os_error", f"{self._link.name}: {name[:100]} could not be written: {words}")

    def _place(self, part: PurePosixPath, target: PurePosixPath, digest: str) -> None:
        from_, to = quoted([str(part)]), quoted([str(target)])
        placed = self._link.shell(
            # Again, after a link was lost on the way: the file may be in its place already.
            f'if [ ! -e {from_} ]; then h=$(sha256sum <{to}); [ "${{h%% *}}" = {digest} ] && exit 0; fi\n'
            f"h=$(sha256sum <{from_}) || exit {_NO_HASH}\n"
            f'[ "${{h%% *}}" = {digest} ] || {{ rm -f {from_}; exit {_WRONG_HASH}; }}\n'
            f"chmod 700 {from_} && mv -f {from_} {to}"
        )
        if placed.exit_code == _NO_HASH:
            raise DeviceError(
                "os_error",
                f"{self._link.name}: pushed files cannot be verified there{outcome_text(placed)}",
                "install coreutils, or BusyBox with sha256sum",
            )
        if placed.exit_code == _WRONG_HASH:
            raise DeviceError(
                "corrupt_push",
                f"{self._link.name}: {target.name[:100]} arrived with a different checksum than it was sent with",
                "check the board's storage",
            )
        if placed.exit_code != 0:
            raise DeviceError(
                "os_error", f"{self._link.name}: {target.name[:100]} could not be renamed{outcome_text(placed)}"
            )
