"""The handling of Ctrl-C and of a terminal that closes, for all commands."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from types import FrameType

_LAST_WORD_SECONDS = 1.0
"""Longest wait for the last message, in seconds: a blocked terminal must not delay the end."""


class CtrlC:
    """Context manager in which the first Ctrl-C requests an orderly end, and the second one stops at once. A terminal
    that closes requests an orderly end, too.

    A separate thread prints the message and calls `on_request`: the signal handler cannot, because it may interrupt
    another write, and the work may take minutes until it checks for the request.
    """

    def __init__(self, note: Callable[[str], None], on_request: Callable[[], None] = lambda: None) -> None:
        self._note = note
        self._on_request = on_request
        self._is_requested = False
        self._messages: SimpleQueue[str | None] = SimpleQueue()  # `put` is reentrant

    def __enter__(self) -> Callable[[], bool]:
        self._teller = threading.Thread(target=self._tell, daemon=True)
        self._teller.start()
        self._terminals = _terminals()
        self._before = {number: signal.signal(number, self._handle) for number in _asking()}
        return lambda: self._is_requested

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._messages.put(None)
        self._teller.join(_LAST_WORD_SECONDS)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            _leave(self._terminals)
            if self._is_requested:
                return  # kernel and shell each send a signal for the same terminal
        if self._is_requested:
            raise KeyboardInterrupt
        self._is_requested = True
        self._messages.put("stopping after the running work; press Ctrl-C again to stop at once")

    def _tell(self) -> None:
        for message in iter(self._messages.get, None):
            self._on_request()
            self._note(message)


def _asking() -> list[signal.Signals]:
    """Return the signals that request an end: of Ctrl-C, of `kill`, and of a terminal that closes, unless `nohup` is in
    force."""
    hangup = [signal.SIGHUP] if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN else []
    return [signal.SIGINT, signal.SIGTERM, *hangup]


def _terminals() -> list[int]:
    """Return the file descriptors of stdout and stderr that are terminals. Call it before a terminal closes: a closed
    terminal no longer counts as one."""
    return [descriptor for descriptor in (1, 2) if os.isatty(descriptor)]


def _leave(terminals: list[int]) -> None:
    """Redirect these descriptors to the null device: writes to a closed terminal fail, and the work must still end in
    order."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for descriptor in terminals:
        os.dup2(nowhere, descriptor)
    os.close(nowhere)
    terminals.clear()


@contextmanager
def closing_terminal_ends() -> Iterator[None]:
    """Raise `KeyboardInterrupt` in the `with` block when the terminal closes, as Ctrl-C does, unless `nohup` is in
    force."""
    in_main_thread = threading.current_thread() is threading.main_thread()
    if not in_main_thread or signal.getsignal(signal.SIGHUP) is not signal.SIG_DFL:
        yield
        return
    terminals = _terminals()

    def end(_number: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # kernel and shell each send a signal for the same terminal
        _leave(terminals)
        raise KeyboardInterrupt

    signal.signal(signal.SIGHUP, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Delay Ctrl-C to the end of the `with` block, which must be short and must not be left half done."""
    received: list[int] = []
    before = {number: signal.signal(number, lambda number, _: received.append(number)) for number in _asking()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if received:
        raise KeyboardInterrupt
