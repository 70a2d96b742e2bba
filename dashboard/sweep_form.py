"""The fields of a sweep file that a form shows: read from its text, and written into it. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from dashboard.sweep_text import GONE, changed, flow, value_at, values
from sweeps.spec.yaml_source import Location
from sweeps.spec.yaml_text import dumped
from sweeps.text import digits

PRESETS = ("quick", "full", "race")
SIDES = (8, 2048)
MOST_THREADS, MOST_ROUNDS = 1024, 100
WITHOUT_TRUTH = {"minimize": "latency_p50_ms", "constraints": []}
"""The objective on synthetic images: nothing is known to be right on them."""
MORE = {
    "runtimes": "runtime",
    "quantizations": "quantization",
    "qengines": "qengine",
    "granularities": "granularity",
    "interfaces": "interface",
    "captures": "capture",
    "formats": "format",
    "preferences": "preference",
    "graph_optimizations": "graph_optimization",
    "cpus": "cpus",
}
"""Axes that few sweeps need, by their fields: a new sweep's file has none of them."""
AXES = {"precisions": "precision", "layouts": "layout", "backends": "backend", "threads": "threads", **MORE}
"""The axis of a grid that each field is."""
_MODEL: Location = ("models", 0)
_PLACES: Mapping[str, Location] = {
    "name": ("name",),
    "source": (*_MODEL, "source"),
    "arguments": (*_MODEL, "arguments"),
    "weights": (*_MODEL, "weights"),
    "side": (*_MODEL, "input_shape"),
    **{name: ("grids", 0, axis) for name, axis in AXES.items()},
    "devices": ("devices",),
    "preset": ("protocol", "preset"),
    "rounds": ("protocol", "rounds"),
    "gate": ("protocol", "gate"),
    "budget": ("budget",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepForm:
    """A form has the fields that most sweeps need. As it begins, it is a sweep of a model of EdgeSweep's own."""

    name: str = "my-sweep"
    source: str = "mobilenet_v2"
    arguments: str = "width_mult: 0.35, num_classes: 10"
    """The model's arguments, as YAML writes them in one line, without braces."""
    weights: str = "demo"
    """The model's weights: demo, random, pretrained, or the path of a checkpoint."""
    side: int = 64
    """The side of the square input, in pixels."""
    images: str = "digits"
    """The images: digits, synthetic, or the path of a folder."""
    precisions: Sequence[str] = ("fp32", "int8")
    layouts: Sequence[str] = ("nchw", "nhwc")
    backends: Sequence[str] = ("cpu",)
    threads: Sequence[int] = (1,)
    """The threads; an axis that is empty, here and below, is not in the file."""
    runtimes: Sequence[str] = ()
    quantizations: Sequence[str] = ()
    qengines: Sequence[str] = ()
    granularities: Sequence[str] = ()
    interfaces: Sequence[str] = ()
    captures: Sequence[str] = ()
    formats: Sequence[str] = ()
    preferences: Sequence[str] = ()
    graph_optimizations: Sequence[str] = ()
    cpus: Sequence[str] = ()
    devices: Sequence[str] = ("local",)
    preset: str = "quick"
    rounds: int | None = None
    """The number of rounds; `None`: as the preset has it; the empty texts of the next two mean the same."""
    gate: str = ""
    """The gate; none: nothing is waited for. Its limits are for the file."""
    budget: str = ""
    """The budget: full, race, or minutes on each device."""

    def text(self) -> str:
        """A sweep file with nothing else."""
        model: dict[str, Any] = {"name": "model", "source": self.source}
        if self.arguments.strip():
            model["arguments"] = _arguments(self.arguments)
        model |= {"weights": self.weights, "input_shape": [1, 3, self.side, self.side]}
        document = {
            "name": self.name,
            "models": [model],
            "data": {"calibration": _data(self.images, 100), "evaluation": _data(self.images, None)},
            "grids": [{axis: list(chosen) for name, axis in AXES.items() if (chosen := getattr(self, name))}],
            "devices": list(self.devices),
            "protocol": {name: value for name in _PROTOCOL if (value := getattr(self, name))},
        }
        if self.budget:
            document["budget"] = budget_value(self.budget)
        if self.images == "synthetic":
            document["objective"] = WITHOUT_TRUTH
        return dumped(document)


_PROTOCOL = ("preset", "rounds", "gate")
FIELDS = tuple(field.name for field in fields(SweepForm))


@dataclass(frozen=True, slots=True)
class Shown:
    """A sweep file as the form shows it."""

    form: SweepForm
    hidden: tuple[str, ...]
    """The fields that the file has in a way that the form cannot show: they stay as they are."""
    beside: tuple[str, ...]
    """The other parts of the file, in words."""


def read(text: str) -> Shown | None:
    """The form of a file, and what it cannot show; `None` if the text is not YAML with keys."""
    data = values(text)
    if data is None:
        return None
    entries: dict[str, Any] = {}
    for name in FIELDS:
        try:
            entries[name] = _images_of(data) if name == "images" else _READ[name](value_at(data, _PLACES[name]))
        except (ValueError, TypeError, KeyError):
            continue
    counts = {key: len(members) for key in ("models", "grids") if isinstance(members := data.get(key), list)}
    beside = [f"{count - 1} more {key}" for key, count in counts.items() if count > 1]
    beside += _axes_beside(data)
    beside += [
        str(key) for key in data if key not in ("name", "models", "data", "grids", "devices", "protocol", "budget")
    ]
    return Shown(SweepForm(**entries), tuple(name for name in FIELDS if name not in entries), tuple(beside))


def _axes_beside(data: Any) -> list[str]:
    """The axes of the form's grid that have no field."""
    try:
        grid = value_at(data, ("grids", 0))
    except TypeError:
        return []
    axes = [str(key) for key in grid if key not in AXES.values()] if isinstance(grid, dict) else []
    return ["a name of the grid" if key == "name" else key for key in axes]


def write(text: str, name: str, value: Any) -> str:
    """The text with another value of one field. It must be one that `read` can read."""
    if name == "images":
        return _with_images(text, str(value))
    if name in AXES:
        value = list(value) or GONE
    elif name == "devices":
        value = list(value)
    elif name == "side":
        value = [1, 3, value, value]
    elif name == "arguments":
        value = _arguments(value) if value.strip() else GONE
    elif name in _PROTOCOL:
        value = value or GONE
    elif name == "budget":
        value = budget_value(value) if value else GONE
    return changed(text, _PLACES[name], value)


def _with_images(text: str, images: str) -> str:
    for part, count in (("calibration", 100), ("evaluation", None)):
        text = changed(text, ("data", part), _data(images, count))
    objective = (values(text) or {}).get("objective")
    if images == "synthetic" and objective is None:
        return changed(text, ("objective",), WITHOUT_TRUTH)
    if images != "synthetic" and objective == WITHOUT_TRUTH:
        return changed(text, ("objective",), GONE)
    return text


def _data(images: str, count: int | None) -> dict[str, Any]:
    source = {"source": images} if images in ("digits", "synthetic") else {"source": "folder", "path": images}
    return source if count is None or images == "synthetic" else {**source, "images": count}


def _images_of(data: Any) -> str:
    sources = {_source(value_at(data, ("data", part))) for part in ("calibration", "evaluation")}
    if len(sources) != 1:
        raise ValueError("two sources")
    return sources.pop()


def _source(part: Any) -> str:
    if part is None:
        return "digits"
    source = part["source"]
    if source not in ("digits", "synthetic", "folder"):
        raise ValueError(source)
    return _text(part["path"]) if source == "folder" else str(source)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("no text")
    return value


def _arguments_of(value: Any) -> str:
    if isinstance(value, str) or value is None:
        return value or ""
    if not isinstance(value, dict):
        raise TypeError("no arguments")
    return ", ".join(f"{flow(name)}: {flow(argument)}" for name, argument in value.items())


def _side_of(value: Any) -> int:
    match [1, 3, 224, 224] if value is None else value:
        case [1, 3, int(side), int(width)] if side == width and SIDES[0] <= side <= SIDES[1]:
            return side
    raise ValueError("no square of three channels")


def _list_of(kind: type) -> Callable[[Any], tuple[Any, ...]]:
    def read_list(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list | None) or any(type(member) is not kind for member in value or ()):
            raise TypeError("no list")
        return tuple(dict.fromkeys(value or ()))

    return read_list


def preset_of(value: Any) -> str:
    """The preset as the form has it, empty if the file has none."""
    if value not in (None, *PRESETS):
        raise ValueError("another preset")
    return value or ""


def _whole(least: int, most: int) -> Callable[[Any], int | None]:
    def read_whole(value: Any) -> int | None:
        if value is not None and (type(value) is not int or not least <= value <= most):
            raise ValueError(value)
        return value

    return read_whole


def gate_of(value: Any) -> str:
    """The gate as the form has it, empty if the file has none."""
    if value not in (None, "none"):
        raise ValueError("limits of its own")
    return value or ""


def budget_of(value: Any) -> str:
    """The budget as the form has it, empty if the file has none. Raises `ValueError` if it cannot."""
    if isinstance(value, dict) and value.keys() == {"device_minutes"} and type(value["device_minutes"]) in (int, float):
        return digits(value["device_minutes"])
    if value not in (None, "full", "race"):
        raise ValueError("another budget")
    return value or ""


def budget_value(text: str) -> Any:
    """Text that is no budget stays text: the file's check then names its line."""
    try:
        minutes = float(text)
    except ValueError:
        return text
    return {"device_minutes": int(minutes) if minutes.is_integer() else minutes}


def _arguments(text: str) -> Any:
    """Text that is no YAML stays text: the file's check then names its line."""
    arguments = values(f"{{{text}}}")
    return text if arguments is None else arguments


_READ: Mapping[str, Callable[[Any], Any]] = {
    "name": _text,
    "source": _text,
    "arguments": _arguments_of,
    "weights": lambda value: "pretrained" if value is None else _text(value),
    "side": _side_of,
    **{name: _list_of(int if name == "threads" else str) for name in AXES},
    "devices": lambda value: _list_of(str)(value) or ("local",),
    "preset": preset_of,
    "rounds": _whole(1, MOST_ROUNDS),
    "gate": gate_of,
    "budget": budget_of,
}
