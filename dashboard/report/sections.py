"""The sections of a report, one for each device and model: figures, charts and tables as plain values. Pure."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from dashboard import rows
from dashboard.charts.dots import latency
from dashboard.charts.drawing import Spec
from dashboard.charts.tradeoff_chart import AccuracyAxis, tradeoff
from dashboard.margin_sentences import Sentence, beats
from dashboard.markdown_escape import NOTHING, line
from dashboard.ranked_place import Ranked
from dashboard.style import DARK, LIGHT, Palette
from dashboard.words import PAIRED, PAIRED_HELP, TRUST_WORDS, build_names, device_names, plain_words
from sweeps.journal.result_place import Place
from sweeps.label_kinds import TRUST, readiness
from sweeps.metrics import METRICS
from sweeps.ranking.eligibility import evaluated_by, reference_name, reference_text
from sweeps.ranking.interval_scope import with_scope
from sweeps.ranking.values import Candidate, DeviceRanking, Ranking
from sweeps.results import ResultRow
from sweeps.spec import catalog
from sweeps.spec.objective import ObjectiveSpec
from sweeps.text import shortened, some

MOST_DOTS = 20
"""Most builds in a chart; the table has all."""


@dataclass(frozen=True, slots=True)
class Chart:
    """Chart in both themes."""

    title: str
    note: str
    light: Spec
    dark: Spec


@dataclass(frozen=True, slots=True)
class TextTable:
    """Table of text. `numbers`: the columns that are aligned to the right."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[Sequence[str]]
    numbers: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """Section about one model on one device, under one set of conditions."""

    device: str
    """Display name of the device, with its id if several devices have the same name."""
    device_id: str
    model: str
    lead: str
    """Words before the headline, such as `Ship this on Google Pixel 8`."""
    headline: str
    """Name of the build, or `No winner`."""
    figure: str
    """Latency of the winner with its unit; empty without one."""
    state: str
    """State: `winner`, `tied`, `provisional` or `none`."""
    sentences: tuple[Sentence, ...]
    figures: tuple[tuple[str, str, str], ...]
    """Title, value and note of each figure."""
    charts: tuple[Chart, ...]
    tables: tuple[TextTable, ...]
    conditions: tuple[tuple[str, str], ...]


def sections(results: Iterable[ResultRow], ranking: Ranking, objective: ObjectiveSpec) -> list[Section]:
    """Return the sections of the ranking of these rows: one for each device or pool, model and set of conditions,
    sorted by name."""
    places: dict[Place, list[ResultRow]] = {}
    for row in results:
        places.setdefault(Place.of(row), []).append(row)
    parts = []
    units = device_names({device.device_id: device.device for device in ranking.devices})
    for place, group in places.items():
        entries = [device for device in ranking.devices if (device.device_id, device.model) == place[1:]]
        ranked = Ranked(place, tuple(group), build_names(group), objective, replace(ranking, devices=tuple(entries)))
        parts += [_section(ranked, device, units[device.device_id]) for device in entries]
    return sorted(parts, key=lambda section: (section.device, section.device_id, section.model))


def _section(ranked: Ranked, device: DeviceRanking, unit: str) -> Section:
    table = rows.ranked(device, ranked.names)
    winner = device.winner
    chosen = None if winner is None else table[table["job_key"] == winner.job_key].iloc[0]
    lead, headline, state = _headline(device, table, unit)
    sentences = [] if winner is None or chosen is None else beats(ranked, winner, chosen, table, line)
    return Section(
        device=unit,
        device_id=line(device.device_id),
        model=line(device.model),
        lead=lead,
        headline=headline,
        figure="" if winner is None or chosen is None or not winner.timed else chosen["latency_text"],
        state=state,
        sentences=(*_why(device), *sentences, *_ties(device, table), *_provisional(device), *_doubts(winner)),
        figures=() if winner is None or chosen is None else _figures(device, winner, chosen),
        charts=_charts(ranked.objective, table, rows.accuracy_metric(device)),
        tables=tuple(_tables(ranked, device, table)),
        conditions=_conditions(device, ranked.rows),
    )


def _headline(device: DeviceRanking, table: pd.DataFrame, unit: str) -> tuple[str, str, str]:
    """Return the line above the headline, the headline, and the state. `unit`: the device's display name."""
    winner, provisional = device.winner, device.provisional
    if winner is not None:
        lead = "Ship this on" if winner.timed else "The best, but only checked and not timed, on"
        (name,) = rows.names_in(table, [winner])
        return f"{lead} {unit}", name, "tied" if device.unresolved else "winner"
    if provisional is not None and provisional.name:
        (name,) = table[table["job_key"] == provisional.job_key]["variant"]
        return (
            f"Provisional choice on {unit}: no build may be called the winner yet",
            name,
            "provisional",
        )
    return f"No build may ship on {unit} yet", "No winner", "none"


