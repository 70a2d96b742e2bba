"""Publishes a sweep while it is measured, in a process of its own (`sweeps.store.publisher`) that it starts and tells
when to work.

A process and not a thread: what MLflow computes would hold up the thread that answers the devices, it can be given less
of the CPU than anything else, and a server that never answers cannot keep the sweep from ending.
"""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from sweeps.workspace import Workspace

READY_LIMIT_S = 20.0
"""For its start, with the import of MLflow, and for the job that it is writing."""
TURN_LIMIT_S = 2.0
"""Between two blocks of this computer. A server that needs longer gets the rest in the next turn."""
STOPPED_LIMIT_S = 5.0
"""To publish the rest after Ctrl-C. The next run sends what is left."""
SILENCE_LIMIT_S = 600.0
"""A process that has told nothing for so long, while it is to publish the rest, is given up."""
END_LIMIT_S = 3.0
MOST_STARTS = 4
LOOK_S = 0.2


class Publisher:
    """Use it as a context manager. It holds until `beside`, `turn` or `drain` is called."""

    def __init__(self, workspace: Workspace, sweep: str) -> None:
        """`sweep` must be in the journal by the time that it is to work. Starts the process and returns at once."""
        self._command = [sys.executable, "-P", "-m", "sweeps.store.publisher", str(workspace.root), sweep]
        self._log = workspace.logs / "publisher.log"
        self._answers = _Answers()
        self._orders = 0
        self._awaited = 0
        """The number of the last order after which it is to hold."""
        self._is_beside = False
        self._starts = 0
        self._process: subprocess.Popen[str] | None = None
        self._start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def beside(self) -> None:
        """From now on, publish whenever there is something: nothing is timed on this computer."""
        self._is_beside = True
        self._order("go")

    def between(self) -> None:
        """From now on, publish only in a `turn`: this computer is timed. Returns when it uses no CPU, as a rule."""
        self._is_beside = False
        self._hold(READY_LIMIT_S)

    def turn(self) -> None:
        """Nothing is timed for the moment, and something may have finished."""
        if self._is_beside:
            if self._answers.ended:
                self._order("go")  # the process was killed: another one goes on
            return
        if not self._answers.ended and self._answers.held < self._awaited:
            return  # a server that does not answer costs the time of one turn, not of each
        self._awaited = self._order("turn")
        if not self._answers.wait(lambda answers: answers.held >= self._awaited, TURN_LIMIT_S):
            self._hold(TURN_LIMIT_S)

    def complaint(self) -> str:
        """Return why MLflow took nothing, once for each time that it went down; otherwise an empty text."""
        return self._answers.complaint()

    def drain(self, stop: Callable[[], bool]) -> Iterator[tuple[int, int]]:
        """Publish the rest, and end. Yields the numbers of published jobs and of all that are to be published.

        Gives up when MLflow has taken nothing for a minute, or a few seconds after `stop` returns true.
        """
        began = self._answers.published
        self._order("drain")
        ordered_at = time.monotonic()
        stopped_at: float | None = None
        while not self._answers.wait(lambda answers: answers.ended, LOOK_S):
            now = time.monotonic()
            stopped_at = now if stopped_at is None and stop() else stopped_at
            if stopped_at is not None and now - stopped_at > STOPPED_LIMIT_S:
                return
            if now - max(ordered_at, self._answers.at) > SILENCE_LIMIT_S:
                return
            done = self._answers.published - began
            yield done, max(done, self._answers.left)
        # The last answer came with the end of the process.
        if (done := self._answers.published - began) or self._answers.left:
            yield done, max(done, self._answers.left)
        if self._process is not None and self._process.wait() != 0 and self._starts < MOST_STARTS:
            yield from self.drain(stop)  # it was killed

    def close(self) -> None:
        """End the process, whatever it does."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        with suppress(BrokenPipeError):
            process.stdin.close()
        try:
            process.wait(END_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._answers.join()

    def _hold(self, limit_s: float) -> None:
        self._awaited = self._order("hold")
        self._answers.wait(lambda answers: answers.held >= self._awaited, limit_s)

    def _order(self, word: str) -> int:
        """Returns the order's number. A process that has ended is started again, a few times."""
        self._orders += 1
        if self._answers.ended and self._starts < MOST_STARTS:
            self.close()
            self._start()
        process = self._process
        if process is not None and process.stdin is not None:
            with suppress(BrokenPipeError):  # the process has just ended: the next order starts another one
                process.stdin.write(f"{word} {self._orders}\n")
                process.stdin.flush()
        return self._orders

    def _start(self) -> None:
        self._starts += 1
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603  # our own argument list
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,  # Ctrl-C is for the driver, which lets it publish the rest
            )
        self._answers.listen(self._process, self._log)


class _Answers:
    """The answers of the process, which a thread reads."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._complaint = ""
        self._is_down = False
        self.held = -1
        self.published = 0
        self.left = 0
        self.ended = False
        self.at = 0.0
        """When it has told something, on this process' monotonic clock."""

    def listen(self, process: "subprocess.Popen[str]", log: Path) -> None:
        self.held, self.ended = -1, False
        self._thread = threading.Thread(target=self._listen, args=(process, log), daemon=True)
        self._thread.start()

    def join(self) -> None:
        if self._thread is not None:
            self._thread.join()

    def wait(self, until: Callable[["_Answers"], bool], limit_s: float) -> bool:
        """Tell whether a condition came to hold within the limit. Does not wait for a process that has ended."""
        with self._changed:
            self._changed.wait_for(lambda: self.ended or until(self), limit_s)
            return until(self)

    def complaint(self) -> str:
        with self._changed:
            complaint, self._complaint = self._complaint, ""
            return complaint

    def _listen(self, process: "subprocess.Popen[str]", log: Path) -> None:
        assert process.stdout is not None
        with process.stdout as answers:
            for line in answers:
                with self._changed:
                    self.at = time.monotonic()
                    with suppress(ValueError):  # the process was killed in the middle of a line
                        self._take(json.loads(line))
                    self._changed.notify_all()
        code = process.wait()
        with self._changed:
            if code != 0:
                self._down(f"the process that publishes ended with {code}; its log is {log}")
            self.ended = True
            self._changed.notify_all()

    def _take(self, answer: dict[str, Any]) -> None:
        match answer:
            case {"held": int(number)}:
                self.held = number
            case {"published": _}:
                self.published += 1
                self._is_down = False
            case {"left": int(count)}:
                self.left = count
            case {"up": _}:
                self._is_down = False
            case {"down": str(message)}:
                self._down(message)

    def _down(self, message: str) -> None:
        if not self._is_down:
            self._complaint = message
        self._is_down = True
