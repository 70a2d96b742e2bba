"""The text of a ranking for a terminal. This module makes no decision."""

import shlex
from collections.abc import Iterable, Mapping, Sequence

from rich.text import Text

from sweeps.command_hints import ANYWHERE, CommandHints
from sweeps.imported import NOTE, Imported
from sweeps.label_kinds import TRUST
from sweeps.metrics import METRICS
from sweeps.ranking.amounts import delegated_in_words, in_words, paired
from sweeps.ranking.device_classes import ClassRanking
from sweeps.ranking.eligibility import reference_name, reference_text
from sweeps.ranking.interval_scope import with_scope
from sweeps.ranking.values import Candidate, DeviceRanking, Ranking
from sweeps.report.nnapi_gain_text import print_backends
from sweeps.report.terminal_tables import NO_NAMES, ONLY_CHECKED, Lines, cells, new_table, open_console, print_fitting
from sweeps.spec import catalog
from sweeps.text import MOST_NAMES, shortened, some

# The columns of the ranking, each with the smallest width of the terminal (characters) at which it is shown. The
# variant's name must remain readable.
_RANKING_COLUMNS = {
    ">#": 0,
    "variant": 0,
    ">p50 ms": 0,
    ">95 % interval": 0,
    ">paired ratio": 115,
    ">top-1": 0,
    ">drop (points)": 145,
    ">size": 125,
    ">library": 135,
    "front": 0,
    "verdict": 0,
    "trust": 165,
}
_CHECKED_COLUMNS = {
    "variant": 0,
    ">top-1": 0,
    ">drop (points)": 0,
    ">95 % interval": 105,
    ">agreement": 0,
    ">SQNR dB": 0,
    ">size": 95,
    "constraints": 0,
    "checked by": 140,
    "trust": 165,
}
_PAIRED = (
    "paired ratio: to the winner's latency in the same rounds, the median of these ratios (95 %); a p50 is over all "
    "rounds, so it need not be the quotient of two"
)
_VERDICTS = {"pass": "green", "eliminated": "dim", "fail": "red", "unresolved": "yellow", "disqualified": "red"}


def print_ranking(
    ranking: Ranking,
    notes: Iterable[str] = (),
    *,
    verbose: bool = False,
    hints: CommandHints = ANYWHERE,
    names: Mapping[str, str] = NO_NAMES,
) -> None:
    """Print the ranking. `notes`: lines after the tables of devices. `verbose`: list all variants for each reason, and
    print long reasons unshortened. `hints`: completes commands in advice. `names`: as in `Lines`."""
    out = Lines(open_console(), hints, names)
    for device in ranking.devices:
        _print_device(out, ranking, device, verbose)
    for note in notes:
        out.line(note)
    for pooled in ranking.classes:
        _print_class(out, ranking, pooled)
    if ranking.backends is not None:
        print_backends(out, ranking.backends)
    if ranking.imported:
        _print_imported(out, f"{NOTE}; there is no ranking of these devices", ranking.imported, separate=True)


def _print_device(out: Lines, ranking: Ranking, device: DeviceRanking, verbose: bool) -> None:
    whole = f"edgesweep rank {shlex.quote(ranking.sweep)} -v"
    out.line(f"\n{ranking.sweep} · {device.model} on {out.device(device.device_id, device.device)}", "bold")
    out.line(f"objective: {ranking.objective}", "dim")
    if device.winner is None:
        out.line(f"No winner: {device.no_winner_reason}", "yellow")
        _print_provisional(out, device)
    else:
        out.line(f"Ship: {_short(device.winner.name_here, device)}  {_headline(device)}", "bold green")
        if device.better_disqualified:
            out.line(f"Better, but disqualified: {device.better_disqualified_text}", "yellow")
        out.line(f"Why it won: {device.winner_reason}")
        _print_ties(out, device, None if verbose else whole)
    if device.alarm:
        out.line(f"Batches are contradicted: {device.alarm}", "yellow")
    if device.ranking:
        if device.resolution is not None:
            out.line(device.resolution.text, "dim")
        useful = {"front": device.front is not None, ">library": device.libraries_differ}
        columns = {name: width for name, width in _RANKING_COLUMNS.items() if useful.get(name, True)}
        rows = [_ranking_row(number, candidate, device) for number, candidate in enumerate(device.ranking, 1)]
        print_fitting(out.console, "", columns, rows)
        if out.console.width >= _RANKING_COLUMNS[">paired ratio"] and len(device.ranking) > 1 and device.winner:
            out.line(_PAIRED, "dim")
        for reason, candidates in device.reasons.items():
            names = [_short(candidate.name_here, device) for candidate in candidates]
            names_text = ", ".join(names) if verbose else some(names)
            listed = f" ({whole} lists them)" if len(names) > MOST_NAMES and not verbose else ""
            out.line(f"{names_text}{listed}: {reason}", "dim")
        if device.cost_text:
            out.line(device.cost_text, "dim")
    if device.checked:
        rows = [_checked_row(candidate, device) for candidate in device.checked]
        print_fitting(out.console, "Checked on this host, not timed", _CHECKED_COLUMNS, rows)
    shown = (*device.ranking, *device.checked)
    for executor in sorted({candidate.executor for candidate in shown if candidate.emulated}):
        out.line(f"{reference_name(executor)}: {reference_text(executor)}", "dim")
    _print_left(out, device, shown)
    _print_trust(out, shown)
    if device.not_ranked:
        remedies = any(row.next_step for row in device.not_ranked)
        table = new_table("Not ranked", "variant", "outcome", "reason", *(("what to do",) if remedies else ()))
        for row in device.not_ranked:
            reason = row.reason if verbose else shortened(row.reason, out.hints.typed(whole))
            texts = [reason, out.hints.typed(row.next_step)] if remedies else [reason]
            table.add_row(*cells(_short(row.name_here, device), row.outcome, *texts))
        out.console.print(table)
    if device.imported:
        _print_imported(out, NOTE, device.imported)


