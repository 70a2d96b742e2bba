"""The text of a comparison for a terminal. This module makes no decision."""

from rich.text import Text

from sweeps.ranking.comparison import FINDINGS, Compared, Comparison, Whole
from sweeps.ranking.session_ratio import MOST_SESSIONS
from sweeps.report.terminal_tables import cells, new_table, open_console
from sweeps.text import plain, some

_STYLES = {
    "slower": "red",
    "slower (one session)": "yellow",
    "unresolved": "yellow",
    "faster": "green",
    "the same": "",
    "not slower": "",
    "not comparable": "yellow",
}


def print_comparison(comparison: Comparison) -> None:
    out = open_console()
    table = new_table(
        f"A: {comparison.a}\nB: {comparison.b}",
        "variant",
        "device",
        ">A ms",
        ">B ms",
        ">B / A",
        ">95 % interval",
        "B is",
    )
    for result in comparison.results:
        interval = "–" if result.ratio_low is None else f"{result.ratio_low:.3f} – {result.ratio_high:.3f}"
        table.add_row(
            *cells(
                result.name,
                result.device,
                _figure(result.a_mean_ms),
                _figure(result.b_mean_ms),
                "–" if result.ratio is None else f"{result.ratio:.3f}×",
                interval,
                Text(result.finding, style=_STYLES[result.finding]),
            )
        )
    if comparison.results:
        out.print(table)
        out.print(Text("A ms, B ms: geometric means of blocks; B / A is their quotient", style="dim"))
    for finding, reason in dict.fromkeys((result.finding, result.why) for result in comparison.results if result.why):
        names = some([result.name for result in comparison.results if result.why == reason])
        out.print(Text(plain(f"{finding}: {names}: {reason}"), style="yellow"))
    for name, missing in ((comparison.a, comparison.only_a), (comparison.b, comparison.only_b)):
        if missing:
            out.print(Text(plain(f"only in {name}: {some(missing)}"), style="dim"))
    if comparison.in_batches:
        why = "measured in batches only, which give a ratio to the winner and no time: not compared"
        out.print(Text(plain(f"{some(comparison.in_batches)}: {why}"), style="dim"))
    findings = {result.finding for result in comparison.results}
    if "the same" in findings:
        out.print(Text(f"the same: shown to differ by less than {comparison.margin_percent:g} %", style="dim"))
    if "not slower" in findings:
        out.print(
            Text(f"not slower: shown to be slower by less than {comparison.margin_percent:g} %, if at all", style="dim")
        )
    if len(comparison.results) > 1 and findings != {"not comparable"}:
        out.print(
            Text("slower, faster: 5 % error over all comparisons, with wider intervals than in the table", style="dim")
        )
    for whole in comparison.wholes:
        out.print(Text(plain(_whole(whole)), style="dim"))
    for line in dict.fromkeys(_sessions(result) for result in comparison.results if result.ratio is not None):
        out.print(Text(line, style="dim"))
    if comparison.open_results:
        out.print(Text(_left(comparison), style="yellow"))
    counts = [(sum(result.finding == finding for result in comparison.results), finding) for finding in FINDINGS]
    summary = ", ".join(f"{count} {finding}" for count, finding in counts if count)
    out.print(summary or "no result was measured in both")


def _whole(whole: Whole) -> str:
    return (
        f"set of {whole.builds} builds on {whole.device}: {whole.ratio:.3f}× as a whole ({whole.ratio_low:.3f} – "
        f"{whole.ratio_high:.3f} at 90 %); a build of it passes by that, by its ratio to the others, and by its own "
        f"within these sessions"
    )


def _left(comparison: Comparison) -> str:
    """Return how many results are open, and how many rounds or sessions would settle them, as text."""
    left = f"left: {len(comparison.open_results)} of {len(comparison.results)}"
    if any(result.session_spread_percent is None for result in comparison.open_results):
        return f"{left}; more rounds would settle them, or a wider --margin"
    if comparison.sessions_needed is None:
        return f"{left}; more than {MOST_SESSIONS} sessions of each side would be needed to settle all of them"
    return f"{left}; about {comparison.sessions_needed} sessions of each side would settle all of them"


def _sessions(result: Compared) -> str:
    if result.session_spread_percent is None:
        return "measured in the same runs: what a session does to A, it does to B"
    return (
        f"sessions: {result.a_sessions} of A, {result.b_sessions} of B; intervals contain a spread between sessions of "
        f"{result.session_spread_percent:.1f} %"
    )


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
