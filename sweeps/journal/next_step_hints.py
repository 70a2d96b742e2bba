"""The parts of a sweep file that a ranking needs besides the objective."""

from functools import partial

from sweeps.planning.size import seconds_anew
from sweeps.ranking.provisional import NextStepHints
from sweeps.spec.model_inputs import most_images
from sweeps.spec.sweep import SweepSpec


def hints_of(spec: SweepSpec) -> NextStepHints:
    return NextStepHints(most_images=most_images(spec.data), seconds=partial(seconds_anew, spec))
