"""The tables of infra/words.md: all that `edgesweep explain` explains."""

from sweeps.report.explanations import SORTS, explanations


def tables() -> str:
    """Return a heading and a table for each sort of words."""
    entries = [entry for group in explanations().values() for entry in group]
    parts = [""]
    for sort, heading in SORTS.items():
        parts += [f"## {heading}", "", "| word | what it means, and why | what to do |", "|---|---|---|"]
        for entry in entries:
            if entry.sort == sort:
                meaning = f"{entry.meaning} ({entry.why})" if entry.why else entry.meaning
                meaning += f"; also called {', '.join(entry.also)}" if entry.also else ""
                parts.append(
                    "| "
                    + " | ".join(text.replace("|", "\\|") for text in (f"`{entry.word}`", meaning, entry.todo))
                    + " |"
                )
        parts.append("")
    return "\n".join(parts) + "\n"
