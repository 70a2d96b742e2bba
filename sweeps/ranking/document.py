"""A ranking as the document of `edgesweep rank --json`, and its winner in one line."""

from dataclasses import asdict
from typing import Any

from sweeps.metrics import METRICS
from sweeps.ranking.amounts import in_words
from sweeps.ranking.provisional import Provisional
from sweeps.ranking.ties import UNREPEATED_TIMES
from sweeps.ranking.values import Candidate, DeviceRanking, Ranking


def ranking_document(ranking: Ranking) -> dict[str, Any]:
    """Return the document of `edgesweep rank --json`. Names contain the unit. An unknown figure is null, never NaN."""
    return {
        "sweep": ranking.sweep,
        "objective": ranking.objective,
        "devices": [
            {
                "device": entry.device,
                "device_id": entry.device_id,
                "fingerprint": entry.fingerprint,
                "model": entry.model,
                **asdict(entry.conditions),
                "front": entry.front,
                "device_seconds": entry.device_seconds,
                "batch_seconds": entry.batch_seconds,
                "timed_seconds": entry.timed_seconds,
                "full_seconds": entry.full_seconds,
                "waited_seconds": entry.waited_seconds,
                "push_seconds": entry.push_seconds,
                "accuracy_seconds": entry.accuracy_seconds,
                "rounds_to_settle": entry.rounds_to_settle,
                "settle_command": entry.settle_command,
                "winner": _candidate(entry.winner) if entry.winner else None,
                "no_winner_reason": entry.no_winner_reason,
                "provisional": None if entry.provisional is None else provisional_document(entry.provisional),
                "explanation": explain(entry),
                "alarm": entry.alarm,
                "better_disqualified": [_candidate(candidate) for candidate in entry.better_disqualified],
                "resolution": None if entry.resolution is None else entry.resolution.document(),
                "tied": [_candidate(candidate) for candidate in entry.tied],
                "ranking": [_candidate(candidate) for candidate in entry.ranking],
                "checked": [_candidate(candidate) for candidate in entry.checked],
                "not_ranked": [asdict(row) for row in entry.not_ranked],
                "imported": [asdict(figure) for figure in entry.imported],
            }
            for entry in ranking.devices
        ],
        "classes": [asdict(entry) for entry in ranking.classes],
        "imported": [asdict(figure) for figure in ranking.imported],
        "backends": None if ranking.backends is None else ranking.backends.document(),
    }


def explain(entry: DeviceRanking) -> str:
    """Return the winner's figure in one line for people: `7.81 ms (7.50–8.10), equal to 1 other, 2 others
    unresolved`."""
    if entry.winner is None:
        return f"no winner: {entry.no_winner_reason}"
    text = in_words(entry.winner.figures, entry.metric, entry.winner.interval_of)
    if entry.metric in UNREPEATED_TIMES and "one_block" in entry.winner.trust:
        text += " (one block, no interval)"
    if not entry.winner.timed:
        text += " (only checked, not timed)"
    if entry.equal:
        text += f", equal to {_other_count(len(entry.equal))}"
    if entry.unresolved:
        text += f", {_other_count(len(entry.unresolved))} unresolved"
    if entry.better_disqualified:
        text += f", {_other_count(len(entry.better_disqualified))} better but disqualified"
    return text


def provisional_document(choice: Provisional) -> dict[str, Any]:
    document = asdict(choice)
    return {**document, "settle": {**document["settle"], "text": choice.settle.text}}


def _other_count(count: int) -> str:
    return f"{count} other{'s' * (count > 1)}"


def _candidate(candidate: Candidate) -> dict[str, Any]:
    ratio, settling = candidate.ratio_to_winner, candidate.settling
    extra = {name: value for name, value in candidate.figures.items() if name not in METRICS}
    return {
        "name": candidate.name,
        "variant": candidate.variant,
        "job_key": candidate.job_key,
        "build_key": candidate.build_key,
        **{name: candidate.figures.get(name) for name in METRICS},
        # The extra metrics are a separate entry: a runner chooses their names, which must not replace other fields of
        # this document.
        **({"extra_metrics": extra} if extra else {}),
        "runner": candidate.runner,
        "executor": candidate.executor,
        "emulated": candidate.emulated,
        "trust": list(candidate.trust),
        "constraints": [asdict(check) for check in candidate.constraints],
        "verdict": candidate.verdict,
        "why": candidate.why,
        "only_in_batches": candidate.only_in_batches,
        "tied": candidate.tie is not None,
        "tie": candidate.tie,
        "latency_ratio_to_winner": None if ratio is None else asdict(ratio),
        "latency_ratio_made_of": None if candidate.made_of is None else asdict(candidate.made_of),
        "latency_interval_of": candidate.interval_of,
        "settling": None if settling is None else {**asdict(settling), "text": settling.text},
        "eliminated": bool(candidate.eliminated),
        "evidence": candidate.eliminated,
        "settled": None if candidate.settled is None else asdict(candidate.settled),
        "on_front": candidate.on_front,
    }
