"""The sweep file that a form describes, as YAML. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import yaml

PRESETS = ("quick", "full", "race")


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepForm:
    """What most sweeps need; the rest is written into the file."""

    name: str = "my-sweep"
    source: str = "mobilenet_v2"
    arguments: str = "width_mult: 0.35, num_classes: 10"
    """As YAML writes them in one line, without braces."""
    weights: str = "demo"
    """demo, random, pretrained, or the path of a checkpoint."""
    side: int = 64
    """Of the square input, in pixels."""
    images: str = "digits"
    """digits, synthetic, or the path of a folder."""
    precisions: Sequence[str] = ("fp32", "int8")
    layouts: Sequence[str] = ("nchw", "nhwc")
    backends: Sequence[str] = ("cpu",)
    threads: Sequence[int] = (1,)
    devices: Sequence[str] = ("local",)
    preset: str = "quick"

    def text(self) -> str:
        """The sweep file."""
        model: dict[str, Any] = {"name": "model", "source": self.source}
        if self.arguments.strip():
            model["arguments"] = _arguments(self.arguments)
        model |= {"weights": self.weights, "input_shape": [1, 3, self.side, self.side]}
        axes = {"precision": self.precisions, "layout": self.layouts, "backend": self.backends, "threads": self.threads}
        document = {
            "name": self.name,
            "models": [model],
            "data": {"calibration": self._images(100), "evaluation": self._images(None)},
            "grids": [{axis: list(values) for axis, values in axes.items()}],
            "devices": list(self.devices),
            "protocol": {"preset": self.preset},
        }
        if self.images == "synthetic":  # nothing is known to be right on them
            document["objective"] = {"minimize": "latency_p50_ms", "constraints": []}
        return yaml.safe_dump(document, sort_keys=False, default_flow_style=None, allow_unicode=True, width=100)

    def _images(self, count: int | None) -> dict[str, Any]:
        known = self.images in ("digits", "synthetic")
        source = {"source": self.images} if known else {"source": "folder", "path": self.images}
        return source if count is None or self.images == "synthetic" else {**source, "images": count}


def _arguments(text: str) -> Any:
    """Text that is no YAML stays text: the file's check then names its line."""
    try:
        return yaml.safe_load(f"{{{text}}}")
    except yaml.YAMLError:
        return text
