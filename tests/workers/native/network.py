"""Saves the network whose files `test_damaged_files` damages: python -m tests.workers.native.network FOLDER CLASSES"""

import sys
from pathlib import Path

import torch

from workers.runtimes.torchscript import metal
from workers.runtimes.torchscript.capture import script, trace
from workers.runtimes.torchscript.save import save
from workers.runtimes.torchscript.torch_state import build_state


def network(classes: int) -> torch.nn.Module:
    torch.manual_seed(0)
    parts = (torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())
    return torch.nn.Sequential(*parts, torch.nn.Linear(4, classes)).eval().requires_grad_(False)


def main(folder: Path, classes: int) -> None:
    """`model.pt` and `model.ptl`, and `metal/model.ptl` for Metal."""
    with build_state("none"):
        save(script(network(classes)), folder, "pt")
        save(script(network(classes)), folder, "ptl")
    metal.load_operators()
    with build_state("none"):
        (folder / "metal").mkdir()
        save(metal.lower(trace(network(classes), torch.zeros(1, 3, 8, 8))), folder / "metal", "ptl")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
