"""What a winner beats, in sentences. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pandas as pd

from dashboard.ranked import Ranked
from sweeps.ranking.values import Candidate
from sweeps.results import ResultRow


@dataclass(frozen=True, slots=True)
class Sentence:
    """One line, of which the beginning is emphasized."""

    strong: str
    rest: str


def beats(
    ranked: Ranked, winner: Candidate, row: pd.Series, table: pd.DataFrame, quoted: Callable[[str], str]
) -> list[Sentence]:
    """What the winner beats, and which quicker builds may not ship, and why. `table`: `dashboard.rows.ranked`; `row`:
    the winner's in it. `quoted` makes the text of names and reasons harmless where the sentences will stand."""
    if not winner.timed:
        return []
    found = []
    table = table[["job_key", "variant", "latency_p50_ms", "latency_short", "verdict", "status", "why"]]
    others = table[(table["job_key"] != winner.job_key) & table["latency_p50_ms"].notna()]
    # The plainest build: as the model was, before anything was done to it.
    plain = others[others["job_key"].isin(plainest(ranked.rows))]
    if not plain.empty:
        against = plain.sort_values("latency_p50_ms").iloc[-1]
        found += _times_as_fast(ranked, winner, str(against["job_key"]), quoted(str(against["variant"])))
    quicker = others[(others["latency_p50_ms"] < row["latency_p50_ms"]) & (others["verdict"] != "pass")]
    # What was only measured badly comes first: it may be the better build.
    quicker = quicker.assign(otherwise=quicker["verdict"] != "disqualified")
    for one in quicker.sort_values(["otherwise", "latency_p50_ms"]).head(2).itertuples():
        may = "may not ship" if one.status == "may not ship" else "nobody knows yet if it may ship"
        found.append(
            Sentence(
                "", f"{quoted(str(one.variant))} is quicker ({one.latency_short}), but {may}: {quoted(str(one.why))}."
            )
        )
    return found


def _times_as_fast(ranked: Ranked, winner: Candidate, other_key: str, other: str) -> list[Sentence]:
    """With the two figures whose quotient the ratio is."""
    candidates = (one for device in ranked.ranking.devices for one in device.ranking if device.winner is winner)
    against = next((one for one in candidates if one.job_key == other_key), None)
    ratio, made = (None, None) if against is None else (against.ratio_to_winner, against.made_of)
    # What is not told apart is no advantage: it stands among the ties.
    if ratio is None or made is None or ratio.value < 1.05 or (ratio.low is not None and ratio.low <= 1.0):
        return []
    interval = "" if ratio.low is None else f" ({ratio.low:.2f} to {ratio.high:.2f})"
    said = f", {made.how}{interval}"
    if made.ms is not None and made.other_ms is not None:
        said += f": {_ms(made.ms)} against {_ms(made.other_ms)}{f' {made.where}' if made.where else ''}"
    return [Sentence(f"{ratio.value:.2f}× as fast", f" as {other}{said}.")]


def _ms(value: float) -> str:
    """With so many digits that the quotient of two has the two that a ratio is shown with."""
    return f"{value:#.4g} ms".replace(". ", " ")


def plainest(there: Sequence[ResultRow]) -> set[str]:
    """Job keys of the builds with nothing done to them: fp32, NCHW, on the CPU; and of these the least optimized."""
    plain = [row for row in there if (row.precision, row.layout, row.backend) == ("fp32", "nchw", "cpu")]
    least = min(((row.optimize, row.fuse, row.threads) for row in plain), default=None)
    return {row.job_key for row in plain if (row.optimize, row.fuse, row.threads) == least}
