"""A small MNIST on the disk."""

import struct
from pathlib import Path

import numpy as np

from sweeps.spec.model_inputs import TorchvisionData


def mnist(root: Path, train: list[int], test: list[int]) -> TorchvisionData:
    """MNIST's own files with small content: image i is filled with the value i, its class is i % 10."""
    raw = root / "MNIST" / "raw"
    raw.mkdir(parents=True)
    for split, values in (("train", train), ("t10k", test)):
        pixels = np.repeat(np.array(values, np.uint8), 28 * 28).tobytes()
        (raw / f"{split}-images-idx3-ubyte").write_bytes(struct.pack(">IIII", 0x803, len(values), 28, 28) + pixels)
        labels = bytes(value % 10 for value in values)
        (raw / f"{split}-labels-idx1-ubyte").write_bytes(struct.pack(">II", 0x801, len(values)) + labels)
    return TorchvisionData(source="torchvision", dataset="MNIST", root=root, mean=(0, 0, 0), std=(1, 1, 1))
