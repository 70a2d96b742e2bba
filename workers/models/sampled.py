"""What the original answered to a sample of labelled images, as two processes exchange it. No torch."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sweeps.ranking.reference_causes import Answers, Inputs

_MOST_OUTPUTS = 10_000_000
_LONGEST_NAME = 200


@dataclass(frozen=True, slots=True)
class Sampled:
    """What an original answered, and how the images were prepared."""

    answers: Answers
    inputs: Inputs

    def document(self) -> dict[str, Any]:
        """As JSON takes it; `sampled` reads it."""
        answers, inputs = self.answers, self.inputs
        return {
            "labels": list(answers.labels),
            "given": list(answers.given),
            "outputs": answers.outputs,
            "classes": list(answers.classes),
            "low": inputs.low,
            "high": inputs.high,
            "better": inputs.better,
            "better_percent": inputs.better_percent,
        }


def sampled(told: Mapping[str, Any]) -> Sampled:
    """Raises `KeyError`, `TypeError`, `ValueError` or `OverflowError` for what is no `Sampled.document`, which the
    user's code may have written."""
    labels, given = ([int(number) for number in told[name]] for name in ("labels", "given"))
    outputs, percent = int(told["outputs"]), told["better_percent"]
    if not labels or len(labels) != len(given) or not 1 <= outputs <= _MOST_OUTPUTS:
        raise ValueError("answers that belong to no images")
    if not all(0 <= answer < outputs for answer in given) or not all(0 <= label < _MOST_OUTPUTS for label in labels):
        raise ValueError("answers or labels that are no classes")
    return Sampled(
        Answers(
            labels=labels,
            given=given,
            outputs=outputs,
            classes=tuple(str(name)[:_LONGEST_NAME] for name in told["classes"]),
        ),
        Inputs(
            low=float(told["low"]),
            high=float(told["high"]),
            better=str(told["better"]),
            better_percent=None if percent is None else float(percent),
        ),
    )
