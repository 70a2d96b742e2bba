"""One open ssh connection to a board. All its code runs in the thread of the event loop."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import asyncssh

from sweeps.errors import in_one_line
from workers.devices.remote.remote_shell import DeadlineError
from workers.devices.ssh.streams import LostError, Sink, only

UNKNOWN = -1
_CLOSE_S = 5.0


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a program on the board: an exit code, or a signal by its name (`KILL`)."""

    exit_code: int | None
    signal: str


class Connection:
    """A connection that is open until `close()`, or until it is lost."""

    def __init__(self, connection: asyncssh.SSHClientConnection) -> None:
        self._connection = connection

    def is_open(self) -> bool:
        return not self._connection.is_closed()

    def host_key(self) -> str:
        """Return the fingerprint of the board's host key, which was checked."""
        key = self._connection.get_server_host_key()
        return "" if key is None else key.get_fingerprint()

    async def execute(self, command: str, blocks: AsyncIterator[bytes], out: Sink, err: Sink, seconds: float) -> Ended:
        """Run one command with these blocks as its input; its output goes to the sinks as it arrives.

        Raises `LostError`, `DeadlineError` and any error of a sink. Then the program may still run.
        """
        try:
            async with asyncio.timeout(seconds), self._session(command, out, err) as session:
                await session.feed(blocks)
                await session.ended
        except TimeoutError as error:
            raise DeadlineError(f"{seconds:.0f} s passed") from error
        return session.outcome()

    async def start(self, command: str, script: bytes, ready_line: bytes, seconds: float) -> "Holder":
        """Start a program that runs for as long as it is sent input. Return it once it has printed the line
        `ready_line`.

        Raises `LostError` and `DeadlineError`; if the program ends instead, its exit code is in the holder.
        """
        printed = bytearray()
        ready = asyncio.Event()

        def out(data: bytes) -> None:
            if len(printed) < 1 << 16:
                printed.extend(data)
            if ready_line + b"\n" in printed:
                ready.set()

        session = await self._opened(command, out, lambda _: None)
        try:
            async with asyncio.timeout(seconds):
                await session.feed(only(script), eof=False)
                waiter = asyncio.ensure_future(ready.wait())
                await asyncio.wait((waiter, session.ended), return_when=asyncio.FIRST_COMPLETED)
                waiter.cancel()
        except TimeoutError as error:
            session.close()
            raise DeadlineError(f"{seconds:.0f} s passed") from error
        except BaseException:
            session.close()
            raise
        return Holder(session)

    async def close(self) -> None:
        self._connection.close()
        try:
            async with asyncio.timeout(_CLOSE_S):
                await self._connection.wait_closed()
        except (TimeoutError, OSError, asyncssh.Error):
            self._connection.abort()

    @asynccontextmanager
    async def _session(self, command: str, out: Sink, err: Sink) -> "AsyncIterator[_Session]":
        session = await self._opened(command, out, err)
        try:
            yield session
        finally:
            session.close()

    async def _opened(self, command: str, out: Sink, err: Sink) -> "_Session":
        try:
            session = _Session(out, err)
            await self._connection.create_session(
                lambda: session, command, encoding=None, request_pty=False, env=None, send_env=None
            )
        except (asyncssh.Error, OSError) as error:
            raise LostError(in_one_line(error)) from error
        return session


class Holder:
    """A program that ends when it gets no more input, or when the connection is lost."""

    def __init__(self, session: "_Session") -> None:
        self._session = session
        self._feeding: asyncio.Task[None] | None = None

    def exit_code(self) -> int | None:
        """Return the exit code; `None` while the program runs; `UNKNOWN` if the connection was lost, or a signal ended
        the program."""
        if not self._session.ended.done():
            return None
        return self._session.exit_code if self._session.exit_code is not None else UNKNOWN

    async def feed_every(self, seconds: float) -> None:
        """Send the program a line at this interval from now on, until it ends."""

        async def feed() -> None:
            while not self._session.ended.done():
                await asyncio.sleep(seconds)
                with suppress(OSError):
                    await self._session.feed(only(b"\n"), eof=False)

        self._feeding = asyncio.get_running_loop().create_task(feed())

    async def end(self) -> None:
        if self._feeding is not None:
            self._feeding.cancel()
        try:
            async with asyncio.timeout(_CLOSE_S):
                await self._session.feed(_nothing())
                await self._session.ended
        except (TimeoutError, LostError):
            pass
        finally:
            self._session.close()


class _Session(asyncssh.SSHClientSession[bytes]):
    """One program on the board."""

    def __init__(self, out: Sink, err: Sink) -> None:
        self.exit_code: int | None = None
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._out = out
        self._err = err
        self._channel: asyncssh.SSHClientChannel[bytes] | None = None
        self._signal = ""
        self._lost = "the connection ended"
        self._failed: Exception | None = None
        self._writable = asyncio.Event()
        self._writable.set()

    async def feed(self, blocks: AsyncIterator[bytes], *, eof: bool = True) -> None:
        assert self._channel is not None
        # A program that ended does not read its whole input: `ended` and the exit code show its outcome.
        with suppress(OSError):
            async for block in blocks:
                await self._writable.wait()
                if self.ended.done():
                    return
                self._channel.write(block)
            if eof:
                self._channel.write_eof()

    def outcome(self) -> Ended:
        if self._failed is not None:
            raise self._failed
        if self.exit_code is None and not self._signal:
            raise LostError(self._lost)
        return Ended(self.exit_code, self._signal)

    def close(self) -> None:
        if self._channel is not None:
            self._channel.close()

    def connection_made(self, chan: "asyncssh.SSHClientChannel[bytes]") -> None:
        self._channel = chan

    def data_received(self, data: bytes, datatype: asyncssh.DataType) -> None:
        if self._failed is not None:
            return
        try:
            (self._out if datatype is None else self._err)(data)
        except Exception as error:  # noqa: BLE001  # of the caller, who gets it; the connection goes on
            self._failed = error
            self.close()

    def exit_status_received(self, status: int) -> None:
        self.exit_code = status

    def exit_signal_received(self, signal: str, core_dumped: bool, msg: str, lang: str) -> None:
        self._signal = signal

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is not None:
            self._lost = in_one_line(exc)
        self._writable.set()
        if not self.ended.done():
            self.ended.set_result(None)


async def _nothing() -> AsyncIterator[bytes]:
    return
    yield b""
