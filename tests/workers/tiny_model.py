"""A network that builds in a second, with data, for tests of everything around it."""

import io
from dataclasses import replace

import numpy as np
import torch

from sweeps.records import Job
from sweeps.variant import Variant
from tests.builders import job_of
from workers.devices.local import local_facts
from workers.models.model_code import construct
from workers.models.package import BuildInputs, ModelPackage
from workers.runtimes import registry

SOURCE = b"""
import torch


def make() -> torch.nn.Module:
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False),
        torch.nn.BatchNorm2d(8),
        torch.nn.ReLU6(),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(8, 4),
    )
"""
SHAPE = (1, 3, 16, 16)


def tiny_inputs() -> BuildInputs:
    """Make the inputs that all builds of the tiny network share; no labels, 8 images to verify with."""
    files = {"tiny_net.py": SOURCE}
    torch.manual_seed(0)
    model = construct("tiny_net:make", {}, files).eval()
    state = io.BytesIO()
    torch.save(model.state_dict(), state)
    images = np.random.default_rng(0).normal(size=(16, *SHAPE[1:])).astype(np.float32)
    with torch.no_grad():
        logits = model(torch.from_numpy(images[8:])).numpy()
    return BuildInputs(
        package=ModelPackage(
            name="tiny",
            source="tiny_net:make",
            arguments={},
            files=files,
            state=state.getvalue(),
            weights_id="test:tiny",
            model_source="tiny_net:make@test",
            input_shape=SHAPE,
        ),
        calibration=images[:8],
        calibration_id="test-calibration",
        verification=images[8:],
        verification_labels=None,
        verification_logits=logits,
        versions=registry.get("torchscript").versions(),
    )


def tiny_job(build_key: str, variant: Variant | None = None, **changes: str) -> Job:
    """A job of that build on this host."""
    return replace(job_of("job", build_key, local_facts().device_id, variant=variant or Variant()), **changes)
