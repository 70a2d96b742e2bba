"""The reason why the winner of a place won, as text. Pure."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sweeps.ranking.ties import LATENCY
from sweeps.ranking.winner import simplicity
from sweeps.stats import NEGLIGIBLE

if TYPE_CHECKING:
    from sweeps.ranking.values import Candidate, DeviceRanking


def why_first(device: "DeviceRanking", winner: "Candidate") -> str:
    rivals = [candidate for candidate in device.ranking if candidate is not winner]
    if not rivals:
        outcomes = Counter(candidate.outcome for candidate in device.not_ranked)
        counted = {"failed": outcomes["failed"], "skipped": outcomes["skipped"], "only checked": len(device.checked)}
        without = ", ".join(f"{count} {state}" for state, count in counted.items() if count)
        return f"no other variant has been measured here{f' ({without})' if without else ''}"
    lost = sum(candidate.state == "eliminated" for candidate in rivals)
    if not lost and not any(candidate.state == "pass" for candidate in rivals):
        return "none of the others that were measured may win"
    worse = [candidate for candidate in rivals if candidate.state == "pass" and candidate not in device.tied]
    reasons = []
    if device.equal:
        equal = "1 is equal to it" if len(device.equal) == 1 else f"{len(device.equal)} are equal to it"
        reasons.append(f"{equal}, within 2 %: {_preferred(device, winner, device.equal[0])}")
    if device.unresolved:
        count = len(device.unresolved)
        reasons.append(f"{count} {'is' if count == 1 else 'are'} not told apart from the best: more rounds may decide")
    if worse:
        by = _by(worse) if device.metric == LATENCY else ""
        reasons.append(f"{len(worse)} {'is' if len(worse) == 1 else 'are'} shown to be worse{by}")
    reasons += [f"{lost} lost the race"] if lost else []
    return f"no other that may win is shown to be better in {device.metric} ({'; '.join(reasons)})"


def _preferred(device: "DeviceRanking", winner: "Candidate", next_one: "Candidate") -> str:
    """Return why the winner is preferred to an equal candidate, as text: see `sweeps.ranking.winner`."""
    if device.led:
        return "the winner led the race"
    if device.metric == LATENCY and not next_one.timed:
        return "the winner alone has a time"
    (accuracy, size), (other_accuracy, other_size) = (simplicity(candidate) for candidate in (winner, next_one))
    if accuracy < other_accuracy:
        return "the winner is more accurate"
    if size * (1 + NEGLIGIBLE) < other_size:
        return "the winner's file is smaller"
    return f"the winner's {device.metric} is the best estimate"


def _by(worse: Sequence["Candidate"]) -> str:
    """Return how far the nearest candidate is behind in latency, as text; empty if a ratio has no interval."""
    ratios = [candidate.ratio_to_winner for candidate in worse]
    known = [ratio for ratio in ratios if ratio is not None and ratio.low is not None and ratio.high is not None]
    if not known or len(known) < len(worse):
        return ""
    nearest = min(known, key=lambda ratio: ratio.value)
    return f", the nearest with {nearest.value:.2f}× its latency, {nearest.low:.2f} to {nearest.high:.2f} at 95 %"