def _why(device: DeviceRanking) -> list[Sentence]:
    sentences = [("Why it won", plain_words(device.winner_reason))] if device.winner else []
    sentences += [("What is told apart", device.resolution.text)] if device.resolution else []
    return [Sentence(strong, f": {rest}.") for strong, rest in sentences]


def _ties(device: DeviceRanking, table: pd.DataFrame) -> list[Sentence]:
    sentences = []
    if device.equal:
        names = some(rows.names_in(table, device.equal))
        sentences.append(Sentence("Equal to it", f": {names}. Shown at 95 % to be within 2 % of the best."))
    if device.unresolved:
        names = some(
            [
                name + (f" ({line(tie.settling.text)})" if tie.settling else "")
                for name, tie in zip(rows.names_in(table, device.unresolved), device.unresolved, strict=True)
            ]
        )
        sentences.append(Sentence("Not told apart from it", f": {names}."))
    if device.settle_command:
        sentences.append(Sentence("To settle it", f": {device.settle_command}"))
    return sentences


def _provisional(device: DeviceRanking) -> list[Sentence]:
    if device.winner is not None:
        return []
    sentences = [Sentence("Why", f": {plain_words(device.no_winner_reason or 'nothing has been measured yet')}")]
    if device.provisional is not None:
        if device.provisional.name:
            sentences.append(Sentence("It is not the winner", f": {plain_words(device.provisional.why)}"))
        sentences.append(Sentence("Next", f": {line(device.provisional.settle.timed_text)}"))
    return sentences


def _doubts(winner: Candidate | None) -> list[Sentence]:
    names = winner.trust if winner else ()
    return [Sentence(f"Doubt: {TRUST_WORDS[name]}", f": {TRUST[name].text}") for name in names if name in TRUST]


def _figures(device: DeviceRanking, winner: Candidate, row: pd.Series) -> tuple[tuple[str, str, str], ...]:
    accuracy = METRICS[rows.accuracy_metric(device)]
    source = f"emulated by {row['emulated_by']}" if row["emulated_by"] else "from the device's outputs"
    interval = with_scope(f"95 %: {row['interval_text']}", winner.interval_of)
    return (
        ("Latency (p50)", row["latency_text"], interval if winner.timed else "not timed"),
        (accuracy.title, accuracy.format(row["accuracy"]), source),
        ("Accuracy drop", row["drop_text"], f"95 %: {row['drop_interval_text']}"),
        ("Size", row["size_text"], "the file to ship"),
    )


def _charts(objective: ObjectiveSpec, table: pd.DataFrame, metric: str) -> tuple[Chart, ...]:
    if table.empty or not table["latency_p50_ms"].notna().any():
        return ()
    timed = table[table["latency_p50_ms"].notna()]
    more = f" The first {MOST_DOTS} of {len(timed)}; the table has all." if len(timed) > MOST_DOTS else ""
    note = "p50, with the 95 % interval as a bar behind the dot." + more
    charts = [Chart("Latency", note, *_themes(lambda look: latency(timed.head(MOST_DOTS), look)))]
    if timed["accuracy"].notna().any():
        axis = AccuracyAxis.of(objective, table, metric)
        note = (
            f"Left and up is better. Crosses are 95 % intervals (accuracy: of the paired drop). {axis.lines_in_words}"
        )
        charts.append(Chart("Speed against accuracy", note.strip(), *_themes(lambda look: tradeoff(table, axis, look))))
    return tuple(charts)


def _themes(draw: Callable[[Palette], Spec]) -> tuple[Spec, Spec]:
    return draw(LIGHT), draw(DARK)


def _tables(ranked: Ranked, device: DeviceRanking, table: pd.DataFrame) -> Iterable[TextTable]:
    delegated = rows.partly_delegated(device, ranked.names)
    if not table.empty:
        yield _ranking(ranked, device, table, delegated)
    checked = rows.checked(device, ranked.names)
    if not checked.empty:
        shown = (*device.ranking, *device.checked)
        references = sorted({row.executor for row in shown if row.emulated})
        yield TextTable(
            "Checked, not timed",
            ("Build", "Top-1", "Drop", "SQNR", "Constraints", "Checked by"),
            [[str(row[name]) for name in _CHECKED] for row in checked.to_dict("records")],
            frozenset({"Top-1", "Drop", "SQNR"}),
            (
                *(line(f"{reference_name(executor)}: {reference_text(executor)}") for executor in references),
                *(delegated if table.empty else ()),
            ),
        )
    unmeasured = [row for row in ranked.rows if row.outcome in ("failed", "skipped")]
    if unmeasured:
        yield TextTable(
            "Failed and skipped",
            ("Build", "Outcome", "Reason"),
            [(ranked.names[row.job_key], line(row.outcome), _short(row) or NOTHING) for row in unmeasured],
        )


