"""The accelerators that support the operators of a model, per phone and precision: for a terminal and as JSON. Pure.

A driver may accept an operator without running it: NNAPI divides a model among all accelerators that accept parts of
it, and does not report how.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from rich.table import Table

from sweeps.nnapi_answers import Accelerator, Answer
from sweeps.report.terminal_tables import cells, new_table

NOTHING = "–"


def refused(answer: Answer, accelerator: Accelerator) -> Counter[str]:
    """Return the operators that the accelerator does not accept, with how often the model uses each."""
    return Counter(
        name for name, is_accepted in zip(answer.operations, accelerator.accepts, strict=True) if not is_accepted
    )


def accepted_text(answer: Answer, accelerator: Accelerator) -> str:
    """Return the accepted operators as text like `12 of 13 (not: SOFTMAX)`; `0 of 13` if the accelerator accepts
    nothing."""
    missing = refused(answer, accelerator)
    accepted = len(answer.operations) - missing.total()
    text = f"{accepted} of {len(answer.operations)}"
    names = (name if count == 1 else f"{name} ×{count}" for name, count in sorted(missing.items()))
    return f"{text} (not: {', '.join(names)})" if missing and accepted else text


def table(answers: Sequence[Answer]) -> Table:
    """Return a table with one line per accelerator, or one line if the phone reports none."""
    lines = new_table(
        "Accelerators of NNAPI, and the operators that their drivers accept",
        *("phone", "model", "numbers", "supported by", "type", "driver", ">level", "operations accepted"),
    )
    for answer in answers:
        place = f"{answer.device} {answer.phone}", answer.model, answer.precision
        note = answer.note or ("" if answer.accelerators else "NNAPI reports no accelerator")
        if answer.reference:
            note = f"{note}; the reference library accepts:"
        if note:
            lines.add_row(*cells(*place, *[NOTHING] * 4, note))
        for accelerator in answer.accelerators:
            name = f"{accelerator.name} (reference library)" if answer.reference else accelerator.name
            accepted = accepted_text(answer, accelerator)
            lines.add_row(
                *cells(*place, name, accelerator.type, accelerator.version, accelerator.feature_level, accepted)
            )
    return lines


def document(answers: Sequence[Answer]) -> dict[str, Any]:
    """Return the document of `edgesweep devices accelerators --json`."""
    return {
        "answers": [
            {
                "phone": answer.phone,
                "device": answer.device,
                "device_id": answer.device_id,
                "model": answer.model,
                "precision": answer.precision,
                "variant": answer.variant,
                "operations": dict(Counter(answer.operations)),
                "supported_by": [
                    {
                        "name": accelerator.name,
                        "type": accelerator.type,
                        "version": accelerator.version,
                        "feature_level": accelerator.feature_level,
                        "accepted": dict(Counter(answer.operations) - refused(answer, accelerator)),
                        "not_accepted": dict(refused(answer, accelerator)),
                    }
                    for accelerator in answer.accelerators
                ],
                "reference": answer.reference,
                "note": answer.note,
            }
            for answer in answers
        ]
    }
