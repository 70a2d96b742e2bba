"""The comparison of NNAPI with the CPU per device and precision, as Arm's article on NNAPI compares them. Pure.

For each backend, the fastest build is used that no trust label and no constraint of the objective rules out. The two
builds are compared as in the ranking (`sweeps.ranking.ties`), and only if they were measured under the same conditions.
A build that was only checked has an accuracy and no latency: it is listed, but not compared.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sweeps.metrics import METRICS
from sweeps.ranking.amounts import interval
from sweeps.ranking.eligibility import judge, left_untimed, put_aside, reference_name
from sweeps.ranking.same_conditions import alike
from sweeps.ranking.ties import LATENCY, MadeOf, latency_ratio, made_of, worse
from sweeps.ranking.winner import simplicity
from sweeps.results import ResultRow
from sweeps.spec import catalog
from sweeps.spec.objective import ObjectiveSpec
from sweeps.stats import Estimate

TITLE = "NNAPI against the CPU"
NOT_MEASURED = "no phone with NNAPI measured"
NONE_COUNTS = "no NNAPI build that was measured counts"

_BACKENDS = ("cpu", "nnapi")


@dataclass(frozen=True, slots=True, kw_only=True)
class Best:
    """The fastest build of one backend."""

    name: str
    variant: str
    p50_ms: float
    ci_low_ms: float | None
    ci_high_ms: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendPair:
    """The fastest CPU and NNAPI builds of one device, model and precision under the same conditions."""

    device: str
    device_id: str
    fingerprint: str
    """The device's fingerprint; empty if nothing was timed."""
    model: str
    precision: str
    cpu: Best | None
    nnapi: Best | None
    ratio: Estimate | None
    """NNAPI's latency divided by the CPU's: below 1, NNAPI is faster."""
    made_of: MadeOf | None
    """The source of `ratio`."""
    finding: str
    """`NNAPI is faster`, `the CPU is faster` or `not told apart`; empty if there is nothing to compare."""
    note: str
    """The reason why there is nothing to compare; otherwise empty."""

    @property
    def paired(self) -> Estimate | None:
        """The ratio if it is paired or from batches; `None` if it is only the quotient of the two p50s."""
        return None if self.made_of is None or self.made_of.source == "times" else self.ratio


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendFigure:
    """All pairs of a sweep, by device, model and precision."""

    pairs: tuple[BackendPair, ...]
    timed_on_nnapi: bool = False
    """Whether any device timed a build on NNAPI without falling back to the CPU, even if that build does not count."""

    @property
    def headline(self) -> str:
        """`NOT_MEASURED` if no device timed a build on NNAPI, `NONE_COUNTS` if none of the timed builds counts;
        otherwise empty."""
        if any(pair.nnapi for pair in self.pairs):
            return ""
        return NONE_COUNTS if self.timed_on_nnapi else NOT_MEASURED

    def document(self) -> dict[str, Any]:
        """Return the entry `backends` of `edgesweep rank --json`."""
        return {"headline": self.headline, "pairs": [asdict(pair) for pair in self.pairs]}


def backend_figure(rows: Sequence[ResultRow], objective: ObjectiveSpec) -> BackendFigure | None:
    """Return the comparison for one sweep's rows; `None` unless the rows have both backends."""
    rows = [row for row in rows if row.backend in _BACKENDS]
    if {row.backend for row in rows} != {*_BACKENDS}:
        return None
    pairs = []
    for place, precision in sorted({(row.place, row.precision) for row in rows}):
        of_place = [row for row in rows if (row.place, row.precision) == (place, precision)]
        groups = alike([row for row in of_place if row.timed])
        pairs += [_pair(of_place, group, objective) for group in groups]
        if not groups:
            pairs.append(_pair(of_place, [], objective))
    timed_on_nnapi = any(
        row.backend == "nnapi"
        and (row.timed or (left_untimed(row) and not put_aside(row)))
        and "backend_fell_back" not in row.trust
        for row in rows
    )
    return BackendFigure(pairs=tuple(pairs), timed_on_nnapi=timed_on_nnapi)


