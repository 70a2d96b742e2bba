"""The words of results that are in no catalog: terms, and other names that pages use for entries of a catalog."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from sweeps.spec import catalog
from sweeps.spec.grid import GridSpec

TERMS: Mapping[str, tuple[str, str, str]] = MappingProxyType(
    {
        "job": ("one variant on one device, run in one way (threads, CPUs, input): a row of a ranking", "", ""),
        "variant": (
            "a model with one value for each axis that its file depends on; pages also call it a build",
            "",
            "vary more or less of them: grids",
        ),
        "block": ("one fresh process that warms up, and then times many inferences", "", "protocol: min_seconds"),
        "verdict": (
            "whether a build may win: pass, unresolved, fail, disqualified or eliminated, each explained",
            "",
            "",
        ),
        "interval": (
            "the 95 % interval: what new processes would lie around, in 95 of 100 such intervals; the ranking makes it "
            "from the spread of all builds, a job's own interval is made of its rounds alone; that of a race's winner "
            "is about the build after blocks of its own, as in an app that runs nothing else",
            "edgesweep explain protocol says which file and page has which",
            "a narrower one: raise protocol.rounds, keep the device idle",
        ),
        "paired_ratio": (
            "the latency divided by the winner's in the same rounds: the median of these ratios. It decides who is "
            "told apart; a p50 is over all rounds, so the quotient of two p50s may be another figure",
            "",
            "",
        ),
        "trust": (
            "labels that say how far a time can be trusted; with a disqualifying one nothing wins",
            "",
            "edgesweep explain LABEL says what to do about each",
        ),
        "front": (
            "on the Pareto front: no other build beats it in both the objective and the metric of objective.front",
            "",
            "objective: front",
        ),
        "objective": ("the metric that decides who wins, and the constraints that a winner must keep", "", "objective"),
        "constraint": (
            "a bound that a winner must keep, shown at 95 %",
            "",
            "objective.constraints: [{metric: ..., at_most: ...}]",
        ),
        "reference": (
            "your own fp32 model on this computer: what accuracy is compared with; for a backend that this computer "
            "only checks, the program that gives its answers",
            "",
            "",
        ),
        "only_checked": (
            "a reference implementation on this computer gave its answers: it has an accuracy, and no time",
            "the device cannot run its backend",
            "name a device that can under devices",
        ),
        "delegated": (
            "given to the backend; the rest of the model runs in slow kernels",
            "the backend lacks an operator",
            "another backend in grids",
        ),
        "budget": (
            "how device time is spent: full measures every build to the end; race ends builds early that cannot be the "
            "best any more; device_minutes: N races within that time",
            "",
            "budget: full, race, or {device_minutes: N}",
        ),
        "sentinel": (
            "a small built-in model that is timed between blocks, to notice a device that changes its speed",
            "",
            "protocol.sentinel_every",
        ),
        "settle": (
            "to measure what is tied for the first place in more rounds, until it is told apart or shown to be equal",
            "",
            "edgesweep run SWEEP.yaml --settle ROUNDS",
        ),
    }
)
"""The meaning, the reason, and what to do, for each term."""

_ALSO: Mapping[str, str] = MappingProxyType(
    {
        "95 % interval": "interval",
        "paired by round": "paired_ratio",
        "build": "variant",
        "round": "rounds",
        "constraints": "constraint",
        "checked by": "reference",
        "doubts": "trust",
        "race": "budget",
        "full": "budget",
        "quick": "preset",
        "device minutes": "budget",
        "tied": "unresolved",
        "pending": "waiting",
        "fused": "fuse",
        "not fused": "fuse",
        "optimized": "optimize",
        "not optimized": "optimize",
        "scripted": "capture",
        "traced": "capture",
        "partly traced": "capture",
        "trained quantized": "quantization",
        "static, eager mode": "quantization",
        "full format": "format",
        "lite format": "format",
        "any batch": "flexible_batch",
        "input reused": "reuse_input",
        "reused input": "reuse_input",
        "fresh input": "reuse_input",
        "cores": "cpus",
        "thread": "threads",
    }
)


def meant_by_name() -> dict[str, str]:
    """Return the word with an explanation for each other name."""
    return {name: metric.name for metric in catalog.metrics().values() for name in metric.also} | dict(_ALSO)


def key(word: str) -> str:
    """Return a key that is equal for spellings of the same word: `top-1` and `Top 1`."""
    return "_".join("".join(char if char.isalnum() else " " for char in word.lower()).split())


def also(word: str) -> Iterator[str]:
    """Yield the words whose explanations apply to `word`, as it appears on a page or in a file; none if it is not
    known.

    A value of an axis is explained with the axis, and a runner's own metric, `extra_NAME` in a table, as `NAME`.
    """
    word_key = key(word)
    called = {key(name): meant for name, meant in meant_by_name().items()}
    yield word_key.removeprefix("extra_")
    if word_key in called:
        yield called[word_key]
    yield from (axis for axis in GridSpec.model_fields if word_key in map(key, catalog.values(axis)))


def called(word: str) -> list[str]:
    """Return the other names of a word on pages and in tables."""
    return [name for name, meant in meant_by_name().items() if meant == word]


def names() -> list[str]:
    """Return all other names, for suggestions."""
    return [*meant_by_name()]
