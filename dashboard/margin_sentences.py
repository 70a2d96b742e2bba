"""Sentences about the builds that a winner beats. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pandas as pd

from dashboard.ranked_place import Ranked
from sweeps.ranking.values import Candidate
from sweeps.results import ResultRow


@dataclass(frozen=True, slots=True)
class Sentence:
    """Sentence whose beginning is emphasized."""

    strong: str
    rest: str


def beats(
    ranked: Ranked, winner: Candidate, row: pd.Series, table: pd.DataFrame, quoted: Callable[[str], str]
) -> list[Sentence]:
    """Return sentences that say which builds the winner beats, and why quicker builds may not ship. `table`:
    `dashboard.rows.ranked`; `row`: the winner's row in it. `quoted`: escapes names and reasons for the place where the
    sentences are shown."""
    if not winner.timed:
        return []
    sentences = []
    table = table[["job_key", "variant", "latency_p50_ms", "latency_short", "verdict", "status", "why"]]
    rivals = table[(table["job_key"] != winner.job_key) & table["latency_p50_ms"].notna()]
    # The plainest build is the model before any optimization.
    plain = rivals[rivals["job_key"].isin(plainest(ranked.rows))]
    if not plain.empty:
        against = plain.sort_values("latency_p50_ms").iloc[-1]
        sentences += _times_as_fast(ranked, winner, str(against["job_key"]), quoted(str(against["variant"])))
    quicker = rivals[(rivals["latency_p50_ms"] < row["latency_p50_ms"]) & (rivals["verdict"] != "pass")]
    # Disqualified builds come first: such a build may be the better one.
    quicker = quicker.assign(otherwise=quicker["verdict"] != "disqualified")
    for build in quicker.sort_values(["otherwise", "latency_p50_ms"]).head(2).itertuples():
        may = "may not ship" if build.status == "may not ship" else "nobody knows yet if it may ship"
        sentences.append(
            Sentence(
                "",
                f"{quoted(str(build.variant))} is quicker ({build.latency_short}), but {may}: "
                f"{quoted(str(build.why))}.",
            )
        )
    return sentences


def _times_as_fast(ranked: Ranked, winner: Candidate, other_key: str, other: str) -> list[Sentence]:
    """Return a sentence that says how many times as fast the winner is, with the two figures whose quotient is the
    ratio; nothing if the advantage is not clear."""
    candidates = (
        candidate for device in ranked.ranking.devices for candidate in device.ranking if device.winner is winner
    )
    against = next((candidate for candidate in candidates if candidate.job_key == other_key), None)
    ratio, figures = (None, None) if against is None else (against.ratio_to_winner, against.made_of)
    # A ratio whose interval contains 1 is no advantage: that build is listed among the ties.
    if ratio is None or figures is None or ratio.value < 1.05 or (ratio.low is not None and ratio.low <= 1.0):
        return []
    interval = "" if ratio.low is None else f" ({ratio.low:.2f} to {ratio.high:.2f})"
    detail = f", {figures.how}{interval}"
    if figures.ms is not None and figures.other_ms is not None:
        detail += f": {_ms(figures.ms)} against {_ms(figures.other_ms)}{f' {figures.where}' if figures.where else ''}"
    return [Sentence(f"{ratio.value:.2f}× as fast", f" as {other}{detail}.")]


def _ms(value: float) -> str:
    """Format milliseconds with four significant digits, so that the quotient of two such texts agrees with the ratio's
    two decimals."""
    return f"{value:#.4g} ms".replace(". ", " ")


def plainest(rows: Sequence[ResultRow]) -> set[str]:
    """Return the job keys of the plainest builds: fp32, NCHW, on the CPU, and of these the least optimized, fused and
    threaded."""
    plain = [row for row in rows if (row.precision, row.layout, row.backend) == ("fp32", "nchw", "cpu")]
    least = min(((row.optimize, row.fuse, row.threads) for row in plain), default=None)
    return {row.job_key for row in plain if (row.optimize, row.fuse, row.threads) == least}