def _print_provisional(out: Lines, device: DeviceRanking) -> None:
    choice = device.provisional
    if choice is None:
        return
    if choice.name:
        chosen = next(candidate for candidate in device.ranking if candidate.job_key == choice.job_key)
        figure = in_words(chosen.figures, device.metric)
        out.line(f"Provisional: {_short(chosen.name_here, device)}  {figure}", "bold yellow")
        out.line(f"  It is not the winner: {choice.why}")
    out.line(f"  {'To settle it' if choice.name else 'To go on'}: {choice.settle.timed_text}")


def _print_imported(out: Lines, title: str, figures: Sequence[Imported], *, separate: bool = False) -> None:
    """Print imported figures. `separate`: there is no heading with model and device, so each line contains them."""
    table = new_table(title, *(("device", "model") if separate else ()), "variant", ">mean ms", ">n", ">p50 ms", "from")
    for figure in figures:
        place = (figure.device, figure.model) if separate else ()
        median = "–" if figure.p50_ms is None else f"{figure.p50_ms:.3f}"
        table.add_row(
            *cells(*place, figure.variant, f"{figure.mean_ms:.3f}", figure.iterations or "–", median, figure.source)
        )
    out.console.print(table)


def _print_ties(out: Lines, device: DeviceRanking, whole: str | None) -> None:
    """Print the candidates that share the first place. `whole`: the command that lists all of them; `None` if all are
    printed."""
    most = None if whole is None else MOST_NAMES
    if device.equal:
        out.line("Equal to it (shown at 95 % to be within 2 % of the best):")
        for candidate in device.equal[:most]:
            out.line(f"  {_short(candidate.name_here, device)}")
        _print_rest(out, len(device.equal), whole)
        preferred = "Among equals, higher accuracy comes first, then the smaller file (by 2 % or more)."
        out.line(preferred, "dim")
    if device.unresolved:
        out.line("Unresolved beside it (not told apart from the best, and not shown to be equal):")
        for candidate in device.unresolved[:most]:
            settling = f": {candidate.settling.text}" if candidate.settling else ""
            out.line(f"  {_short(candidate.name_here, device)}{settling}")
        _print_rest(out, len(device.unresolved), whole)
    if device.settle_command:
        out.line(f"To measure just these: {device.settle_command}")


def _print_rest(out: Lines, count: int, whole: str | None) -> None:
    if whole is not None and count > MOST_NAMES:
        out.line(f"  and {count - MOST_NAMES} more ({whole} lists them)")


def _print_class(out: Lines, ranking: Ranking, pooled: ClassRanking) -> None:
    title = f"{ranking.sweep} · {pooled.model} on {len(pooled.units)} units of {pooled.device}"
    out.line(f"\n{title}", "bold")
    if not pooled.winner:
        out.line("No variant may win on every unit.", "yellow")
        return
    out.line(f"Ship on all of them: {pooled.winner}", "bold green")
    table = new_table("", "variant", ">units", ">may win on", ">ratio", ">between units", ">95 % interval", "")
    for entry in pooled.entries:
        low, high = entry.ratio_low, entry.ratio_high
        table.add_row(
            *cells(
                entry.variant,
                entry.units,
                entry.passes_on,
                f"{entry.ratio:.2f}×",
                f"{entry.ratio_least:.2f} – {entry.ratio_most:.2f}",
                "–" if low is None or high is None else f"{low:.2f} – {high:.2f}",
                "tied" if entry.tied and entry.variant != pooled.winner else "",
            )
        )
    out.console.print(table)
    for text in pooled.in_batches:
        out.line(text, "dim")