def _ranking(ranked: Ranked, device: DeviceRanking, table: pd.DataFrame, delegated: Sequence[str]) -> TextTable:
    """Return the ranking as a table. It has a column for the runtime if there are several, and a column for the
    library's size if runtimes differ in it. `delegated`: notes about builds that are not wholly delegated."""
    runtimes = {row.job_key: line(row.runtime) for row in ranked.rows}
    accuracy = METRICS[rows.accuracy_metric(device)].title
    cells = [_ranked_cells(row, runtimes[row["job_key"]], accuracy) for row in table.to_dict("records")]
    useful = {"Runtime": len({row["Runtime"] for row in cells}) > 1, "Library": device.libraries_differ}
    columns = tuple(name for name in cells[0] if useful.get(name, True))
    paired = any(row[PAIRED] != NOTHING for row in cells)
    return TextTable(
        "Ranking",
        columns,
        [[row[name] for name in columns] for row in cells],
        frozenset({"p50", "p50, × best", PAIRED, accuracy, "Drop", "Size", "Library"}),
        (
            *([f"{PAIRED}: {PAIRED_HELP[0].lower()}{PAIRED_HELP[1:]}."] if paired else []),
            *(
                f"{some(rows.names_in(table, candidates))}: {plain_words(reason)}"
                for reason, candidates in device.reasons.items()
            ),
            *delegated,
            *filter(None, (device.cost_text,)),
        ),
    )


def _short(row: ResultRow) -> str:
    return shortened(plain_words(row.reason), f"edgesweep rank {row.sweep} -v")


_CHECKED = ("variant", "accuracy_text", "drop_text", "sqnr_text", "status", "executor")


def _ranked_cells(row: dict[Hashable, Any], runtime: str, accuracy: str) -> dict[str, str]:
    """Return the cells of a ranked row, by column. `accuracy`: the title of the accuracy metric."""
    has_figure = {name: row[name] == row[name] for name in ("ratio", "runtime_mb")}
    return {
        "Rank": row["place"] or NOTHING,
        "Build": row["variant"],
        "Runtime": runtime,
        "p50": row["latency_text"],
        "95 % interval": row["interval_text"],
        "p50, × best": f"{row['ratio']:.2f}×" if has_figure["ratio"] else NOTHING,
        PAIRED: row["paired_text"],
        accuracy: row["accuracy_text"],
        "Drop": row["drop_text"],
        "Size": row["size_text"],
        "Library": catalog.metric("runtime_mb").format(row["runtime_mb"]) if has_figure["runtime_mb"] else NOTHING,
        "Verdict": row["verdict"],
        "Doubts": "; ".join(TRUST_WORDS.get(name, line(name)) for name in row["trust"]) or NOTHING,
    }


def _conditions(device: DeviceRanking, results: Sequence[ResultRow]) -> tuple[tuple[str, str], ...]:
    """Return the conditions of the measurement in words, each with its title."""
    conditions = device.conditions
    measured = [row for row in results if row.outcome == "measured"]
    gate = readiness(conditions.gate, {label for row in measured for label in row.trust})
    evaluators = {evaluated_by(row.executor, row.fingerprint) for row in measured if row.executor}
    pairs = {
        "device": f"{device.device} ({device.device_id}), fingerprint {device.fingerprint}",
        "protocol": f"preset {conditions.preset}: {max((row.rounds for row in measured), default=0)} rounds at most, "
        f"{sum(row.samples for row in measured)} samples in all; {gate}",
        "fixed performance": conditions.fixed_performance or "",
        "context": conditions.exec_context,
        "runtimes": ", ".join(sorted({row.runtime_version for row in measured if row.runtime_version})),
        "runners": ", ".join(sorted({row.runner for row in measured if row.runner})),
        "accuracy by": ", ".join(sorted(evaluators)),
        "images": ", ".join(str(count) for count in sorted({row.images for row in measured if row.images})),
    }
    return tuple((name, line(text)) for name, text in pairs.items() if text)
