"""How long one run waits for a device: for heat and battery until one wait was in vain, and once for other programs."""

from dataclasses import replace

from sweeps.protocol.presets import Gate, Protocol
from sweeps.records import Failed, Job
from workers.measure.bench import Bench
from workers.measure.readiness import Readiness
from workers.measure.requests import ReadyRequest

LOOK_S = 10.0
"""How long one call waits for a device: Ctrl-C and the progress bar must not wait longer."""

_NO_TIME_S = 0.01
"""Clocks that are floats end a wait a little early."""


class WaitLimits:
    """Of one device in one run. Before a block: `next_wait_s` after each look, `ended` once that is 0."""

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
        lacking = "; ".join(found.lacking)
        return Failed(
            stage="run", kind="not_ready", message=f"not ready after {found.waited_seconds:.0f} s: {lacking}{before}"
        )


def wait_until_ready(bench: Bench, job: Job, gate: Gate | None, limits: WaitLimits) -> Readiness | Failed:
    """Before one block. Readiness as far as the protocol is content with it."""
    waited = seconds = 0.0
    while True:
        found = bench.ask(ReadyRequest(job, gate, seconds))
        if isinstance(found, Failed):
            return found
        waited += found.waited_seconds
        seconds = limits.next_wait_s(found, waited)
        if not seconds:
            return limits.ended(replace(found, waited_seconds=waited))