def _pair(of_place: Sequence[ResultRow], alike: Sequence[ResultRow], objective: ObjectiveSpec) -> BackendPair:
    """Return the comparison of the backends for one device, model and precision. `of_place`: all their rows. `alike`:
    the rows of these that were timed under the same conditions."""
    best = {backend: _best([row for row in alike if row.backend == backend], objective) for backend in _BACKENDS}
    cpu, nnapi = best["cpu"], best["nnapi"]
    finding = ""
    if cpu is not None and nnapi is not None:
        finding = "not told apart"
        if worse(nnapi, cpu, LATENCY, smaller=True):
            finding = "the CPU is faster"
        elif worse(cpu, nnapi, LATENCY, smaller=True):
            finding = "NNAPI is faster"
    lacking = [_why_none(backend, of_place, alike, objective) for backend, row in best.items() if row is None]
    return BackendPair(
        device=of_place[0].device,
        device_id=of_place[0].device_id,
        fingerprint=alike[0].fingerprint if alike else "",
        model=of_place[0].model,
        precision=of_place[0].precision,
        cpu=_described(cpu),
        nnapi=_described(nnapi),
        ratio=latency_ratio(nnapi, cpu) if cpu is not None and nnapi is not None else None,
        made_of=made_of(nnapi, cpu) if cpu is not None and nnapi is not None else None,
        finding=finding,
        note="; ".join(lacking),
    )


def _best(rows: Sequence[ResultRow], objective: ObjectiveSpec) -> ResultRow | None:
    allowed = [row for row in rows if judge(row, objective).verdict in ("pass", "unresolved")]
    return min(allowed, key=lambda row: (_p50_ms(row), row.name), default=None)


def _described(row: ResultRow | None) -> Best | None:
    if row is None:
        return None
    low, high = interval(row.figures, LATENCY) or (None, None)
    return Best(name=row.name, variant=row.variant, p50_ms=_p50_ms(row), ci_low_ms=low, ci_high_ms=high)


def _why_none(backend: str, of_place: Sequence[ResultRow], alike: Sequence[ResultRow], objective: ObjectiveSpec) -> str:
    """Return why there is no best build on this backend, as text about the build that came closest."""
    rows = [row for row in of_place if row.backend == backend]
    if not rows:
        why = "not in this sweep"
    elif timed := [row for row in rows if row in alike]:
        nearest = min(timed, key=_p50_ms)
        why = f"{nearest.variant} does not count: {judge(nearest, objective).why}"
    elif any(row.timed for row in rows):
        why = "not timed under these conditions"
    elif left := [(row.settled, row) for row in rows if row.settled is not None and left_untimed(row)]:
        ended, nearest = min(left, key=lambda left_row: (left_row[0].ratio or math.inf, left_row[1].name))
        why = f"{nearest.variant} {ended.message}" if ended.eliminated else f"{nearest.variant}: {ended.message}"
    elif checked := [row for row in rows if row.outcome == "measured"]:
        most = min(checked, key=lambda row: (simplicity(row), row.name))
        metric = "agreement_percent" if most.figures["top1_percent"] is None else "top1_percent"
        accuracy = f"{METRICS[metric].title} {METRICS[metric].format(most.figures[metric])}"
        why = f"only checked, not timed: {accuracy}, {reference_name(most.executor)}"
    else:
        first = min(rows, key=lambda row: (row.outcome, row.name))
        why = f"{first.outcome}: {first.reason or first.kind or 'no reason recorded'}"
    return f"{catalog.backend_title(backend)}: {why}"


def _p50_ms(row: ResultRow) -> float:
    """Return the p50 in ms. Raises `ValueError` for a row that was not timed."""
    value = row.figures[LATENCY]
    if value is None:
        raise ValueError(f"{row.name} has no time")
    return value
