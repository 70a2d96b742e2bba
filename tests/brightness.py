"""Networks that tell images by how bright they are, and such images: trained by nobody, and right."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

# The network knows how bright each class is; of its other outputs none is ever the largest.
NETS = """
import torch


class Brightness(torch.nn.Module):
    def __init__(self, outputs=3, seen=3):
        super().__init__()
        self.levels = torch.nn.Parameter(torch.linspace(-0.235, 0.235, seen))
        self.spare = outputs - seen

    def forward(self, x):
        near = -((x.mean((2, 3)).mean(1, keepdim=True) - self.levels) ** 2)
        return torch.cat([near, torch.full((x.shape[0], self.spare), -9.0)], 1) if self.spare else near


def make(**arguments):
    return Brightness(**arguments)


class Embedding(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.last = torch.nn.Linear(3, 512)

    def forward(self, x):
        return self.last(x.mean((2, 3)))


class Noisy(Brightness):
    def forward(self, x):
        return super().forward(x) + torch.randn(x.shape[0], 3) / 50


class Dropping(Brightness):
    def forward(self, x):
        return super().forward(torch.nn.functional.dropout(x, 0.1))


def embedding():
    return Embedding()


def noisy():
    return Noisy()


def dropping():
    return Dropping()
"""
LEVELS = (98, 128, 158)
"""The brightness of the images of each class, which `make` knows, of pixels from -1 to 1."""


def checkpoints(home: Path) -> None:
    """The code, and a checkpoint of each function, called as it is."""
    (home / "nets.py").write_text(NETS)
    scope: dict[str, Any] = {}
    exec(NETS, scope)
    torch.manual_seed(0)
    for name in ("make", "embedding", "noisy", "dropping"):
        torch.save(scope[name]().state_dict(), home / f"{name}.pt")


def pictures(root: Path, *names: str, order: tuple[int, ...] = (0, 1, 2), each: int = 12) -> Path:
    """Make folders of so many images each; `order`: which of the `LEVELS` the images of each folder have."""
    for name, place in zip(names, order, strict=True):
        (root / name).mkdir(parents=True)
        for number in range(each):
            pixels = np.random.default_rng([number, place]).normal(LEVELS[place], 12, (20, 20, 3)).clip(0, 255)
            Image.fromarray(pixels.astype(np.uint8)).save(root / name / f"{number}.png")
    return root
