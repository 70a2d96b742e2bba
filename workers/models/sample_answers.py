"""The original's answers to a sample of labelled images, as two processes exchange them. No torch."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sweeps.ranking.reference_causes import Answers, Inputs

_MOST_OUTPUTS = 10_000_000
_LONGEST_NAME = 200


@dataclass(frozen=True, slots=True)
class Sampled:
    """The original's answers to the sampled images, and how these images were prepared."""

    answers: Answers
    inputs: Inputs

    def document(self) -> dict[str, Any]:
        """Return the values in types of JSON, from which `sampled` builds the object again."""
        answers, inputs = self.answers, self.inputs
        return {
            "labels": list(answers.labels),
            "given": list(answers.predicted),
            "outputs": answers.outputs,
            "classes": list(answers.classes),
            "low": inputs.low,
            "high": inputs.high,
            "better": inputs.better,
            "better_percent": inputs.better_percent,
        }


def sampled(document: Mapping[str, Any]) -> Sampled:
    """Return the object whose `document()` is given. Raises `KeyError`, `TypeError`, `ValueError` or `OverflowError`
    for any other values, which the user's code may have written."""
    labels, predicted = ([int(number) for number in document[name]] for name in ("labels", "given"))
    outputs, percent = int(document["outputs"]), document["better_percent"]
    if not labels or len(labels) != len(predicted) or not 1 <= outputs <= _MOST_OUTPUTS:
        raise ValueError("answers that belong to no images")
    if not all(0 <= answer < outputs for answer in predicted) or not all(
        0 <= label < _MOST_OUTPUTS for label in labels
    ):
        raise ValueError("answers or labels that are no classes")
    return Sampled(
        Answers(
            labels=labels,
            predicted=predicted,
            outputs=outputs,
            classes=tuple(str(name)[:_LONGEST_NAME] for name in document["classes"]),
        ),
        Inputs(
            low=float(document["low"]),
            high=float(document["high"]),
            better=str(document["better"]),
            better_percent=None if percent is None else float(percent),
        ),
    )
