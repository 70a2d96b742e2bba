"""Tables of a ranking, for charts and pages. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import pandas as pd

from dashboard.markdown_escape import NOTHING, line
from dashboard.words import device_names, plain_words
from sweeps.imported import Imported
from sweeps.metrics import METRICS
from sweeps.ranking.amounts import delegated_in_words, paired
from sweeps.ranking.device_classes import ClassEntry, ClassRanking
from sweeps.ranking.eligibility import Verdict, reference_name
from sweeps.ranking.nnapi_gain import BackendFigure
from sweeps.ranking.values import Candidate, DeviceRanking, NotRanked, Tie

_FLOATS = (
    *("latency_p50_ms", "latency_ci_low_ms", "latency_ci_high_ms", "ratio"),
    *("accuracy", "drop_points", "drop_low_points", "drop_high_points", "artifact_mb", "runtime_mb"),
)
_CHECKED_FLOATS = (
    "accuracy",
    "drop_points",
    "drop_low_points",
    "drop_high_points",
    "agreement",
    "sqnr_db",
    "artifact_mb",
)
_STATUS_OF_VERDICT: dict[Verdict, str] = {
    "fail": "may not ship",
    "unresolved": "unresolved",
    "disqualified": "may not ship",
}
_STATUS_OF_TIE: dict[Tie | None, str] = {"equal": "tied with it", "unresolved": "tied with it", None: "may ship"}
_STATUS_OF_CHECK: dict[Verdict, str] = {
    "pass": "constraints kept",
    "fail": "constraint missed",
    "unresolved": "unresolved",
    "disqualified": "disqualified",
}


def accuracy_metric(ranking: DeviceRanking) -> str:
    """Return `top1_percent` if the evaluation images have labels, otherwise `agreement_percent`."""
    shown = (*ranking.ranking, *ranking.checked)
    labelled = any(candidate.figures["top1_percent"] is not None for candidate in shown)
    return "top1_percent" if labelled else "agreement_percent"


def shown_names(
    entries: Sequence[Candidate] | Sequence[NotRanked], names: Mapping[str, str] | None = None
) -> list[str]:
    """Return a name for each entry: the name in `names`, otherwise the entry's variant, or its job's name if several
    entries share the variant."""
    if names is not None and all(isinstance(entry, Candidate) and entry.job_key in names for entry in entries):
        return [names[entry.job_key] for entry in entries if isinstance(entry, Candidate)]
    counts = Counter(entry.variant for entry in entries)
    return [line(entry.variant if counts[entry.variant] == 1 else entry.name) for entry in entries]


def names_in(table: pd.DataFrame, candidates: Iterable[Candidate]) -> list[str]:
    """Return the name of each candidate in `table` (from `ranked`), or its job's name if it is not in the table."""
    names = dict(zip(table["job_key"], table["variant"], strict=True))
    return [names.get(candidate.job_key, candidate.name) for candidate in candidates]


def partly_delegated(ranking: DeviceRanking, names: Mapping[str, str] | None = None) -> list[str]:
    """Return a line of text for each candidate, timed or only checked, that is not wholly delegated. `names`: as of
    `ranked`."""
    shown = (*ranking.ranking, *ranking.checked)
    parts = zip(shown_names(shown, names), (delegated_in_words(row.figures) for row in shown), strict=True)
    return [line(f"{name}: {text}") for name, text in parts if text]


