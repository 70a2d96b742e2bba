"""The pairing of the results of one side with those of the other for a comparison. Pure."""

from collections import defaultdict
from collections.abc import Sequence

from sweeps.ranking.comparison_input import Result


def pairs_of(a: Sequence[Result], b: Sequence[Result], *, named: bool) -> list[tuple[Result, Result]]:
    """Return the pairs (A, B): each variant with itself; if `named`, any result of A with any of B.

    Each result is in one pair at most. The pairs with the most similar devices are matched first, so a unit that only A
    has may be compared with a unit that only B has.
    """
    by_variant: dict[tuple[str, ...], list[Result]] = defaultdict(list)
    for result in a:
        by_variant[() if named else (result.model, *result.setup)].append(result)
    candidates = [
        (other, result) for result in b for other in by_variant[() if named else (result.model, *result.setup)]
    ]
    pairs: list[tuple[Result, Result]] = []
    matched_a: set[int] = set()
    matched_b: set[int] = set()
    for pair in sorted(candidates, key=_likeness, reverse=True):
        if id(pair[0]) not in matched_a and id(pair[1]) not in matched_b:
            matched_a.add(id(pair[0]))
            matched_b.add(id(pair[1]))
            pairs.append(pair)
    return pairs


def _likeness(pair: tuple[Result, Result]) -> tuple[bool, bool, bool]:
    """Return a sort key of how similar the devices are: the same unit is most similar, then a unit with the same
    fingerprint, then the same device class."""
    a, b = pair
    return a.device_id == b.device_id, a.fingerprint == b.fingerprint, a.device == b.device
