"""The limits of a run's waits for a device. A run waits for heat and battery until one wait was in vain, and for other
programs for one total time."""

from collections.abc import Callable
from dataclasses import replace

from sweeps.protocol.presets import Protocol
from sweeps.records import Failed
from workers.measure.readiness import Readiness

LOOK_S = 10.0
"""The longest time that one call waits for a device: Ctrl-C and the progress bar must not wait longer."""

_NO_TIME_S = 0.01
"""Clocks that are floats may end a wait this much too early."""


class WaitLimits:
    """The limits of one device in one run. Before each block there is one `Wait`."""

    def __init__(self, protocol: Protocol) -> None:
        self._gate = gate = protocol.gate
        self._on_not_ready = protocol.on_not_ready
        self._load_left_s = 0.0 if gate is None else min(gate.load_wait_seconds, gate.wait_seconds)
        self._waits = True

    def next_wait_s(self, readiness: Readiness, waited_s: float) -> float:
        """Return the seconds that the next look at the device may wait; 0: there is no next look.

        `waited_s`: the whole wait for this block, including that of `readiness`. After a wait in vain there is no
        further wait until the device is found ready: another 20 minutes would end the same way.
        """
        if self._gate is None or readiness.ready:
            self._waits = True
            return 0.0
        left_s = self._gate.wait_seconds - waited_s
        if readiness.busy_only:
            self._load_left_s -= readiness.waited_seconds
            left_s = min(left_s, self._load_left_s)
        elif not self._waits:
            return 0.0
        return min(LOOK_S, left_s) if left_s > _NO_TIME_S else 0.0

    def ended(self, readiness: Readiness) -> Readiness | Failed:
        """Return the result of the last look; its `waited_seconds` are those of the whole wait.

        If only other programs load the device, the block is just marked. Any other unmet condition is marked too, or
        becomes a `Failed("run", "not_ready", ...)`, as the protocol says.
        """
        if readiness.ready or readiness.busy_only:
            return readiness
        before = "" if self._waits else "; an earlier block waited in vain, so this one did not wait"
        self._waits = False
        if self._on_not_ready == "mark":
            return readiness
        lacking = "; ".join(readiness.words)
        return Failed(
            stage="run",
            kind="not_ready",
            message=f"not ready after {readiness.waited_seconds:.0f} s: {lacking}{before}",
        )


class Wait:
    """The wait before one block: look at the device for `look_s`, pass the readiness to `ended`, and look again while
    `ended` returns `None`."""

    def __init__(self, limits: WaitLimits) -> None:
        self._limits = limits
        self.look_s = 0.0
        """The seconds that the next look may wait; the first look does not wait."""
        self.waited_s = 0.0
        """The seconds that all looks so far took."""

    def ended(self, readiness: Readiness) -> Readiness | Failed | None:
        """Return the readiness that the protocol accepts, or its failure; `None`: look again."""
        self.waited_s += readiness.waited_seconds
        self.look_s = self._limits.next_wait_s(readiness, self.waited_s)
        return None if self.look_s else self._limits.ended(replace(readiness, waited_seconds=self.waited_s))


def wait_until_ready(look: Callable[[float], Readiness | Failed], limits: WaitLimits) -> Readiness | Failed:
    """Wait before one block. `look` gets the seconds that it may wait."""
    wait = Wait(limits)
    while True:
        readiness = look(wait.look_s)
        if isinstance(readiness, Failed):
            return readiness
        ended = wait.ended(readiness)
        if ended is not None:
            return ended
