"""The fields of a sweep file that the form on Launch shows, read from the file's text and written into it. Pure."""

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
"""Objective on synthetic images, which have no labels: latency only, without an accuracy constraint."""
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
"""Axes that few sweeps need, by the names of their fields. The file of a new sweep has none of them."""
AXES = {"precisions": "precision", "layouts": "layout", "backends": "backend", "threads": "threads", **MORE}
"""Axis of a grid by the name of its field."""
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
    """Values of the form's fields, which most sweeps need. The defaults describe a sweep of a demo model that EdgeSweep
    trains itself."""

    name: str = "my-sweep"
    source: str = "mobilenet_v2"
    arguments: str = "width_mult: 0.35, num_classes: 10"
    """Arguments of the model as a YAML mapping in one line, without braces."""
    weights: str = "demo"
    """Weights of the model: demo, random, pretrained, or the path of a checkpoint."""
    side: int = 64
    """Side of the square input, in pixels."""
    images: str = "digits"
    """Images: digits, synthetic, or the path of a folder."""
    precisions: Sequence[str] = ("fp32", "int8")
    layouts: Sequence[str] = ("nchw", "nhwc")
    backends: Sequence[str] = ("cpu",)
    threads: Sequence[int] = (1,)
    """Numbers of threads. This axis and those below are left out of the file if they are empty."""
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
    """Number of rounds; `None` means the preset's, as do empty texts of the next two fields."""
    gate: str = ""
    """Gate; `none` means that blocks do not wait for a ready device. Limits of the gate can only be written in the
    file."""
    budget: str = ""
    """Budget: full, race, or a number of minutes on each device."""

    def text(self) -> str:
        """Return the text of a sweep file with only these fields."""
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
    """Sweep file as the form shows it."""

    form: SweepForm
    hidden: tuple[str, ...]
    """Names of fields whose values in the file the form cannot show; they stay unchanged in the file."""
    beside: tuple[str, ...]
    """Other parts of the file, in words."""


def read(text: str) -> Shown | None:
    """Read the form's fields from a file's text, with the parts that the form cannot show; `None` if the text is not a
    YAML mapping."""
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
    """Return the keys of the file's first grid that have no field in the form."""
    try:
        grid = value_at(data, ("grids", 0))
    except TypeError:
        return []
    axes = [str(key) for key in grid if key not in AXES.values()] if isinstance(grid, dict) else []
    return ["a name of the grid" if key == "name" else key for key in axes]


def write(text: str, name: str, value: Any) -> str:
    """Return the file's text with another value of one field. `read` must be able to read the text."""
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
    """Return the preset for the form's field, empty if the file has none. Raises `ValueError` for another preset."""
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
    """Return the gate for the form's field, empty if the file has none. Raises `ValueError` for a gate with limits."""
    if value not in (None, "none"):
        raise ValueError("limits of its own")
    return value or ""


def budget_of(value: Any) -> str:
    """Return the budget for the form's field, empty if the file has none. Raises `ValueError` if the form cannot show
    it."""
    if isinstance(value, dict) and value.keys() == {"device_minutes"} and type(value["device_minutes"]) in (int, float):
        return digits(value["device_minutes"])
    if value not in (None, "full", "race"):
        raise ValueError("another budget")
    return value or ""


def budget_value(text: str) -> Any:
    """Convert the field's text to the file's value: minutes become a mapping. Other text stays text; if it is no
    budget, the check of the file names its line."""
    try:
        minutes = float(text)
    except ValueError:
        return text
    return {"device_minutes": int(minutes) if minutes.is_integer() else minutes}


def _arguments(text: str) -> Any:
    """Parse the field's text as a YAML mapping. Invalid text stays text; the check of the file then names its line."""
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
