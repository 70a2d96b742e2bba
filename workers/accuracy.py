"""Accuracy on the host, by one function for every device, from the logits that a runner wrote."""

import math

import numpy as np

from workers.runtimes.interface import Logits


def sqnr_db(reference: Logits, answer: Logits) -> float | None:
    """Signal to quantization-noise ratio of `answer` against `reference`, both (N, classes), in dB.

    `None` where both are equal to the bit, and where the ratio is no finite number (a zero reference, NaN or
    infinity in `answer`).
    """
    if np.array_equal(reference, answer):
        return None
    signal = np.sum(np.square(reference, dtype=np.float64))
    noise = np.sum(np.square(np.subtract(reference, answer, dtype=np.float64)))
    if not (np.isfinite(noise) and signal > 0.0 and noise > 0.0):
        return None
    return 10.0 * math.log10(signal / noise)
