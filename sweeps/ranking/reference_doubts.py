"""Whether the original, the fp32 eager model as its author wrote it, is right on labelled images. Pure; answers in.

No figure of a build shows that: a build that answers like an original at chance has lost nothing. So if the original is
not shown to know its labels, no constraint on accuracy counts as kept (`sweeps.ranking.eligibility`). Each doubt has
the name of a trust label (`sweeps.label_kinds`), its figures in fields, and a sentence with the likely cause and the
next step.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from sweeps.distributions import binomial_tail
from sweeps.ranking.accuracy_bound import ERROR, side
from sweeps.ranking.reference_causes import Answers, Inputs, likely_cause, of_number, sort_step
from sweeps.spec.folder_levels import MOST_CLASSES, Levels
from sweeps.stats import share_interval
from sweeps.text import some

Code = Literal[
    "reference_at_chance", "reference_one_answer", "reference_other_order", "reference_other_classes", "reference_split"
]

FAR_BEYOND_POINTS = 15.0
"""One answer is in doubt if it is shown to be given more often than its label occurs, by this many points of the
images: at least as many images are then wrong."""
_LEAST_CHANCE = 1e-300
_MORE_IMAGES = 4
"""There are too few images if this many times as many, with the same share of right answers, would show that the
original is better than chance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """How often the original is right, and how often an answer that ignores the image would be."""

    images: int
    right: int
    top1_percent: float
    low_percent: float
    """The ends of the 95 % interval are `low_percent` and `high_percent`."""
    high_percent: float
    most_frequent: str
    """The name of the label that most images have."""
    most_frequent_percent: float
    chance_percent: float
    """The share of right answers when guessing among all outputs."""

    @property
    def text(self) -> str:
        """One line for people."""
        return (
            f"top-1 {self.top1_percent:.1f} % ({self.low_percent:.1f} to {self.high_percent:.1f}) on {self.images} "
            f"image{'s' * (self.images > 1)}; always {self.most_frequent}: {self.most_frequent_percent:.1f} %, "
            f"guessing among all outputs: {self.chance_percent:.1f} %"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """A reason to doubt the original's accuracy."""

    code: Code
    message: str
    next_step: str
    figures: Mapping[str, float] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """One line for people."""
        return f"{self.message} ({self.next_step})"


def figure(answers: Answers) -> Figure:
    """Return the figure from the answers on at least one image."""
    images = len(answers.labels)
    right = sum(label == answer for label, answer in zip(answers.labels, answers.predicted, strict=True))
    counts = Counter(answers.labels)
    label = min(counts, key=lambda label: (-counts[label], label))
    low, high = share_interval(right, images)
    return Figure(
        images=images,
        right=right,
        top1_percent=100 * right / images,
        low_percent=100 * low,
        high_percent=100 * high,
        most_frequent=answers.name(label),
        most_frequent_percent=100 * counts[label] / images,
        chance_percent=100 / answers.outputs,
    )


def doubts(answers: Answers, levels: Levels | None = None, inputs: Inputs | None = None) -> tuple[Doubt, ...]:
    """Return all doubts about the original; empty if it knows its labels. `levels`: of the folder of the images."""
    if not answers.labels:
        return ()
    top1 = figure(answers)
    at_chance = is_at_chance(answers)
    # If the folders are not classes, their order and number mean nothing.
    order = {} if levels is not None and levels.doubted else _other_order(answers)
    return (
        *_at_chance(answers, top1, levels, inputs, order, at_chance=at_chance),
        *_one_answer(answers, levels, inputs),
        *_order_doubt(answers, order),
        *_other_classes(answers, levels, at_chance=at_chance),
        *_split(answers, levels, at_chance=at_chance),
    )


def is_at_chance(answers: Answers) -> bool:
    """Tell whether the original is not shown at 5 % to be right more often than a constant answer with the most
    frequent label."""
    top1 = figure(answers)
    return binomial_tail(top1.right, top1.images, top1.most_frequent_percent / 100) > ERROR


def _at_chance(
    answers: Answers,
    top1: Figure,
    levels: Levels | None,
    inputs: Inputs | None,
    order: Mapping[int, int],
    *,
    at_chance: bool,
) -> Iterator[Doubt]:
    if not at_chance:
        return
    cause, step = likely_cause(answers, levels, inputs)
    if order and answers.outputs == answers.folders:
        cause, step = "the classes stand in another order", sort_step(answers)
    share = top1.most_frequent_percent / 100
    finding = "the original itself is at chance"
    if binomial_tail(_MORE_IMAGES * top1.right, _MORE_IMAGES * top1.images, share) <= ERROR:
        finding = "the original is not shown to be better than chance"
        cause, step = "too few images to tell", "evaluate on more images"
    yield Doubt(
        code="reference_at_chance",
        message=f"{finding}: {top1.top1_percent:.1f} % of {top1.images} images are right, "
        f"always {top1.most_frequent} would be {top1.most_frequent_percent:.1f} %; likely cause: {cause}",
        next_step=step,
        figures={"images": top1.images, "top1_percent": top1.top1_percent, "chance_percent": top1.chance_percent}
        | {"most_frequent_percent": top1.most_frequent_percent},
    )


def _one_answer(answers: Answers, levels: Levels | None, inputs: Inputs | None) -> Iterator[Doubt]:
    images = len(answers.labels)
    answer, times = Counter(answers.predicted).most_common(1)[0]
    labelled = sum(label == answer for label in answers.labels)
    pairs = list(zip(answers.labels, answers.predicted, strict=True))
    wrongly = sum(label != answer == answered for label, answered in pairs)
    missed = sum(label == answer != answered for label, answered in pairs)
    if side(wrongly, missed, images, FAR_BEYOND_POINTS) != "above":
        return
    cause, step = likely_cause(answers, levels, inputs)
    yield Doubt(
        code="reference_one_answer",
        message=f"the original answers {answers.name(answer)} for {100 * times / images:.1f} % of {images} images, and "
        f"{100 * labelled / images:.1f} % have that label; likely cause: {cause}",
        next_step=step,
        figures={"images": images, "given_percent": 100 * times / images, "label_percent": 100 * labelled / images},
    )


def _order_doubt(answers: Answers, order: Mapping[int, int]) -> Iterator[Doubt]:
    if not order:
        return
    moves = [f"{answers.name(label)} is answered as {answers.name(answer)}" for label, answer in sorted(order.items())]
    right = sum(
        order.get(label, label) == answer for label, answer in zip(answers.labels, answers.predicted, strict=True)
    )
    percent = 100 * right / len(answers.labels)
    yield Doubt(
        code="reference_other_order",
        message="the classes seem to stand in another order than in training: "
        f"{some(moves, MOST_CLASSES)}; in that order {percent:.1f} % of {len(answers.labels)} images are right",
        next_step=sort_step(answers),
        figures={"images": len(answers.labels), "moved": len(order), "right_percent": percent},
    )


def _other_classes(answers: Answers, levels: Levels | None, *, at_chance: bool) -> Iterator[Doubt]:
    """Yield the doubt that the numbers of outputs and folders differ, unless the answers fit: a model may know more
    classes."""
    if answers.outputs == answers.folders or not (at_chance or _contradicted(answers)):
        return
    cause, step = of_number(answers, levels)
    yield Doubt(
        code="reference_other_classes",
        message=f"the model has {answers.outputs} outputs, there are {answers.folders} folders, and its answers do not "
        f"fit the first {answers.folders} of its classes; likely cause: {cause}",
        next_step=step,
        figures={"outputs": answers.outputs, "folders": answers.folders},
    )


def _contradicted(answers: Answers) -> bool:
    """Tell whether images of some label are shown to be answered as another class more often than as that label's
    class."""
    cells = Counter(zip(answers.labels, answers.predicted, strict=True))
    level = ERROR / answers.folders
    return any(
        binomial_tail(count, count + cells[label, label], 0.5) <= level
        for (label, answer), count in cells.items()
        if label != answer
    )


def _split(answers: Answers, levels: Levels | None, *, at_chance: bool) -> Iterator[Doubt]:
    """Yield the doubt that folders are not classes, judging by their names, unless most images of each are answered as
    one class: a class may be named train."""
    if levels is None or not levels.what:
        return
    suspected = [label for label, name in enumerate(answers.classes) if not levels.splits or name in levels.splits]
    counts = Counter(answers.labels)
    right = Counter(label for label, answer in zip(answers.labels, answers.predicted, strict=True) if label == answer)
    if not at_chance and all(2 * right[label] > counts[label] for label in suspected if counts[label]):
        return
    yield Doubt(
        code="reference_split",
        message=levels.what,
        next_step=levels.next_step,
        figures={"splits": len(levels.splits), "folders": len(levels.inner)},
    )


def _other_order(answers: Answers) -> dict[int, int]:
    """Return, for each label that seems to be in another position, the class that is answered for it, if this map fits
    the answers far better; else empty.

    The map uses the most frequent pairs first, and each answer only once. Under the right order, each label's own class
    is at least as likely an answer as the map's: a sign test over the images of all labels that the map moves, at 5 %
    over all maps of that many labels.
    """
    cells = Counter(zip(answers.labels, answers.predicted, strict=True))
    mapped: dict[int, int] = {}
    used: set[int] = set()
    for (label, answer), _ in sorted(cells.items(), key=lambda cell: (-cell[1], cell[0][0] != cell[0][1], cell[0])):
        if label not in mapped and answer not in used:
            mapped[label] = answer
            used.add(answer)
    moved = {label: answer for label, answer in mapped.items() if cells[label, answer] > cells[label, label]}
    if len(moved) < 2:  # A single class that is answered as another one is an ordinary mistake.
        return {}
    fitting = sum(cells[pair] for pair in moved.items())
    own = sum(cells[label, label] for label in moved)
    images = sum(count for (label, _), count in cells.items() if label in moved)
    if 2 * fitting <= images:
        return {}
    by_accident = math.log(max(binomial_tail(fitting, fitting + own, 0.5), _LEAST_CHANCE))
    return moved if by_accident + len(moved) * math.log(answers.outputs) <= math.log(ERROR) else {}
