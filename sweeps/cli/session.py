"""Shared by the commands: Ctrl-C, and a terminal that closes."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from types import FrameType

_LAST_WORD_SECONDS = 1.0
"""A blocked terminal must not delay the end."""


class CtrlC:
    """A context manager: the first Ctrl-C requests an orderly end, the second one stops at once. A terminal that closes
    requests an orderly end, too.

    A thread prints the message. The signal handler cannot, because it may interrupt another write. The work cannot
    either, because it may take minutes until it checks for the request. `asked` is called by it, too.
    """

    def __init__(self, note: Callable[[str], None], asked: Callable[[], None] = lambda: None) -> None:
        self._note = note
        self._tell_asked = asked
        self._asked = False
        self._told: SimpleQueue[str | None] = SimpleQueue()  # its `put` is reentrant

    def __enter__(self) -> Callable[[], bool]:
        self._teller = threading.Thread(target=self._tell, daemon=True)
        self._teller.start()
        self._terminals = _terminals()
        self._before = {number: signal.signal(number, self._handle) for number in _asking()}
        return lambda: self._asked

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._told.put(None)
        self._teller.join(_LAST_WORD_SECONDS)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            _leave(self._terminals)
            if self._asked:
                return  # kernel and shell each tell of the same terminal
        if self._asked:
            raise KeyboardInterrupt
        self._asked = True
        self._told.put("stopping after the running work; press Ctrl-C again to stop at once")

    def _tell(self) -> None:
        for message in iter(self._told.get, None):
            self._tell_asked()
            self._note(message)


def _asking() -> list[signal.Signals]:
    """The signals that ask for an end: Ctrl-C, `kill`, and a terminal that closes, unless `nohup` is in force."""
    hangup = [signal.SIGHUP] if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN else []
    return [signal.SIGINT, signal.SIGTERM, *hangup]


def _terminals() -> list[int]:
    """Of stdout and stderr. Asked for beforehand: one that was closed is no terminal any more."""
    return [descriptor for descriptor in (1, 2) if os.isatty(descriptor)]


def _leave(terminals: list[int]) -> None:
    """Nothing can be written to a terminal that was closed, and the work is to end in order."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for descriptor in terminals:
        os.dup2(nowhere, descriptor)
    os.close(nowhere)
    terminals.clear()


@contextmanager
def closing_terminal_ends() -> Iterator[None]:
    """A block that a terminal that closes ends as Ctrl-C does, unless `nohup` is in force."""
    here = threading.current_thread() is threading.main_thread()
    if not here or signal.getsignal(signal.SIGHUP) is not signal.SIG_DFL:
        yield
        return
    terminals = _terminals()

    def end(_number: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # kernel and shell each tell of the same terminal
        _leave(terminals)
        raise KeyboardInterrupt

    signal.signal(signal.SIGHUP, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """A block that is short and must not be left half done: Ctrl-C takes effect at its end."""
    asked: list[int] = []
    before = {number: signal.signal(number, lambda number, _: asked.append(number)) for number in _asking()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if asked:
        raise KeyboardInterrupt
