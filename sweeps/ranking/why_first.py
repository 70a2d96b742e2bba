"""Why the winner of a place won, in words. Pure."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sweeps.ranking.first_place import simplicity
from sweeps.ranking.ties import LATENCY
from sweeps.stats import NEGLIGIBLE

if TYPE_CHECKING:
    from sweeps.ranking.values import Candidate, DeviceRanking


def why_first(device: "DeviceRanking", winner: "Candidate") -> str:
    others = [one for one in device.ranking if one is not winner]
    if not others:
        there = Counter(one.outcome for one in device.not_ranked)
        counted = {"failed": there["failed"], "skipped": there["skipped"], "only checked": len(device.checked)}
        without = ", ".join(f"{count} {what}" for what, count in counted.items() if count)
        return f"no other variant has been measured here{f' ({without})' if without else ''}"
    lost = sum(one.state == "eliminated" for one in others)
    if not lost and not any(one.state == "pass" for one in others):
        return "none of the others that were measured may win"
    worse = [one for one in others if one.state == "pass" and one not in device.tied]
    said = []
    if device.equal:
        what = "1 is equal to it" if len(device.equal) == 1 else f"{len(device.equal)} are equal to it"
        said.append(f"{what}, within 2 %: {_preferred(device, winner, device.equal[0])}")
    if device.unresolved:
        count = len(device.unresolved)
        said.append(f"{count} {'is' if count == 1 else 'are'} not told apart from the best: more rounds may decide")
    if worse:
        by = _by(worse) if device.metric == LATENCY else ""
        said.append(f"{len(worse)} {'is' if len(worse) == 1 else 'are'} shown to be worse{by}")
    said += [f"{lost} lost the race"] if lost else []
    return f"no other that may win is shown to be better in {device.metric} ({'; '.join(said)})"


def _preferred(device: "DeviceRanking", winner: "Candidate", next_one: "Candidate") -> str:
    """Of two that are equal: see `sweeps.ranking.first_place`."""
    if device.led:
        return "the winner led the race"
    if device.metric == LATENCY and not next_one.timed:
        return "the winner alone has a time"
    (accuracy, size), (other_accuracy, other_size) = (simplicity(one) for one in (winner, next_one))
    if accuracy < other_accuracy:
        return "the winner is more accurate"
    if size * (1 + NEGLIGIBLE) < other_size:
        return "the winner's file is smaller"
    return f"the winner's {device.metric} is the best estimate"


def _by(worse: Sequence["Candidate"]) -> str:
    """How far the nearest one is away in latency, if that has an interval."""
    ratios = [one.ratio_to_winner for one in worse]
    known = [one for one in ratios if one is not None and one.low is not None and one.high is not None]
    if not known or len(known) < len(worse):
        return ""
    nearest = min(known, key=lambda one: one.value)
    return f", the nearest with {nearest.value:.2f}× its latency, {nearest.low:.2f} to {nearest.high:.2f} at 95 %"
