"""What the original answered to a sample of labelled images, as two processes exchange it. No torch."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sweeps.ranking.reference_causes import Answers, Inputs


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
    """Raises `KeyError`, `TypeError` or `ValueError` for what no `Sampled.document` is: user code ran beside it."""
    labels, given = ([int(number) for number in told[name]] for name in ("labels", "given"))
    outputs, percent = int(told["outputs"]), told["better_percent"]
    if not labels or len(labels) != len(given) or outputs < 1 or not all(0 <= one < outputs for one in given):
        raise ValueError("answers that belong to no images")
    return Sampled(
        Answers(labels=labels, given=given, outputs=outputs, classes=tuple(map(str, told["classes"]))),
        Inputs(
            low=float(told["low"]),
            high=float(told["high"]),
            better=str(told["better"]),
            better_percent=None if percent is None else float(percent),
        ),
    )
