"""The explanation of each word in EdgeSweep's results, with its reason and what to do: for `edgesweep explain`, pages
and documents."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Literal

from sweeps.errors import EdgeSweepError, did_you_mean
from sweeps.failure_kinds import FAILURES
from sweeps.label_kinds import TRUST
from sweeps.report import terms
from sweeps.report.axis_reasons import AXIS_REASONS
from sweeps.skip_kinds import SKIPS
from sweeps.spec import catalog
from sweeps.spec.grid import GridSpec
from sweeps.spec.protocol import GateSpec, ProtocolSpec

Sort = Literal["trust label", "verdict", "failure", "skip", "metric", "axis", "protocol", "term"]
SORTS: Mapping[Sort, str] = MappingProxyType(
    {
        "verdict": "Verdicts: may a build win?",
        "trust label": "Trust labels: how far can a time be trusted?",
        "failure": "Failures: why is there no result?",
        "skip": "Skipped: why is it not tried?",
        "metric": "Metrics: what an objective and constraints may name",
        "axis": "Axes: what a grid may vary",
        "protocol": "Protocol: how it is measured",
        "term": "Terms: what tables, pages and sweep files say besides",
    }
)
"""The headings of the sorts of words, in the order of the output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    word: str
    sort: Sort
    meaning: str
    why: str = ""
    todo: str = ""
    """What to do, with the field of the sweep file to change."""

    @property
    def also(self) -> list[str]:
        """The other names of the word on pages and in tables."""
        return terms.called(self.word)

    @property
    def text(self) -> str:
        lines = [f"{self.word} ({self.sort})", f"  {self.meaning}."]
        lines += [f"  also called: {', '.join(self.also)}"] if self.also else []
        lines += [f"  why: {self.why}"] if self.why else []
        lines += [f"  what to do: {self.todo}"] if self.todo else []
        return "\n".join(lines)


_VERDICTS = {
    "pass": (
        "it keeps every constraint, and may win",
        "its figures are on the right side of every bound beyond doubt, and its time can be trusted",
        "nothing; for more than that, tighten at_most or at_least in objective.constraints",
    ),
    "unresolved": (
        "it is not known whether it keeps a constraint, so it may not win; beside the winner: not told apart from it",
        "too few evaluation images, or too few rounds, for how near the figure is to the bound",
        "raise data.evaluation.images or protocol.rounds, or loosen at_most in objective.constraints",
    ),
    "fail": (
        "it is shown to break a constraint, and may not win",
        "its figure is on the wrong side of the bound beyond doubt",
        "loosen at_most or at_least in objective.constraints, or vary more axes in grids",
    ),
    "disqualified": (
        "its time cannot be trusted, or it runs on no phone, so it may not win",
        "it has a disqualifying trust label, or its runtime is one to compare with only",
        "do what the label advises, then edgesweep run SWEEP.yaml --retry-failed",
    ),
    "eliminated": (
        "a race ended it early, because it cannot be the best any more",
        "another build was shown to be faster, and may win",
        "nothing; budget: full measures every build to the end",
    ),
    "equal": (
        "it is shown at 95 % to be within 2 % of the best",
        "the two hardly differ, and there were rounds enough to show it",
        "nothing: of equal builds the more accurate wins, then the smaller",
    ),
    "provisional": (
        "the best choice for now: nothing may win yet, or jobs are still waiting",
        "every build is disqualified, unresolved or pending",
        "the ranking names the one command, or line of the sweep file, that settles it",
    ),
    "waiting": (
        "it has no result yet",
        "a run has not come to it: it runs now, was stopped, or the device is away, quarantined or in use",
        "edgesweep run SWEEP.yaml goes on where it ended; what was measured is kept",
    ),
}

_SKIPS = {
    "skipped": (
        "a combination of the grid that is not tried",
        "it is impossible on the device, or the same as another one; edgesweep plan has the reason of each",
        "nothing, or change grids",
    ),
}


@cache
def explanations() -> Mapping[str, tuple[Explanation, ...]]:
    """Return the explanations by word, in the order of `SORTS`. A few words have two: a label or verdict may also be a
    kind of failure."""
    by_word: dict[str, tuple[Explanation, ...]] = {}
    for entry in _all():
        by_word[entry.word] = (*by_word.get(entry.word, ()), entry)
    return MappingProxyType(by_word)


def explanation(word: str) -> tuple[Explanation, ...]:
    """Return the explanations of a word, of another name for it, or of a value of an axis. Raises `EdgeSweepError` for
    an unknown word, with a suggestion of the nearest one."""
    known = explanations()
    entries = known.get(word) or tuple(
        entry for meant in dict.fromkeys(terms.also(word)) for entry in known.get(meant, ())
    )
    if not entries:
        raise EdgeSweepError(
            f"there is no explanation of {word[:80]!r}{did_you_mean(word, [*known, *terms.names()])}",
            "edgesweep explain lists all words",
        )
    return entries


def explained(sort: Sort, word: str) -> tuple[Explanation, ...]:
    """Return the explanations of a word in one sort; empty if there is none."""
    return tuple(known for known in explanations().get(word, ()) if known.sort == sort)


def meaning(word: str) -> str:
    """Return the meaning of a word that has an explanation, for a tooltip."""
    return explanation(word)[0].meaning


def _all() -> Iterator[Explanation]:
    for word, (meaning, why, todo) in _VERDICTS.items():
        yield Explanation(word=word, sort="verdict", meaning=meaning, why=why, todo=todo)
    for label in TRUST.values():
        wins = "nothing with it wins" if label.disqualifying else "what has it may win"
        yield Explanation(
            word=label.name,
            sort="trust label",
            meaning=f"{label.title}; {wins}",
            why=label.why,
            todo=label.todo + (f" (fields: {label.fields})" if label.fields else ""),
        )
    for word, kind in FAILURES.items():
        yield Explanation(word=word, sort="failure", meaning=kind.why[0].upper() + kind.why[1:], todo=kind.todo)
    for word, (meaning, why, todo) in _SKIPS.items():
        yield Explanation(word=word, sort="skip", meaning=meaning, why=why, todo=todo)
    for word, skip in SKIPS.items():
        yield Explanation(word=word, sort="skip", meaning=skip.meaning, why=skip.why, todo=skip.todo)
    for name, metric in catalog.metrics().items():
        better = "" if metric.better == "neither" else f"; {metric.better} is better"
        meaning = metric.meaning or metric.title
        unit = f", in {metric.unit}" if metric.unit and metric.unit not in meaning else ""
        yield Explanation(
            word=name, sort="metric", meaning=f"{meaning}{unit}{better}", why=metric.why, todo=metric.todo
        )
    for axis, field in GridSpec.model_fields.items():
        if axis != "name":
            values = catalog.values(axis)
            yield Explanation(
                word=axis,
                sort="axis",
                meaning=str(field.description).rstrip("."),
                why=AXIS_REASONS[axis],
                todo=f"grids: - {axis}: [{', '.join(values)}]" if values else f"grids: - {axis}: [...]",
            )
    for path, part in (("protocol", ProtocolSpec), ("protocol.gate", GateSpec)):
        for name, field in part.model_fields.items():
            lead = (
                "A limit of the gate, which a device waits for. "
                * name.startswith(("max_", "min_"))
                * (part is GateSpec)
            )
            yield Explanation(
                word=name,
                sort="protocol",
                meaning=lead + str(field.description).rstrip("."),
                todo=f"{path}: {{{name}: ...}}",
            )
    for word, (meaning, why, todo) in terms.TERMS.items():
        yield Explanation(word=word, sort="term", meaning=meaning, why=why, todo=todo)
