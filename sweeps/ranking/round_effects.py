"""The fit of the logarithms of blocks as build + round: the common part of a round cancels between builds that were
measured in it."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

BuildT = TypeVar("BuildT", str, int)

_CONVERGED = 1e-9


def fit_rounds(
    logs: Mapping[BuildT, Mapping[int, float]],
    middle: Callable[[Sequence[float]], float],
    passes: int,
    rounds: Mapping[int, float] | None = None,
) -> tuple[dict[BuildT, float], dict[int, float]]:
    """Return the part of each build and that of each round (or visit), both logarithms, of `logs` (by build, then by
    round).

    The two are fitted alternately: a build's part is the `middle`, over its rounds, of its logarithms minus the rounds'
    parts; a round's part is the `middle`, over its builds, of the logarithms minus the builds' parts. With the mean
    this is a fit by least squares, with the median a fit that single blocks do not move. `rounds`: the starting point.
    The fit ends when no round's part changes by a billionth or more, or after `passes` passes.
    """
    by_round: dict[int, list[BuildT]] = defaultdict(list)
    for build, own in logs.items():
        for number in own:
            by_round[number].append(build)
    rounds = dict.fromkeys(by_round, 0.0) if rounds is None else dict(rounds)
    builds = dict.fromkeys(logs, 0.0)
    for _ in range(passes):
        before = rounds
        builds = {build: middle([log - rounds[number] for number, log in own.items()]) for build, own in logs.items()}
        rounds = {
            number: middle([logs[build][number] - builds[build] for build in build_keys])
            for number, build_keys in by_round.items()
        }
        if all(abs(rounds[number] - before[number]) < _CONVERGED for number in rounds):
            break
    return builds, rounds
