"""The records of how jobs ended in a race, with the evidence as messages for people. Pure."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from sweeps.settled import Settled, SettledReason

if TYPE_CHECKING:
    from sweeps.protocol.racing import Elimination
    from sweeps.protocol.screened_race import ScreenedRace

CHECKS = 1
"""The nearest rival gets this many blocks in a separate process."""


def eliminated(elimination: "Elimination", names: Mapping[str, str], blocks: int, question: str) -> Settled:
    """Return the end of an eliminated job. `names`: names for people, by job key. `blocks`: the number of the job's
    blocks."""
    by = names[elimination.by]
    unit, plural = ("batch", "es") if elimination.in_batches else ("round", "s")
    rounds = f"{elimination.rounds} {unit}{plural * (elimination.rounds > 1)}"
    if elimination.reason == "constraint":
        message = f"left after {rounds}: it cannot win at any latency, and {by} can"
    else:
        message = (
            f"left after {rounds}: {elimination.ratio:.3f} times as slow as {by}, and at least "
            f"{elimination.ratio_low:.3f} times (wrong with a probability of at most {100 * elimination.error:g} %)"
        )
    return Settled(
        job_key=elimination.key,
        budget="race",
        rounds=blocks,
        reason=elimination.reason,
        message=message,
        by=by,
        by_key=elimination.by,
        ratio=elimination.ratio,
        ratio_low=elimination.ratio_low,
        error=elimination.error,
        question=question,
        batches=elimination.rounds if elimination.in_batches else 0,
    )


def ended_in_batches(
    race: "ScreenedRace",
    names: Mapping[str, str],
    keys: Iterable[str],
    end: Callable[[str, SettledReason, str], Settled],
    *,
    noise: float | None,
    out_of_time: str = "",
) -> list[Settled]:
    """Return the ends of all jobs of `keys` that are left in a race that batches decided, or in which the device's time
    ran out (`out_of_time` is the text about it). `end` builds one end, without its ratio to the leader. `noise`: as
    `Settled.noise`.

    The leader's nearest rival also gets a block in a separate process, with which the batches can be compared.
    """
    reason: SettledReason = "best" if race.decided else "undecided"
    why = (
        f"the race is decided by batches: {race.why}"
        if race.decided
        else f"the race was not decided after {race.most_batches} batches"
    )
    if out_of_time and not race.decided:
        reason, why = "out_of_time", f"{out_of_time}: who led after {race.most_batches} batches is measured again"
    ends = [end(key, reason, why) for key in keys if key in race.contending]
    ratios = {settled.job_key: ratio for settled in ends if (ratio := race.ratio(settled.job_key)) is not None}
    nearest = min(ratios, key=lambda key: ratios[key].value, default="")
    leader = race.leader or ""
    for place, settled in enumerate(ends):
        if (ratio := ratios.get(settled.job_key)) is not None:
            ends[place] = replace(
                settled,
                message=f"{settled.message}; in batches it was {ratio.value:.3f} times as slow as {names[leader]}",
                by=names[leader],
                by_key=leader,
                ratio=ratio.value,
                ratio_low=ratio.low,
                ratio_high=ratio.high,
                checks=CHECKS if settled.job_key == nearest else 0,
                noise=noise if settled.job_key == nearest else None,
            )
    return ends
