"""The link to one board: scripts and files. Each call gives an answer or a `DeviceError`; a lost link is opened again.

A script goes to `/bin/sh` through its input, so that the user's own shell on the board, whatever it is, gets nothing to
interpret but fixed words.
"""

import re
import secrets
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from pathlib import PurePosixPath

from sweeps.errors import DeviceError
from workers.devices.interface import Completed
from workers.devices.shell import outcome_text
from workers.devices.ssh import loop
from workers.devices.ssh.address import Address
from workers.devices.ssh.connection import Connection, DeadlineError, Ended, Holder
from workers.devices.ssh.opening import connect
from workers.devices.ssh.streams import (
    BLOCK_BYTES,
    NOISE_BYTES,
    Kept,
    LostError,
    Marked,
    Sink,
    nowhere,
    only,
)

FOLDER = ".edgesweep"
"""In the home of the user on the board. All our files there are in it."""
OUTPUT_LIMIT_BYTES = 64 * 2**20
BOOT_ID = "/proc/sys/kernel/random/boot_id"
_SLOWEST_BYTES_PER_S = 1e6
_CONNECT_S = 20.0
_SIGNALS = {"HUP": 1, "INT": 2, "QUIT": 3, "ILL": 4, "ABRT": 6, "FPE": 8, "KILL": 9, "SEGV": 11, "PIPE": 13, "TERM": 15}


