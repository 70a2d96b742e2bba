"""Artifacts that tests share are told apart by all that they are made of and verified with."""

from dataclasses import fields, replace

import numpy as np

from sweeps.variant import Variant
from tests import gallery
from tests.workers.tiny_model import tiny_inputs
from workers.models.package import BuildInputs

KEY = "a" * 64


def test_whatever_differs_is_another_artifact_and_the_same_is_the_same() -> None:
    inputs = tiny_inputs()
    changes = {
        "package": replace(inputs.package, weights_id="test:others"),
        "calibration": inputs.calibration[:4],
        "calibration_id": "others",
        "no_calibration": "none asked for",
        "verification": inputs.verification + np.float32(1e-6),
        "verification_labels": np.zeros(8, dtype=np.int64),
        "verification_logits": inputs.verification_logits * 2,
        "versions": {"torch": "1.0"},
    }
    assert changes.keys() == {field.name for field in fields(BuildInputs)}
    keys = [gallery.key(KEY, Variant(), replace(inputs, **{name: value})) for name, value in changes.items()]
    keys += [gallery.key("b" * 64, Variant(), inputs), gallery.key(KEY, Variant(layout="nhwc"), inputs)]
    keys += [gallery.key(KEY, Variant(), inputs)]
    assert len(set(keys)) == len(changes) + 3
    assert gallery.key(KEY, Variant(), tiny_inputs()) == keys[-1]