def ranked(ranking: DeviceRanking, names: Mapping[str, str] | None = None) -> pd.DataFrame:
    """Return a table with a row per ranked candidate, in order of rank. `names`: names of the builds, by job key.
    Columns:

    job_key, place (of passing candidates), variant (unique here), status (one of `dashboard.charts.drawing.STATUS`),
    verdict (or `eliminated`), why, settling (what would settle its tie), front ("front" if it is on the Pareto front),
    trust (a tuple); latency_p50_ms with latency_ci_low_ms and latency_ci_high_ms, ratio (the quotient of its p50 and
    the winner's), accuracy with accuracy_low and accuracy_high (percent), drop_points with drop_low_points and
    drop_high_points, artifact_mb, runtime_mb: floats, NaN is unknown; emulated_by ("" if the device computed the
    outputs itself); and as text with units: latency_short, latency_text, interval_text, paired_text (the ratio to the
    winner that decides, which is no quotient of two p50s; `–` where there is none), accuracy_text, drop_text,
    drop_interval_text, size_text, trust_text. No candidates: no columns.
    """
    metric = accuracy_metric(ranking)
    rows = []
    called = shown_names(ranking.ranking, names)
    best = ranking.winner.figures["latency_p50_ms"] if ranking.winner else None
    for number, (candidate, shown) in enumerate(zip(ranking.ranking, called, strict=True), 1):
        figures = candidate.figures
        winner = ranking.winner is not None and candidate.job_key == ranking.winner.job_key
        place = _place(number, candidate)
        estimate = candidate.made_of
        p50, low, high = (figures[name] for name in ("latency_p50_ms", "latency_ci_low_ms", "latency_ci_high_ms"))
        accuracy, drop = figures[metric], figures["accuracy_drop_points"]
        drop_low, drop_high = figures["accuracy_drop_low_points"], figures["accuracy_drop_high_points"]
        emulated_by = reference_name(candidate.executor) if candidate.emulated else ""
        rows.append(
            {
                "job_key": candidate.job_key,
                "place": place,
                "variant": shown,
                "status": _status(candidate, winner),
                "verdict": candidate.state,
                "why": plain_words("; ".join(filter(None, (candidate.why, candidate.eliminated)))),
                "settling": line(candidate.settling.text if candidate.settling else ""),
                "front": line("front" if candidate.on_front else ""),
                "trust": candidate.trust,
                "latency_p50_ms": p50,
                "latency_ci_low_ms": low,
                "latency_ci_high_ms": high,
                "ratio": p50 / best if p50 is not None and best else None,
                "accuracy": accuracy,
                "drop_points": drop,
                "drop_low_points": drop_low,
                "drop_high_points": drop_high,
                "artifact_mb": figures["artifact_mb"],
                "runtime_mb": figures.get("runtime_mb"),
                "emulated_by": line(emulated_by) if emulated_by else "",
                "latency_short": "–" if p50 is None else f"{p50:#.3g} ms".replace(". ", " "),
                "latency_text": METRICS["latency_p50_ms"].format(p50) if candidate.timed else candidate.untimed,
                "interval_text": interval("latency_ci_low_ms", low, high) if candidate.timed else candidate.untimed,
                "paired_text": NOTHING
                if winner
                else paired(candidate.ratio_to_winner, estimate.source if estimate else ""),
                "accuracy_text": METRICS[metric].format(accuracy) + (" (emulated)" if emulated_by else ""),
                "drop_text": METRICS["accuracy_drop_points"].format(drop),
                "drop_interval_text": interval("accuracy_drop_low_points", drop_low, drop_high),
                "size_text": METRICS["artifact_mb"].format(figures["artifact_mb"]),
                "trust_text": line(", ".join(candidate.trust)),
            }
        )
    if not rows:
        return pd.DataFrame()
    # Text columns of type `object` share one block of memory. Columns of type `str` have a block each, which makes
    # selections slower.
    texts = pd.DataFrame(rows, columns=[name for name in rows[0] if name not in _FLOATS], dtype=object)
    table = pd.concat([texts, pd.DataFrame(rows, columns=_FLOATS, dtype="float64")], axis=1)
    # The original is evaluated on the same images and has no separate interval, so the drop's interval is used.
    reference = (table["accuracy"] if metric == "top1_percent" else float("nan")) + table["drop_points"]
    table["accuracy_low"] = reference - table["drop_high_points"]
    table["accuracy_high"] = reference - table["drop_low_points"]
    return table


def pooled(ranking: ClassRanking, names: Mapping[tuple[str, ...], str]) -> pd.DataFrame:
    """Return a table with a row per variant of a device class, in order of its ranking. Columns: place, variant, units,
    passes_on, ratio; and as text: between_units, interval_text. `names`: names of the builds by setup."""
    return pd.DataFrame(
        {
            "place": _class_place(number, entry, ranking),
            "variant": names[entry.setup],
            "units": entry.units,
            "passes_on": entry.passes_on,
            "ratio": entry.ratio,
            "between_units": f"{entry.ratio_least:.2f} to {entry.ratio_most:.2f}",
            "interval_text": "none"
            if entry.ratio_low is None or entry.ratio_high is None
            else f"{entry.ratio_low:.2f} to {entry.ratio_high:.2f}",
        }
        for number, entry in enumerate(ranking.entries, 1)
    )


def checked(ranking: DeviceRanking, names: Mapping[str, str] | None = None) -> pd.DataFrame:
    """Return a table with a row per candidate that was only checked, in the ranking's order. Columns:

    job_key, variant (unique here), executor, status (one of `dashboard.charts.dots.CHECKS`), why, trust (a tuple);
    accuracy (percent), drop_points with drop_low_points and drop_high_points, agreement (percent), sqnr_db,
    artifact_mb: floats, NaN unknown; and as text: sqnr_text, accuracy_text, drop_text, drop_interval_text, trust_text.
    No candidates: no columns.
    """
    rows = []
    for candidate, shown in zip(ranking.checked, shown_names(ranking.checked, names), strict=True):
        figures = candidate.figures
        low, high = figures["accuracy_drop_low_points"], figures["accuracy_drop_high_points"]
        # The SQNR of bit-identical outputs is infinite.
        equal = figures["sqnr_db"] is None and figures["agreement_percent"] is not None
        rows.append(
            {
                "job_key": candidate.job_key,
                "variant": shown,
                "executor": line(reference_name(candidate.executor)),
                "status": _STATUS_OF_CHECK[candidate.verdict],
                "why": plain_words(candidate.why),
                "trust": candidate.trust,
                "accuracy": figures["top1_percent"],
                "drop_points": figures["accuracy_drop_points"],
                "drop_low_points": low,
                "drop_high_points": high,
                "agreement": figures["agreement_percent"],
                "sqnr_db": figures["sqnr_db"],
                "artifact_mb": figures["artifact_mb"],
                "sqnr_text": "bit-identical" if equal else METRICS["sqnr_db"].format(figures["sqnr_db"]),
                "accuracy_text": METRICS["top1_percent"].format(figures["top1_percent"]),
                "drop_text": METRICS["accuracy_drop_points"].format(figures["accuracy_drop_points"]),
                "drop_interval_text": interval("accuracy_drop_low_points", low, high),
                "trust_text": line(", ".join(candidate.trust)),
            }
        )
    return pd.DataFrame(rows).astype(dict.fromkeys(_CHECKED_FLOATS, "float64")) if rows else pd.DataFrame()


