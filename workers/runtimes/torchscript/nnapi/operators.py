"""All converters from operators of a traced graph to NNAPI operations, by the operator's kind.

Each takes the serializer and the node. It raises `Refused`, or any other error, if the operator cannot be converted
with these arguments; the serializer reports the operator and the reason.
"""

from workers.runtimes.torchscript.nnapi.elements import ELEMENTS
from workers.runtimes.torchscript.nnapi.reductions import REDUCTIONS
from workers.runtimes.torchscript.nnapi.serializer import Converter
from workers.runtimes.torchscript.nnapi.shapes import SHAPES
from workers.runtimes.torchscript.nnapi.windows import WINDOWS

CONVERTERS: dict[str, Converter] = {**WINDOWS, **ELEMENTS, **REDUCTIONS, **SHAPES}
