"""The connection to one board: scripts and files. Each call returns an answer or raises a `DeviceError`.

A lost connection is opened again. A script goes to `/bin/sh` through its input, so that the user's own shell on the
board, whatever it is, has only fixed words to interpret.
"""

import re
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from pathlib import PurePosixPath

from sweeps.errors import DeviceError
from sweeps.retry import tries_with
from workers.devices.interface import Completed
from workers.devices.remote.remote_shell import BOOT_ID, OUTPUT_LIMIT_BYTES, DeadlineError, RemoteShell
from workers.devices.ssh import loop
from workers.devices.ssh.address import Address
from workers.devices.ssh.connection import Connection, Ended, Holder
from workers.devices.ssh.opening import connect
from workers.devices.ssh.streams import (
    BLOCK_BYTES,
    NOISE_BYTES,
    Beginning,
    LostError,
    Marked,
    Sink,
    nowhere,
    only,
)

FOLDER = ".edgesweep"
"""The folder with all our files, in the home folder of the user on the board."""
MARK = "EDGESWEEP_ATTEMPT"
"""The variable in the environment of every program that we start on a board, which all its children inherit."""
# BusyBox's grep has no `-a`, and needs none.
_PROCESSES = """
if echo x | grep -aq x 2>/dev/null; then a=-a; else a=; fi
grep $a '' /dev/null /proc/[0-9]*/cmdline
"""
_KILL_MARKED = """i=0
while [ $i -lt 50 ]; do
    files=$(grep -ls "$mark" /proc/[0-9]*/environ)
    [ -n "$files" ] || exit 0
    for file in $files; do pid=${file#/proc/}; kill -s KILL "${pid%/environ}" 2>/dev/null; done
    sleep 0.1
    i=$((i+1))
done
exit 1
"""
"""The script that kills the programs with `$mark` in their environment. Only those of the same user can be seen."""
_SLOWEST_BYTES_PER_S = 1e6
_CONNECT_S = 20.0
_SIGNALS = {"HUP": 1, "INT": 2, "QUIT": 3, "ILL": 4, "ABRT": 6, "FPE": 8, "KILL": 9, "SEGV": 11, "PIPE": 13, "TERM": 15}


