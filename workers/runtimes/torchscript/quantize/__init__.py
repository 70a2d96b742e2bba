"""int8 in three separate steps: `prepare` (quick), `calibrate` (expensive) and `convert`.

Scheme      method x engine x granularity: one way to quantize (torch-free, in `torchscript.scheme`)
prepare     the user's model with observers, and what was fused
calibrate   the tensors that the observers (and the fine-tune of qat) found
convert     the int8 model, float in and out, from what `prepare` and `calibrate` gave
"""

from workers.runtimes.torchscript.quantize.prepared import Prepared
from workers.runtimes.torchscript.quantize.steps import calibrate, convert, prepare
from workers.runtimes.torchscript.scheme import Scheme

__all__ = ["Prepared", "Scheme", "calibrate", "convert", "prepare"]
