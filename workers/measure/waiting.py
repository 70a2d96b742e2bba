"""How long one run waits for a device: for heat and battery until one wait was in vain, and once for other programs."""

from collections.abc import Callable
from dataclasses import replace

from sweeps.protocol.presets import Protocol
from sweeps.records import Failed
from workers.measure.readiness import Readiness

LOOK_S = 10.0
"""How long one call waits for a device: Ctrl-C and the progress bar must not wait longer."""

_NO_TIME_S = 0.01
"""Clocks that are floats end a wait a little early."""


class WaitLimits:
    """Of one device in one run. Before each block there is one `Wait`."""

    def __init__(self, protocol: Protocol) -> None:
        self._gate = gate = protocol.gate
        self._on_not_ready = protocol.on_not_ready
        self._load_left_s = 0.0 if gate is None else min(gate.load_wait_seconds, gate.wait_seconds)
        self._waits = True

    def next_wait_s(self, found: Readiness, waited_s: float) -> float:
        """For how many seconds the next look may wait; 0: there is no next look.

        `waited_s` is the whole wait for this block, that of `found` included. After a wait in vain there is none until
        the device is found ready: another 20 minutes would end the same way.
        """
        if self._gate is None or found.ready:
            self._waits = True
            return 0.0
        left_s = self._gate.wait_seconds - waited_s
        if found.busy_only:
            self._load_left_s -= found.waited_seconds
            left_s = min(left_s, self._load_left_s)
        elif not self._waits:
            return 0.0
        return min(LOOK_S, left_s) if left_s > _NO_TIME_S else 0.0

    def ended(self, found: Readiness) -> Readiness | Failed:
        """The result of the last look; its `waited_seconds` are those of the whole wait.

        The load of other programs is only marked. Anything else is marked too, or a `Failed("run", "not_ready", ...)`,
        as the protocol says.
        """
        if found.ready or found.busy_only:
            return found
        before = "" if self._waits else "; an earlier block waited in vain, so this one did not wait"
        self._waits = False
        if self._on_not_ready == "mark":
            return found
        lacking = "; ".join(found.words)
        return Failed(
            stage="run", kind="not_ready", message=f"not ready after {found.waited_seconds:.0f} s: {lacking}{before}"
        )


class Wait:
    """Before one block: look for `look_s`, give `ended` what was found, and look again while that is `None`."""

    def __init__(self, limits: WaitLimits) -> None:
        self._limits = limits
        self.look_s = 0.0
        """How long the next look may wait; the first one does not."""
        self.waited_s = 0.0
        """By all looks so far."""

    def ended(self, found: Readiness) -> Readiness | Failed | None:
        """Readiness as far as the protocol is content with it."""
        self.waited_s += found.waited_seconds
        self.look_s = self._limits.next_wait_s(found, self.waited_s)
        return None if self.look_s else self._limits.ended(replace(found, waited_seconds=self.waited_s))


def wait_until_ready(look: Callable[[float], Readiness | Failed], limits: WaitLimits) -> Readiness | Failed:
    """Before one block. `look` is given how long it may wait."""
    wait = Wait(limits)
    while True:
        found = look(wait.look_s)
        if isinstance(found, Failed):
            return found
        ended = wait.ended(found)
        if ended is not None:
            return ended