def imported(figures: Sequence[Imported]) -> pd.DataFrame:
    """Return a table with a row per figure of a hand-run tool, in the given order. Columns: mean_ms; and as text
    device, model, variant, iterations, p50_text, source. Without figures: no columns."""
    return pd.DataFrame(
        {
            "device": line(figure.device),
            "model": line(figure.model),
            "variant": line(figure.variant),
            "mean_ms": figure.mean_ms,
            "iterations": NOTHING if figure.iterations is None else str(figure.iterations),
            "p50_text": NOTHING if figure.p50_ms is None else f"{figure.p50_ms:.3f}",
            "source": line(figure.source),
        }
        for figure in figures
    )


def backends(figure: BackendFigure) -> pd.DataFrame:
    """Return a table with a row per pair of a CPU build and an NNAPI build, in order. Columns: cpu_ms, nnapi_ms, ratio
    (floats, NaN is unknown); and as text device (with its id), model, precision, interval_text, finding, cpu_variant,
    nnapi_variant, note."""
    table = pd.DataFrame(
        {
            "device": line(f"{pair.device} {pair.device_id}"),
            "model": line(pair.model),
            "precision": line(pair.precision),
            "cpu_ms": pair.cpu and pair.cpu.p50_ms,
            "nnapi_ms": pair.nnapi and pair.nnapi.p50_ms,
            "ratio": pair.paired and pair.paired.value,
            "interval_text": NOTHING
            if pair.paired is None or pair.paired.low is None
            else f"{pair.paired.low:.2f} to {pair.paired.high:.2f}",
            "finding": line(pair.finding),
            "cpu_variant": line(pair.cpu.variant if pair.cpu else ""),
            "nnapi_variant": line(pair.nnapi.variant if pair.nnapi else ""),
            "note": line(pair.note),
        }
        for pair in figure.pairs
    )
    return table.astype(dict.fromkeys(("cpu_ms", "nnapi_ms", "ratio"), "float64"))


def backend_bars(figure: BackendFigure) -> pd.DataFrame:
    """Return the data of `dashboard.charts.dots.backends`: one row per timed side of a pair, in order. Columns: label
    (precision and device, with the device's id if several have the same name), ratio_text, backend (`CPU` or `NNAPI`),
    variant, p50_ms, low_ms, high_ms (NaN is unknown). It has all columns even without rows."""
    columns = ["label", "ratio_text", "backend", "variant", "p50_ms", "low_ms", "high_ms"]
    names = device_names({pair.device_id: pair.device for pair in figure.pairs})
    rows = [
        (
            line(f"{pair.precision} · {names[pair.device_id]}"),
            "" if pair.paired is None else f"{pair.paired.value:.2f}×",
            backend,
            line(best.variant),
            best.p50_ms,
            best.ci_low_ms,
            best.ci_high_ms,
        )
        for pair in figure.pairs
        for backend, best in (("CPU", pair.cpu), ("NNAPI", pair.nnapi))
        if best is not None
    ]
    return pd.DataFrame(rows, columns=columns).astype(dict.fromkeys(columns[4:], "float64"))


def interval(metric: str, low: float | None, high: float | None) -> str:
    """Return the interval in words, such as `3.412 to 3.620 ms`; `none` without an interval."""
    if low is None or high is None or low != low or high != high:
        return "none"
    digits, unit = METRICS[metric].digits, METRICS[metric].unit
    return f"{low:.{digits}f} to {high:.{digits}f} {unit}"


def _place(number: int, candidate: Candidate) -> str:
    if candidate.state != "pass":
        return ""
    return candidate.place or str(number)


def _class_place(number: int, member: ClassEntry, ranking: ClassRanking) -> str:
    if member.tied:
        return "1=" if sum(entry.tied for entry in ranking.entries) > 1 else "1"
    return str(number) if member.passes_on == len(ranking.units) else ""


def _status(candidate: Candidate, winner: bool) -> str:
    if candidate.verdict == "pass":
        return "winner" if winner else _STATUS_OF_TIE[candidate.tie]
    return _STATUS_OF_VERDICT[candidate.verdict]
