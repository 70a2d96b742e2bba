"""The program that looks at a model, in a separate process."""

import copy
import warnings
from collections.abc import Callable

import torch

from sweeps.errors import BuildError, ModelError, in_one_line
from workers.models import making, weights
from workers.models.images import InputShape, smooth_images
from workers.models.making_process import program, try_images, try_model
from workers.models.normal_form import normalized
from workers.models.repeats import check_repeats
from workers.models.request_folder import Request
from workers.runtimes.torchscript import capture
from workers.runtimes.torchscript.fuse import symbolic

_ENOUGH = 2
"""The number of sizes after which the search stops: it only matters whether there is a second one."""


def look(request: Request) -> None:
    model, code, _, _ = request.read()
    network, weights_text = making.constructed(model, code)
    network.requires_grad_(False)
    first = next((module for module in network.modules() if isinstance(module, torch.nn.Conv2d)), None)
    channels = None if first is None else first.in_channels
    accepted: list[InputShape] = []
    classes = 0
    refused: ModelError | None = None
    for batch, usual_channels, height, width in request.read_inputs()["shapes"]:
        shape = (batch, channels or usual_channels, height, width)
        request.tell(f"{model.name} with {shape}", None)
        try:
            outputs = weights.check(network, shape, model.name, random=False)
        except ModelError as error:
            refused = refused or error
            continue
        accepted.append(shape)
        classes = classes or outputs
        if len(accepted) >= _ENOUGH:
            break
    if not accepted:
        assert refused is not None
        raise refused
    check_repeats(network, accepted[0], model.name)
    images = torch.from_numpy(smooth_images(accepted[0][0], accepted[0], 0, 0))
    normal = normalized(copy.deepcopy(network), images)
    request.reply(
        {
            "input_shape": accepted[0],
            "other_sizes": [shape[2] for shape in accepted[1:]],
            "weights_text": weights_text,
            "classes": classes,
            "parameters": sum(parameter.numel() for parameter in network.parameters()),
            "convolutions": _count(network, torch.nn.Conv2d),
            "linears": _count(network, torch.nn.Linear),
            "script": _closed(lambda: capture.script(copy.deepcopy(normal))),
            "trace": _closed(lambda: capture.trace(copy.deepcopy(normal), images)),
            "graph": _closed(lambda: symbolic(copy.deepcopy(normal), images)),
        }
    )


def _count(network: torch.nn.Module, kind: type[torch.nn.Module]) -> int:
    return sum(isinstance(module, kind) for module in network.modules())


def _closed(convert: Callable[[], object]) -> str:
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        try:
            convert()
        except BuildError as error:
            return error.message
        except Exception as error:  # noqa: BLE001  # torch raises anything on a model that it cannot handle
            return in_one_line(error)[:300]
    return ""


PROGRAMS = {"look": program(look), "try_images": program(try_images), "try_model": program(try_model)}
