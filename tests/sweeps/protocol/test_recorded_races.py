"""Two hundred recorded races are decided as they were when they were recorded.

Each line of `recorded_races.json` is one race: what `Contest` is given, the figure (ms) of each variant in each batch
and each round in the order of `precedence`, whether it was asked for or not (`null`: the block does not count), and the
decisions that followed. The figures are those of simulated phones with each form of noise of
`tests/benchmarks/noise_forms.py`.

    python -m tests.sweeps.protocol.test_recorded_races

writes the decisions of today's code for the same figures: only for a change that is meant to change them.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sweeps.protocol.presets import PRESETS
from sweeps.protocol.stopping import Contest
from sweeps.settled import Settled

RECORDED = Path(__file__).with_name("recorded_races.json")
PROTOCOL = replace(PRESETS["race"], max_rounds=12)


def races() -> list[dict[str, Any]]:
    return [json.loads(line) for line in RECORDED.read_text().splitlines()]


def decisions(race: Mapping[str, Any]) -> list[list[Any]]:
    """The keys that a race asked for, and who ended by them and why, step by step; last, who leads and why the race
    ended."""
    contest = Contest(
        {key: key for key in race["precedence"]},
        PROTOCOL,
        race["precedence"],
        front=race["front"],
        groups=race["groups"],
        batches_decide=race["batches_decide"],
    )
    steps = list(_steps(contest, race, Counter()))
    assert contest.race is not None
    return [*steps, [contest.race.leader if not race["front"] else "", bool(contest.race.decided)]]


def _steps(contest: Contest, race: Mapping[str, Any], counts: Counter[str]) -> Iterator[list[Any]]:
    while (batches := contest.batches) or contest.active:
        key_groups: Sequence[Sequence[str]] = batches or (contest.active,)
        kind = "batches_ms" if batches else "rounds_ms"
        for keys in key_groups:
            # Each group counts its own batches; a round is one for all.
            series = keys[0] if batches else ""
            group = race["groups"].get(series, "rounds")
            if counts[group] == len(race[kind]):
                return
            row = dict(zip(race["precedence"], race[kind][counts[group]], strict=True))
            figures = {key: row[key] for key in keys}
            counts[group] += 1
            ended = contest.count_batch(figures) if batches else contest.count(figures)
            yield [kind, sorted(keys), [_ended(settled) for settled in ended]]


def _ended(settled: Settled) -> list[Any]:
    ratio = None if settled.ratio is None else float(f"{settled.ratio:.4g}")
    return [settled.job_key, settled.reason, settled.by_key, ratio, settled.leads]


@pytest.mark.parametrize("part", range(8))
def test_recorded_races_are_decided_as_they_were(part: int) -> None:
    for number, race in enumerate(races()):
        if number % 8 == part:
            assert decisions(race) == race["decisions"], f"race {number}: {race['form']}"


def test_the_recorded_races_end_in_all_ways() -> None:
    recorded = races()
    ends = {ended[1] for race in recorded for step in race["decisions"][:-1] for ended in step[2]}
    assert ends >= {"slower", "constraint", "best", "undecided", "disqualified"}
    assert len(recorded) == 200
    assert sum(race["front"] for race in recorded) >= 20
    assert sum(race["batches_decide"] for race in recorded) >= 40


if __name__ == "__main__":
    lines = [json.dumps({**race, "decisions": decisions(race)}) for race in races()]
    RECORDED.write_text("\n".join(lines) + "\n")
