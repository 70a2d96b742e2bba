"""The eval sibling of an artifact: a copy with evaluation images in its file, for `speed_benchmark_torch`.

Each image needs one process of the tool, and 4 bytes per value in the file, so there are at most 100.
"""

import hashlib
import threading
from pathlib import Path

import torch

from sweeps.errors import BuildError
from sweeps.manifest import EvalSibling, Manifest
from workers.models.package import Images
from workers.runtimes.counting_tool import MAX_IMAGES
from workers.runtimes.torchscript.save import bundle
from workers.runtimes.torchscript.torch_state import build_state

_ONE_AT_A_TIME = threading.Lock()
"""Devices are measured in parallel threads of one process, and torch has one engine per process: one thread bundles at
a time."""


def eval_sibling(manifest: Manifest, model: Path, images: Images, folder: Path) -> EvalSibling:
    """Write `eval.pt` or `eval.ptl` into `folder`: the manifest's `model` with bundled inputs.

    Each full batch of the first 100 images is one input (`--use_bundled_input=i`), with layout and quantization of the
    manifest. During the call, torch's engine is changed for the whole process. Raises `BuildError("not_bundled")`.
    """
    batch = manifest.input.shape[0]
    count = min(len(images), MAX_IMAGES) // batch * batch
    engine = manifest.verification.engine
    if engine not in ("none", *torch.backends.quantized.supported_engines):
        raise BuildError("not_bundled", f"torch on this machine has no quantized engine {engine}")
    with _ONE_AT_A_TIME, build_state(engine):
        # The images are copied, because arrays from Ray are read-only, and from_numpy warns about that.
        file = bundle(model, torch.tensor(images[:count]), folder, manifest.input, manifest.memory_format)
    return EvalSibling(file=file.name, file_sha256=hashlib.sha256(file.read_bytes()).hexdigest(), images=count)
