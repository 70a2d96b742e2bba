"""The next recovery step for a device that stopped answering. Pure: callers report what happened and when, and take the
steps.

The rungs, gentle ones first: wait, connect again, restart the adb server of its host (which the host refuses while
another phone on it is measured), and restart the device if the sweep file allows it. After each rung the device's shell
is asked whether the rung helped. Rungs come due at shares of the time that a run waits for a device, and each has a
budget for the run.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Literal

from sweeps.errors import LAB_KINDS
from workers.devices.interface import Rung

Step = Rung | Literal["wait", "give_up"]


@dataclass(frozen=True, slots=True)
class RungRule:
    """The rule that decides when a rung is taken."""

    rung: Rung
    kinds: frozenset[str]
    """The kinds of failure that the rung may end. A kind that no rung has needs a person or another process: the run
    waits."""
    due_share: float
    """The share of a run's wait for the device after which the rung is taken."""
    budget: int
    """How often the rung may be taken in one run of one device, over all of its outages."""


RUNGS = (
    RungRule("reconnect", frozenset({"offline", "unresponsive"}), due_share=1 / 12, budget=12),
    RungRule("restart_adb", frozenset({"offline", "unresponsive"}), due_share=1 / 3, budget=2),
    # With `orphan` and `mode_stays` the connection is good; only a restart ends the program that runs on the phone.
    RungRule("reboot", frozenset({"unresponsive", "orphan", "mode_stays"}), due_share=1 / 2, budget=2),
)
"""The rungs, gentle ones first. In an outage of 60 s the rungs are due after 5, 20 and 30 s."""

BOOT_SHARE = 3.0
"""After a restart, a device is waited for this many times as long, counted from the restart."""

HOST_SHARE = 3.0
"""A host of a lab is waited for this many times as long: its network may be cut, or it may be restarting. Its devices
then have the usual time to come back."""
HEAD_SHARE = 1.0
"""The head of a lab is waited for this many times as long: without the head, Ray ends this process two and a half
minutes later, in the middle of whatever it does. A run that has given up its devices by then ends in order."""


@dataclass(frozen=True, slots=True)
class AwayWait:
    """The time that a run waits for a device that went away (a slipped cable, a phone that restarts), and the pause
    between two looks (s)."""

    limit_s: float
    poll_s: float


AWAY_WAIT = AwayWait(limit_s=60.0, poll_s=2.0)


@dataclass(slots=True)
class _Outage:
    limit_s: float
    tried_rungs: set[Rung]


class Ladder:
    """The ladder of one device in one run."""

    def __init__(self, limit_s: float, *, has_rungs: bool, may_reboot: bool) -> None:
        """Create a ladder that is in no outage. `limit_s`: the longest wait in one outage. `has_rungs`: whether the
        device's transport can do more than wait."""
        self._limit_s = limit_s
        self._has_rungs = has_rungs
        self._may_reboot = may_reboot
        self._used: Counter[Rung] = Counter()
        self._outage: _Outage | None = None

    def next(self, kind: str, waited_s: float) -> Step:
        """Return the next step, which then counts as tried. `kind`: the kind of the last failure; `waited_s`: the
        seconds since the outage began."""
        outage = self._outage = self._outage or _Outage(self._limit_s, set())
        if kind in LAB_KINDS:
            share = HEAD_SHARE if kind == "head_away" else HOST_SHARE
            outage.limit_s = max(outage.limit_s, min(waited_s, share * self._limit_s) + self._limit_s)
        for rule in RUNGS if self._has_rungs else ():
            rung = rule.rung
            if kind not in rule.kinds or not self._is_open(rule, outage) or waited_s < rule.due_share * self._limit_s:
                continue
            outage.tried_rungs.add(rung)
            self._used[rung] += 1
            if rung == "reboot":
                outage.limit_s = waited_s + BOOT_SHARE * self._limit_s
            return rung
        return "wait" if waited_s < outage.limit_s else "give_up"

    def refused(self, rung: Rung) -> None:
        """Note that the last step was not taken. It uses up no budget, and is not tried again in this outage."""
        self._used[rung] -= 1
        if rung == "reboot" and self._outage is not None:
            self._outage.limit_s = self._limit_s

    def answered(self) -> None:
        """Note that the outage is over."""
        self._outage = None

    def _is_open(self, rule: RungRule, outage: _Outage) -> bool:
        is_allowed = rule.rung != "reboot" or self._may_reboot
        return is_allowed and rule.rung not in outage.tried_rungs and self._used[rule.rung] < rule.budget