class BoardConnection:
    """A board by its address."""

    def __init__(self, address: Address, *, answer_s: float, backoff_s: Sequence[float]) -> None:
        """`answer_s`: the deadline of everything but programs and files. `backoff_s`: the pauses before each attempt to
        open a link again that was lost while a program ran."""
        self.address = address
        self.name = address.name
        self.folder = PurePosixPath()
        """`FOLDER` on the board, absolute; known once the link has been open."""
        self.boot_id = ""
        """Of the boot that the link was opened to; empty if the board does not tell."""
        self._answer_s = answer_s
        self._backoff_s = tuple(backoff_s)
        self._connection: Connection | None = None

    def __del__(self) -> None:
        connection, self._connection = getattr(self, "_connection", None), None
        if connection is not None:
            with suppress(RuntimeError):  # Python ends
                loop.later(connection.close())

    def ensure_contact(self) -> None:
        """Open the link if it is not open. Raises `DeviceError`."""
        if self._connection is not None and self._connection.is_open():
            return
        self.close()
        connection = loop.call(connect(self.address, _CONNECT_S), _CONNECT_S)
        try:
            self._greet(connection)
        except BaseException:
            loop.later(connection.close())
            raise
        self._connection = connection

    def reconnect(self, left_s: float) -> None:
        """Open a link again that was lost while a program runs, for at most `left_s`. Raises `DeviceError`."""
        ends_s = time.monotonic() + left_s
        for pause in (*self._backoff_s, None):
            try:
                return self.ensure_contact()
            except DeviceError as error:
                if pause is None or error.kind != "offline" or time.monotonic() + pause > ends_s:
                    raise
            time.sleep(pause)
        raise AssertionError("the last try returns or raises")

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(TimeoutError):
                loop.call(connection.close(), _CONNECT_S)

    def host_key(self) -> str:
        """Its fingerprint, which was checked."""
        self.ensure_contact()
        return "" if self._connection is None else self._connection.host_key()

    def shell(self, script: str) -> Completed:
        """Run a short script of ours, which does no harm if it is run twice. A lost link is opened again, once."""
        for last in (False, True):
            self.ensure_contact()
            try:
                return self.script(script, "task", self._answer_s)
            except DeadlineError as error:
                self.close()
                raise DeviceError(
                    "unresponsive",
                    f"{self.name} did not answer in time while {_shown(script)} ran",
                    "restart it, or take it out of the sweep",
                ) from error
            except LostError as error:
                self.close()
                if last:
                    raise self.broken_off(error, f"{_shown(script)} ran", "unresponsive") from error
        raise AssertionError("the last try returns or raises")

    def script(self, script: str, words: str, seconds: float) -> Completed:
        """Run a script over the open link. `words`, which are plain, name it among the board's processes.

        Raises `LostError` and `DeadlineError`: then it may still run.
        """
        out, err = Kept(OUTPUT_LIMIT_BYTES + BLOCK_BYTES), Kept(2**21)
        ended = self._run(script, words, out, err, seconds)
        return Completed(exit_code=_exit_code(ended), stdout=bytes(out.content), stderr=bytes(err.content))

    def sections(self, *commands: str) -> list[str]:
        """The output of each command, in one exchange. Exit codes are ignored: a board may lack some files."""
        one, other = secrets.token_hex(8), secrets.token_hex(8)
        done = self.shell(f"\necho {one}''{other}\n".join(f"({command}) 2>/dev/null" for command in commands))
        sections = done.stdout.decode("utf-8", "replace").split(f"{one}{other}\n")
        if len(sections) != len(commands):
            raise DeviceError(
                "no_exit_code",
                f"{self.name} answered {len(sections)} of {len(commands)} commands{outcome_text(done)}",
            )
        return sections

    def checked(self, script: str) -> None:
        done = self.shell(script)
        if done.exit_code != 0:
            raise DeviceError("os_error", f"{self.name}: {script[:200]} failed{outcome_text(done)}")

    def send(self, command: str, blocks: AsyncIterator[bytes], err: Sink, size: int, name: str) -> int:
        """Run a command of plain words with `size` bytes as its input; returns its exit code.

        `name`: of the file, for messages. What arrived has to be checked: it may have been cut off.
        """
        return self._transferred(command, blocks, nowhere, err, size, name)

    def receive(self, script: str, size: int, out: Sink, name: str) -> int:
        """Give what a script prints, about `size` bytes, to `out`; returns its exit code."""
        blocks = only(self._wrapped(script, marked := Marked(out)))
        return self._transferred("exec /bin/sh -s edgesweep-file", blocks, marked, nowhere, size, name)

    def hold(self, words: str, script: str, wanted: str) -> Holder:
        """Start a program that ends with the link, once it has printed `wanted`."""
        self.ensure_contact()
        assert self._connection is not None
        command = f"exec /bin/sh -s {words}"
        start = self._connection.start(command, f"{{\n{script}\nexit\n}}\n".encode(), wanted.encode(), self._answer_s)
        try:
            return loop.call(start, self._answer_s)
        except (LostError, DeadlineError, TimeoutError) as error:
            self.close()
            raise self.broken_off(error, "it was leased", "unresponsive") from error

    def broken_off(self, error: Exception, what: str, kind: str) -> DeviceError:
        """Why the link was lost: `kind` if it can be opened again, otherwise what opening it meets."""
        try:
            self.ensure_contact()
        except DeviceError as found:
            return DeviceError(found.kind, f"{found.message}, noticed while {what}", found.next_step)
        return DeviceError(kind, f"{self.name}: the connection broke while {what}: {error}", "check its network")

    def _greet(self, connection: Connection) -> None:
        """Make our folder, and learn where it is and which boot it is."""
        out = Kept(NOISE_BYTES)
        places = f"{FOLDER}/run {FOLDER}/attempts"
        script = f"umask 77; cd && mkdir -p {places} && cd {FOLDER} && pwd -P || exit; cat {BOOT_ID} 2>/dev/null; :"
        blocks = only(self._wrapped(script, marked := Marked(out)))
        work = connection.execute("exec /bin/sh -s edgesweep-hello", blocks, marked, nowhere, _CONNECT_S)
        try:
            ended = loop.call(work, _CONNECT_S)
        except (LostError, DeadlineError, TimeoutError) as error:
            raise DeviceError(
                "unresponsive",
                f"{self.name} lets this user in and runs nothing: {error}",
                f"this command must print a line: ssh {self.address.target} echo works",
            ) from error
        folder, _, boot_id = out.content.decode("utf-8", "surrogateescape").partition("\n")
        if ended.exit_code != 0 or not folder.endswith(f"/{FOLDER}") or len(folder) > 1000:
            raise DeviceError(
                "os_error",
                f"{self.name}: the folder {FOLDER} cannot be made in the home of its user",
                f"this command must work: ssh {self.address.target} mkdir -p {FOLDER}",
            )
        self.folder = PurePosixPath(folder)
        self.boot_id = boot_id.strip() if re.fullmatch(r"[0-9a-f-]{36}\s*", boot_id) else ""

    def _run(self, script: str, words: str, out: Sink, err: Sink, seconds: float) -> Ended:
        blocks = only(self._wrapped(script, marked := Marked(out)))
        return self._executed(f"exec /bin/sh -s edgesweep-{words}", blocks, marked, err, seconds)

    def _wrapped(self, script: str, marked: "Marked") -> bytes:
        # Read to its end before anything of it runs; and the mark as two words, so that no command line has it.
        text = f"{{\necho {marked.mark[:16]}''{marked.mark[16:]}\n{script}\nexit\n}}\n"
        try:
            return text.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError as error:
            raise DeviceError("bad_name", f"{self.name}: a name or argument cannot be written as UTF-8") from error

    def _executed(self, command: str, blocks: AsyncIterator[bytes], out: Sink, err: Sink, seconds: float) -> Ended:
        if self._connection is None:
            raise LostError("there is no connection")
        try:
            return loop.call(self._connection.execute(command, blocks, out, err, seconds), seconds)
        except TimeoutError as error:
            raise DeadlineError("the connection hangs") from error

    def _transferred(
        self, command: str, blocks: AsyncIterator[bytes], out: Sink, err: Sink, size: int, name: str
    ) -> int:
        self.ensure_contact()
        try:
            return _exit_code(self._executed(command, blocks, out, err, self._answer_s + size / _SLOWEST_BYTES_PER_S))
        except DeadlineError as error:
            self.close()
            # If the board hangs, this raises another error: then the link was not just too slow for the file.
            self.shell(":")
            raise DeviceError(
                "timeout",
                f"{self.name}: the transfer of {name[:100]} ({size / 1e6:.1f} MB) took too long",
                "use a cable instead of Wi-Fi",
            ) from error
        except LostError as error:
            self.close()
            raise self.broken_off(error, f"{name[:100]} was transferred", "disconnected") from error


def _exit_code(ended: Ended) -> int:
    if ended.exit_code is not None:
        return ended.exit_code
    return -_SIGNALS.get(ended.signal, 15)


def _shown(script: str) -> str:
    return script.strip().splitlines()[0][:100]


def no_space(name: str, why: str) -> DeviceError:
    """`name`: of the board."""
    return DeviceError(
        "no_space",
        f"{name}: {why}",
        f"free storage on the board; this deletes EdgeSweep's files there: edgesweep devices clean {name}",
    )