class BoardConnection(RemoteShell):
    """A board, by its address."""

    noun = "board"
    processes_script = _PROCESSES

    def __init__(self, address: Address, *, answer_s: float, backoff_s: Sequence[float]) -> None:
        """Prepare access to the board. `answer_s`: the deadline (s) of everything but programs and files. `backoff_s`:
        the pauses (s) before each attempt to open a connection again that was lost while a program ran."""
        self.address = address
        self.name = address.name
        self.boot_id = ""
        """The boot id of the board when the connection was opened; empty if the board does not report it."""
        self._folder = PurePosixPath()
        """The absolute path of `FOLDER` on the board; known once a connection has been open."""
        self._answer_s = answer_s
        self._backoff_s = tuple(backoff_s)
        self._connection: Connection | None = None

    def __del__(self) -> None:
        connection, self._connection = getattr(self, "_connection", None), None
        if connection is not None:
            with suppress(RuntimeError):  # Python is ending.
                loop.later(connection.close())

    def folder(self) -> PurePosixPath:
        if not self._folder.is_absolute():
            self.ensure_contact()
        return self._folder

    def ensure_contact(self) -> None:
        """Open the connection if it is not open. Raises `DeviceError`."""
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
        """Open a connection again that was lost while a program runs; try for at most `left_s`. Raises
        `DeviceError`."""
        for is_last in tries_with(self._backoff_s, left_s):
            try:
                return self.ensure_contact()
            except DeviceError as error:
                if is_last or error.kind != "offline":
                    raise
        raise AssertionError("the last try returns or raises")

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(TimeoutError):
                loop.call(connection.close(), _CONNECT_S)

    def host_key(self) -> str:
        """Return the fingerprint of the board's host key, which was checked."""
        self.ensure_contact()
        return "" if self._connection is None else self._connection.host_key()

    def shell(self, script: str) -> Completed:
        """Run a script. A lost connection is opened again, once, and the script is run again: running it twice must do
        no harm."""
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
        """Run a script over the open connection. `words`: plain words that identify the script among the board's
        processes.

        Raises `LostError` and `DeadlineError`: then the script may still run.
        """
        out, err = Beginning(OUTPUT_LIMIT_BYTES + BLOCK_BYTES), Beginning(2**21)
        ended = self._run(script, words, out, err, seconds)
        return Completed(exit_code=_exit_code(ended), stdout=bytes(out.content), stderr=bytes(err.content))

    def kill_marked(self, attempt: str = "") -> bool:
        if not re.fullmatch(r"[0-9a-f-]*", attempt):
            raise ValueError(f"{attempt!r} is no attempt's name")
        word = f"{MARK}={attempt}." if attempt else f"{MARK}="
        # A variable of the user's environment would be in that of `grep`, which would then find itself.
        return self.shell(f"unset mark; mark={word}\n{_KILL_MARKED}").exit_code == 0

    def cmdline_script(self, pid: int) -> str:
        # A process of another user cannot be killed, nor is it ours.
        return f"[ -O /proc/{pid} ] && cat /proc/{pid}/cmdline"

    def send(self, command: str, blocks: AsyncIterator[bytes], err: Sink, size: int, name: str) -> int:
        """Run a command of plain words with `size` bytes as its input. Return its exit code.

        `name`: the name of the file, for messages. The caller has to check the bytes that arrived: they may have been
        cut off.
        """
        return self._transferred(command, blocks, nowhere, err, size, name)

    def receive(self, script: str, size: int, out: Sink, name: str) -> int:
        """Pass the output of a script, about `size` bytes, to `out`. Return the exit code of the script."""
        blocks = only(self._wrapped(script, marked := Marked(out)))
        return self._transferred("exec /bin/sh -s edgesweep-file", blocks, marked, nowhere, size, name)

    def hold(self, words: str, script: str, ready: str) -> Holder:
        """Start a program that ends with the connection. Return it once it has printed `ready`."""
        self.ensure_contact()
        assert self._connection is not None
        command = f"exec /bin/sh -s {words}"
        start = self._connection.start(command, f"{{\n{script}\nexit\n}}\n".encode(), ready.encode(), self._answer_s)
        try:
            return loop.call(start, self._answer_s)
        except (LostError, DeadlineError, TimeoutError) as error:
            self.close()
            raise self.broken_off(error, "it was locked", "unresponsive") from error

    def broken_off(self, error: Exception, action: str, kind: str) -> DeviceError:
        """Return the error for a lost connection: one of `kind` if the connection can be opened again, otherwise the
        error of opening it."""
        try:
            self.ensure_contact()
        except DeviceError as refusal:
            return DeviceError(refusal.kind, f"{refusal.message}, noticed while {action}", refusal.next_step)
        return DeviceError(kind, f"{self.name}: the connection broke while {action}: {error}", "check its network")

    def _greet(self, connection: Connection) -> None:
        """Create our folder, and read the folder's path and the board's boot id."""
        out = Beginning(NOISE_BYTES)
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
        self._folder = PurePosixPath(folder)
        self.boot_id = boot_id.strip() if re.fullmatch(r"[0-9a-f-]{36}\s*", boot_id) else ""

    def _run(self, script: str, words: str, out: Sink, err: Sink, seconds: float) -> Ended:
        blocks = only(self._wrapped(script, marked := Marked(out)))
        return self._executed(f"exec /bin/sh -s edgesweep-{words}", blocks, marked, err, seconds)

    def _wrapped(self, script: str, marked: "Marked") -> bytes:
        # The shell reads the script to its end before anything of it runs; and the mark is in two words, so that no
        # command line has it.
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
            # If the board hangs, this raises another error. If not, the connection was just too slow for the file.
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
