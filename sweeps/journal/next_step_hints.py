"""The parts of a sweep file that a ranking needs beside the objective."""

from functools import partial

from sweeps.planning.size import seconds_anew
from sweeps.ranking.provisional import Told
from sweeps.spec.model_inputs import most_images
from sweeps.spec.sweep import SweepSpec


def told_by(spec: SweepSpec) -> Told:
    return Told(most_images=most_images(spec.data), seconds=partial(seconds_anew, spec))
