"""The tables of infra/words.md: all that `edgesweep explain` explains."""

from sweeps.report.explanations import SORTS, explanations


def tables() -> str:
    """A heading and a table for each sort of words."""
    found = [one for several in explanations().values() for one in several]
    parts = [""]
    for sort, heading in SORTS.items():
        parts += [f"## {heading}", "", "| word | what it means, and why | what to do |", "|---|---|---|"]
        for one in found:
            if one.sort == sort:
                meaning = f"{one.meaning} ({one.why})" if one.why else one.meaning
                meaning += f"; also called {', '.join(one.also)}" if one.also else ""
                parts.append(
                    "| " + " | ".join(text.replace("|", "\\|") for text in (f"`{one.word}`", meaning, one.todo)) + " |"
                )
        parts.append("")
    return "\n".join(parts) + "\n"
