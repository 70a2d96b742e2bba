"""Quantization to int8 in three separate steps: `prepare` (fast), `calibrate` (expensive) and `convert`.

Scheme      method x engine x granularity: one way to quantize (torch-free, in `torchscript.scheme`)
prepare     the user's model with observers, and its fused groups
calibrate   the tensors from the observers (and from fine-tuning in qat)
convert     the int8 model with float input and output, from the results of `prepare` and `calibrate`
"""

from workers.runtimes.torchscript.quantize.prepared import Prepared
from workers.runtimes.torchscript.quantize.steps import calibrate, convert, prepare
from workers.runtimes.torchscript.scheme import Scheme

__all__ = ["Prepared", "Scheme", "calibrate", "convert", "prepare"]
