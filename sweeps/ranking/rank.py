"""The ranking: which variant to ship on which device, and how certain that is. Pure: results as a DataFrame in, a
`Ranking` out.

Only results measured under the same conditions are compared: each such group of a device and a model is ranked
separately (`sweeps.ranking.place`).
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sweeps.failure_kinds import remedy
from sweeps.imported import Imported, in_order
from sweeps.ranking.device_classes import ClassRanking, pool
from sweeps.ranking.eligibility import direction, objective_text
from sweeps.ranking.nnapi_gain import backend_figure
from sweeps.ranking.place import rank_place
from sweeps.ranking.provisional import NO_HINTS, NextStepHints
from sweeps.ranking.same_conditions import alike
from sweeps.ranking.shared_work import as_of_one_unit
from sweeps.ranking.ties import LATENCY
from sweeps.ranking.values import DeviceRanking, NotRanked, Ranking
from sweeps.results import ResultRow, of_device, read_rows
from sweeps.spec.objective import ObjectiveSpec

if TYPE_CHECKING:
    import pandas as pd


def rank(
    frame: "pd.DataFrame",
    objective: ObjectiveSpec,
    sweep: str,
    device: str | None = None,
    imported: Sequence[Imported] = (),
    hints: NextStepHints = NO_HINTS,
) -> Ranking:
    """Return the ranking as `rank_rows` does, from a data frame with one row per job; rows that are `stale` do not
    count."""
    return rank_rows(read_rows(frame, sweep), objective, sweep, device, imported, hints)


def rank_rows(
    rows: Sequence[ResultRow],
    objective: ObjectiveSpec,
    sweep: str,
    device: str | None = None,
    imported: Sequence[Imported] = (),
    hints: NextStepHints = NO_HINTS,
) -> Ranking:
    """Return the ranking of the jobs of `sweep`, or of some of its places: an entry depends only on the rows of its
    place.

    `rows` are not stale, in order of their names. `device` is a device's id or (part of) its text for people.
    `imported` figures are attached to their device and model, and not ranked. `hints`: the facts from the sweep file
    (`sweeps.journal.next_step_hints.hints_of`). Raises `EdgeSweepError` if no device matches `device`.
    """
    rows = as_of_one_unit(rows)
    places = {row.place for row in rows}
    unattached = [figure for figure in in_order(imported) if figure.place not in places]
    if device is not None:
        rows = of_device(rows, device)
        unattached = [
            figure
            for figure in unattached
            if device == figure.device_id or device.casefold() in figure.device.casefold()
        ]
    entries: list[DeviceRanking] = []
    for place in sorted({row.place for row in rows}):
        of_place = [row for row in rows if row.place == place]
        measured = [row for row in of_place if row.outcome == "measured"]
        failed = [row for row in of_place if row.outcome == "failed"]
        not_ranked = [_not_ranked(row) for row in of_place if row.outcome != "measured"]
        not_ranked.sort(key=lambda other: (other.outcome, other.name))
        groups = _comparable(measured) or [[]]
        attached = tuple(figure for figure in in_order(imported) if figure.place == place)
        counted: set[str] = set()
        for group in groups:
            # A row that left in batches has no conditions, and may be in several groups: its time is counted only in
            # the first group.
            spent = [row for row in group if row.job_key not in counted]
            counted |= {row.job_key for row in group}
            sample = group[0] if group else of_place[0]
            entries.append(rank_place(sample, group, tuple(not_ranked), objective, attached, spent, failed, hints))
    classes: tuple[ClassRanking, ...] = ()
    if direction(objective)[0] == LATENCY:
        candidates = {
            candidate.job_key for entry in entries for candidate in entry.ranking if candidate.state == "pass"
        }
        classes = pool([row for row in rows if row.outcome == "measured" and not row.link], candidates)
    return Ranking(
        sweep=sweep,
        objective=objective_text(objective),
        devices=tuple(entries),
        classes=classes,
        imported=tuple(unattached),
        backends=backend_figure(rows, objective),
    )


def _comparable(measured: Sequence[ResultRow]) -> list[list[ResultRow]]:
    """Return groups of rows with the same conditions. A row without a latency has no conditions: it is added to every
    group of its device's fingerprint. If there is no such group, these rows form a separate group."""
    timed = [row for row in measured if row.timed]
    untimed = [row for row in measured if not row.timed]
    groups = alike(timed)
    for group in groups:
        group += [row for row in untimed if row.fingerprint == group[0].fingerprint]
    fingerprints = {row.fingerprint for row in untimed} - {row.fingerprint for row in timed}
    return groups + [[row for row in untimed if row.fingerprint == fingerprint] for fingerprint in sorted(fingerprints)]


def _not_ranked(row: ResultRow) -> NotRanked:
    return NotRanked(
        name=row.name,
        name_here=row.name_here,
        variant=row.variant,
        outcome=row.outcome,
        reason=row.reason_in_full,
        next_step=remedy(row.kind, row.precision) if row.outcome == "failed" else "",
    )
