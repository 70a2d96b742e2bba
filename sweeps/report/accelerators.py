"""Which accelerator supports which operators of a model, per phone and precision: for a terminal and as JSON. Pure.

An operator that a driver accepts need not run there: NNAPI divides a model among all accelerators that accept parts
of it, and does not report how.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from rich.table import Table

from sweeps.nnapi_answers import Accelerator, Answer
from sweeps.report.tables import cells, new_table

NOTHING = "–"


def refused(answer: Answer, accelerator: Accelerator) -> Counter[str]:
    """The operators that the accelerator does not accept, with their number of uses in the model."""
    return Counter(name for name, taken in zip(answer.operations, accelerator.accepts, strict=True) if not taken)


def accepted_text(answer: Answer, accelerator: Accelerator) -> str:
    """`12 of 13 (not: SOFTMAX)`; `0 of 13` if it accepts nothing."""
    missing = refused(answer, accelerator)
    accepted = len(answer.operations) - missing.total()
    text = f"{accepted} of {len(answer.operations)}"
    names = (name if count == 1 else f"{name} ×{count}" for name, count in sorted(missing.items()))
    return f"{text} (not: {', '.join(names)})" if missing and accepted else text


def table(answers: Sequence[Answer]) -> Table:
    """One line per accelerator, or one line if the phone reports none."""
    made = new_table(
        "Accelerators of NNAPI, and the operators that their drivers accept",
        *("phone", "model", "numbers", "supported by", "type", "driver", ">level", "operations accepted"),
    )
    for answer in answers:
        place = f"{answer.device} {answer.phone}", answer.model, answer.precision
        said = answer.note or ("" if answer.accelerators else "NNAPI reports no accelerator")
        if answer.reference:
            said = f"{said}; the reference library accepts:"
        if said:
            made.add_row(*cells(*place, *[NOTHING] * 4, said))
        for one in answer.accelerators:
            name = f"{one.name} (reference library)" if answer.reference else one.name
            accepted = accepted_text(answer, one)
            made.add_row(*cells(*place, name, one.type, one.version, one.feature_level, accepted))
    return made


def document(answers: Sequence[Answer]) -> dict[str, Any]:
    """`edgesweep devices accelerators --json`."""
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
                        "name": one.name,
                        "type": one.type,
                        "version": one.version,
                        "feature_level": one.feature_level,
                        "accepted": dict(Counter(answer.operations) - refused(answer, one)),
                        "not_accepted": dict(refused(answer, one)),
                    }
                    for one in answer.accelerators
                ],
                "reference": answer.reference,
                "note": answer.note,
            }
            for answer in answers
        ]
    }
