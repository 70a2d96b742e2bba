"""What of a traced graph can become NNAPI operations: the list of all converters, by the operator's kind.

Each takes the serializer and the node. It raises `Refused`, or anything else, where the operator cannot be converted
as it is used; the serializer names both.
"""

from workers.runtimes.torchscript.nnapi.elements import ELEMENTS
from workers.runtimes.torchscript.nnapi.reductions import REDUCTIONS
from workers.runtimes.torchscript.nnapi.serializer import Converter
from workers.runtimes.torchscript.nnapi.shapes import SHAPES
from workers.runtimes.torchscript.nnapi.windows import WINDOWS

CONVERTERS: dict[str, Converter] = {**WINDOWS, **ELEMENTS, **REDUCTIONS, **SHAPES}
