"""The programs that run the user's code, each in a separate process. They reply by files in one folder."""

import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from sweeps.errors import DataError
from sweeps.spec.model_inputs import DataSpec, FolderData, TorchvisionData
from workers.models import making, sampling, weights
from workers.models.data_sources import torchvision_sets
from workers.models.decoding import check_ends, content_of, decoded
from workers.models.repeats import check_repeats
from workers.models.request_folder import Request
from workers.models.uncompiled import uncompiled

MOST_PROBLEMS = 5
SAMPLE_S = 5.0
"""The seconds for preparing labelled images, and again for running the model on them."""
_TOLD_EACH = 100


def make(request: Request) -> None:
    model, code, workspace, images = request.read()
    packed = making.packed(model, code, workspace, request.tell)
    logits = None if images is None else making.reference_logits(packed, images, request.tell)
    request.reply_made(packed, logits)


def try_model(request: Request) -> None:
    """Load a model, and run it on a few images; and, if the request has `data`, on labelled images."""
    model, code, _, _ = request.read()
    named = request.read_inputs().get("data")
    data = None if named is None else DataSpec.model_validate_json(json.dumps(named))
    # The images are read before any of the model's code runs.
    sample = None if data is None else sampling.labelled_sample(data, model.input_shape, SAMPLE_S)
    network, weights_text = making.constructed(model, code)
    classes = weights.check(network, model.input_shape, model.name, random=False)
    check_repeats(network, model.input_shape, model.name)
    answer: dict[str, object] = {
        "classes": classes,
        "parameters": sum(parameter.numel() for parameter in network.parameters()),
        "weights_text": weights_text,
    }
    if data is not None and sample is not None:
        source = data.evaluation
        normalized = (source.mean, source.std) if isinstance(source, FolderData | TorchvisionData) else None
        batch = model.input_shape[0]

        def tell() -> None:
            request.tell(f"{model.name} on images with labels", None)

        answer["sample"] = sampling.answered(network, sample, batch, SAMPLE_S, normalized, tell).document()
    request.reply(answer)


def try_images(request: Request) -> None:
    """Open all listed files: decode the first ones, until the seconds of the request are over, and read only the
    beginning and the end of the others.

    `one_size`: the size of all images that can be read; empty if there are several sizes, or if opening stopped before
    the last image.
    """
    inputs = request.read_inputs()
    until_s = time.monotonic() + inputs["seconds"]
    problems: list[dict[str, str]] = []
    sizes: list[tuple[int, int]] = []
    opened = whole = 0
    for name in inputs["files"]:
        try:
            if not whole or time.monotonic() < until_s:
                sizes.append(decoded(content_of(Path(name)), name).size)
                whole += 1
            else:
                sizes.append(check_ends(Path(name)))
            opened += 1
        except OSError as error:
            problems.append(
                {"message": f"{name} cannot be read: {error.strerror}", "next_step": "replace or remove it"}
            )
        except DataError as error:
            problems.append({"message": error.message, "next_step": error.next_step})
        if len(problems) >= MOST_PROBLEMS:
            break
        if opened % _TOLD_EACH == 0:
            request.tell("images", None)
    all_seen = len(sizes) + len(problems) == len(inputs["files"])
    sides, one_size = sorted(map(min, sizes)), sizes[0] if all_seen and len(set(sizes)) == 1 else ()
    side = sides[len(sides) // 2] if sides else 0
    request.reply({"opened": opened, "whole": whole, "side": side, "one_size": one_size, "problems": problems})


def try_set(request: Request) -> None:
    """Open a torchvision data set that is on this disk, and its first image. Downloads nothing."""
    torchvision_data = torchvision_sets()
    inputs = request.read_inputs()
    name, root = inputs["dataset"], Path(inputs["root"])
    try:
        dataset = torchvision_data.opened(name, root, held_out=inputs["held_out"], download=False)
    except DataError:
        if not torchvision_data.downloads(name):
            raise
        request.reply({"images": 0, "classes": None})
        return
    torchvision_data.item(dataset, 0, name)[0].load()
    request.reply({"images": len(dataset), "classes": torchvision_data.classes_of(dataset)})


def program(run: Callable[[Request], None]) -> Callable[[list[str]], int]:
    """Return a program that gets its folder as its only argument, and answers with an error if `run` raises one."""

    def run_in(argv: list[str]) -> int:
        folder = Path(argv[0])
        # The files that the user's code leaves behind are deleted with the folder.
        os.environ["TMPDIR"] = tempfile.tempdir = str(folder)
        request = Request(folder)
        try:
            with uncompiled():
                run(request)
        except Exception as error:  # noqa: BLE001  # any: it is the user's code
            request.refuse(error)
        return 0

    return run_in


PROGRAMS = {run.__name__: program(run) for run in (make, try_model, try_images, try_set)}
