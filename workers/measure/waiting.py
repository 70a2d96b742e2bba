"""How long a device is waited for in one run: once in vain, and once for other programs. Asks nothing of a device."""

from dataclasses import replace

from sweeps.protocol.presets import Gate, Protocol
from sweeps.records import Failed, Job
from workers.measure.bench import Bench
from workers.measure.readiness import Readiness

LOOK_S = 10.0
"""How long one call waits for a device: Ctrl-C and the progress bar must not wait longer."""

_NO_TIME_S = 0.01
"""Clocks that are floats end a wait a little early."""


class Patience:
    """With one device in one run. Before a block: `next_wait_s` after each look, `ended` once that is 0."""

    def __init__(self, protocol: Protocol) -> None:
        self._gate = gate = protocol.gate
        self._on_not_ready = protocol.on_not_ready
        self._load_left_s = 0.0 if gate is None else min(gate.load_wait_seconds, gate.wait_seconds)
        self._waits = True

    def next_wait_s(self, found: Readiness, waited_s: float) -> float:
        """For how long the next look may wait; 0: there is none. `waited_s` is of this block, `found`'s included.

        A device that was waited for in vain is given no more time until it is found ready: another 20 minutes would
        end the same way.
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
        """What the last look comes to, `waited_seconds` being those of the whole wait.

        Other programs are only marked; all else as the protocol says: marked, or `Failed("run", "not_ready", ...)`.
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


def _await_ready(bench: Bench, job: Job, gate: Gate | None, patience: Patience) -> Readiness | Failed:
    waited = seconds = 0.0
    while True:
        found = bench.make_ready(job, gate, seconds)
        if isinstance(found, Failed):
            return found
        waited += found.waited_seconds
        seconds = patience.next_wait_s(found, waited)
        if not seconds:
            return patience.ended(replace(found, waited_seconds=waited))