def _print_left(out: Lines, device: DeviceRanking, shown: Sequence[Candidate]) -> None:
    for candidate in shown:
        if text := delegated_in_words(candidate.figures):
            out.line(f"{_short(candidate.name_here, device)}: {text}", "yellow")


def _print_trust(out: Lines, shown: Sequence[Candidate]) -> None:
    labels = sorted({label for candidate in shown for label in candidate.trust})
    if labels:
        out.line("Trust labels:", "dim")
    for name in labels:
        advice = TRUST[name].text if name in TRUST else "not a label of this version"
        count = sum(name in candidate.trust for candidate in shown)
        out.line(f"  {name} ({count} of {len(shown)}): {advice}", "dim")


def _short(name: str, device: DeviceRanking) -> str:
    """Return a job's name without the model, which is in the heading, as is the device."""
    return name.removeprefix(f"{device.model} · ")


def _headline(device: DeviceRanking) -> str:
    """Return the winner's latency, or the objective's metric if it was not timed."""
    assert device.winner is not None
    figures = device.winner.figures
    if not device.winner.timed:
        return f"{catalog.metric(device.metric).title} {in_words(figures, device.metric)}, {ONLY_CHECKED}, not timed"
    low, high = figures["latency_ci_low_ms"], figures["latency_ci_high_ms"]
    text = f"p50 {METRICS['latency_p50_ms'].format(figures['latency_p50_ms'])}"
    if low is None or high is None:
        return text
    return f"{text} ({with_scope(f'{low:.3f} to {high:.3f} ms at 95 %', device.winner.interval_of)})"


def _figure(candidate: Candidate, name: str) -> str:
    """Return the figure without its unit, which is in the column's heading."""
    value = candidate.figures.get(name)
    return "–" if value is None else f"{value:.{catalog.metric(name).digits}f}"


def _interval(candidate: Candidate, low: str, high: str) -> str:
    ends = _figure(candidate, low), _figure(candidate, high)
    return "–" if "–" in ends else " – ".join(ends)


def _ranking_row(number: int, candidate: Candidate, device: DeviceRanking) -> dict[str, object]:
    figures = candidate.figures
    accuracy = "top1_percent" if figures["top1_percent"] is not None else "agreement_percent"
    place = (candidate.place or str(number)) if candidate.state == "pass" else ""
    source = candidate.made_of
    return {
        ">#": place,
        "variant": _short(candidate.name_here, device),
        ">p50 ms": _figure(candidate, "latency_p50_ms") if candidate.timed else candidate.untimed,
        ">95 % interval": _interval(candidate, "latency_ci_low_ms", "latency_ci_high_ms"),
        ">paired ratio": paired(candidate.ratio_to_winner, source.source if source else ""),
        ">top-1": METRICS[accuracy].format(figures[accuracy]) + ("" if accuracy == "top1_percent" else " agree"),
        ">drop (points)": _figure(candidate, "accuracy_drop_points"),
        ">size": METRICS["artifact_mb"].format(candidate.figures["artifact_mb"]),
        ">library": catalog.metric("runtime_mb").format(figures.get("runtime_mb")),
        "front": {True: "front", False: "", None: "–"}[candidate.on_front],
        "verdict": Text(candidate.state, style=_VERDICTS[candidate.state]),
        "trust": ", ".join(candidate.trust),
    }


def _checked_row(candidate: Candidate, device: DeviceRanking) -> dict[str, object]:
    # The SQNR of bit-identical outputs is infinite.
    equal = candidate.figures["sqnr_db"] is None and candidate.figures["agreement_percent"] is not None
    return {
        "variant": _short(candidate.name_here, device),
        ">top-1": METRICS["top1_percent"].format(candidate.figures["top1_percent"]),
        ">drop (points)": _figure(candidate, "accuracy_drop_points"),
        ">95 % interval": _interval(candidate, "accuracy_drop_low_points", "accuracy_drop_high_points"),
        ">agreement": METRICS["agreement_percent"].format(candidate.figures["agreement_percent"]),
        ">SQNR dB": "equal" if equal else _figure(candidate, "sqnr_db"),
        ">size": METRICS["artifact_mb"].format(candidate.figures["artifact_mb"]),
        "constraints": Text(candidate.verdict, style=_VERDICTS[candidate.verdict]),
        "checked by": reference_name(candidate.executor) or "–",
        "trust": ", ".join(candidate.trust),
    }
