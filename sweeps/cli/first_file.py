"""The text of a first sweep file, from the user's answers and facts about the model and images, with a comment for each
choice."""

import json
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sweeps.spec.model_inputs import Argument
from workers.first_look import Model
from workers.models.images import InputShape

_CALIBRATION_IMAGES = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """Answers that the user gave to `edgesweep init`."""

    model: str
    weights: str
    arguments: Mapping[str, Argument]
    images: str
    devices: tuple[str, ...]
    weights_key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """Folder of images, with its path as the sweep file has it."""

    path: str
    images: int
    classes: tuple[str, ...]
    size: tuple[int, ...]
    """Width and height of the images; empty if the images of the folder differ in size."""
    problems: tuple[str, ...]


def sweep_text(answers: Answers, model: Model, folders: Sequence[Folder]) -> str:
    """Return the text of a sweep file with comments."""
    name = answers.model.rpartition(":")[2].replace("_", "-").strip("-") or "my-model"
    lines = [
        "# yaml-language-server: $schema=sweep.schema.json",
        "# Written by `edgesweep init`. `edgesweep plan --check` on this file tries it, `edgesweep run` measures it.",
        "# Every key: `edgesweep schema`. Every axis, metric and label: `edgesweep explain WORD`.",
        f"name: {_flow(name)}",
        "",
        "models:",
        f"  - source: {_flow(answers.model)}",
    ]
    if answers.arguments:
        lines.append(f"    arguments: {_flow(dict(answers.arguments))}")
    lines += [
        f"    weights: {_flow(answers.weights)}" + _weights_comment(answers.weights),
        *([f"    weights_key: {_flow(answers.weights_key)}"] if answers.weights_key else []),
        "    # Batch, channels, height, width, as in your training"
        + (f"; it takes other sizes too, such as {model.other_sizes[0]}." if model.other_sizes else "."),
        f"    input_shape: {_flow(list(model.input_shape))}",
        f"    # It answers {model.classes} classes, with {model.parameters:,} parameters.",
        "",
        "data:",
        *_data(folders, model.input_shape),
        "",
        "grids:",
        *_grid(model),
        "",
        '# What measures: local is this computer; "adb:*" is every Android phone that is attached.',
        f"devices: {_flow(list(answers.devices))}",
        "",
        "# quick: 3 rounds, a first look. Left out: more than 8 variants race, fewer are measured to the end.",
        "protocol: {preset: quick}",
        "",
        "objective:",
        "  minimize: latency_p50_ms",
        *_constraints(bool(folders) and answers.weights != "random"),
    ]
    return "\n".join(lines) + "\n"


def _weights_comment(weights: str) -> str:
    comments = {
        "random": "  # then only speed means anything; better: the file of a checkpoint",
        "pretrained": "  # torchvision's, downloaded at the first run",
    }
    return comments.get(weights, "")


def _data(folders: Sequence[Folder], input_shape: InputShape) -> list[str]:
    if not folders:
        return [
            "  # Generated images without labels: give folders (source: folder, path: ...) to measure accuracy.",
            "  calibration: {source: synthetic, images: 32, seed: 1}",
            "  evaluation: {source: synthetic, images: 32, seed: 2}",
        ]
    first, last = folders[0], folders[-1]
    together = len(folders) == 1
    images = min(_CALIBRATION_IMAGES, max(1, first.images // 5)) if together else _CALIBRATION_IMAGES
    whole = all(folder.size == (input_shape[3], input_shape[2]) for folder in folders)
    crop = ", crop: false" if whole else ""
    scaled = (
        "All have the size of the input, so nothing is scaled or cut off (crop: false)."
        if whole
        else "They are scaled to 256/224 of the input and cropped, as torchvision does; crop: false only scales them."
    )
    return [
        f"  # Of {first.images} images in {len(first.classes)} classes. If you trained with another normalization than",
        "  # ImageNet's, give mean: [...] and std: [...] beside path, in both.",
        f"  # {scaled}",
        f"  calibration: {{source: folder, path: {_flow(first.path)}, images: {images}{crop}}}",
        "  # " + ("All images that calibration does not use." if together else f"{last.images} images."),
        f"  evaluation: {{source: folder, path: {_flow(last.path)}{crop}}}",
    ]


def _grid(model: Model) -> list[str]:
    captures = [way for way, closed in (("script", model.script), ("trace", model.trace)) if not closed] or ["mixed"]
    lines = ["  # All combinations of these are built and measured."]
    if not model.graph:
        numbers = "[fp32, int8]" if model.convolutions or model.linears else "[fp32]"
        lines.append(f"  - precision: {numbers}")
    elif model.linears:
        lines += [
            *_comment("  ", f"No fusing and no static int8: {model.graph}"),
            "  - precision: [fp32, int8]",
            "    quantization: [dynamic]  # linear layers only",
            "    fuse: [false]",
        ]
    else:
        lines += [
            *_comment("  ", f"No fusing and no int8: {model.graph}"),
            "  - precision: [fp32]",
            "    fuse: [false]",
        ]
    layouts = "[nchw, nhwc]" if model.convolutions else "[nchw]"
    lines += [f"    layout: {layouts}", *_closed(model), f"    capture: {_flow(captures)}"]
    return lines


def _closed(model: Model) -> list[str]:
    ways = (("script", model.script), ("trace", model.trace))
    return [line for way, closed in ways if closed for line in _comment("    ", f"{way} is closed: {closed}")]


def _constraints(labels: bool) -> list[str]:
    if not labels:
        return ["  constraints: []  # no accuracy without labels and trained weights"]
    return [
        "  constraints:",
        "    # Points of top-1 lost against your own fp32 model, on the same images.",
        "    - {metric: accuracy_drop_points, at_most: 1.0}",
    ]


def _flow(value: object) -> str:
    """Return a value as YAML on one line. JSON is valid YAML; only plain words go without quotes."""
    if isinstance(value, str):
        plain = value.replace("_", "a").replace("-", "a").replace(".", "a").replace("/", "a").isalnum()
        return value if plain and value[0].isalpha() and value.isascii() and _is_text(value) else json.dumps(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_flow(key)}: {_flow(part)}" for key, part in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, value)) + "]"
    return json.dumps(value)


def _is_text(word: str) -> bool:
    return word.lower() not in ("true", "false", "yes", "no", "on", "off", "null", "y", "n")


def _comment(indent: str, text: str) -> list[str]:
    return textwrap.wrap(
        text, 120, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}# ", max_lines=3, placeholder=" ..."
    )
