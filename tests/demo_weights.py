"""The weights of the demo's model, which take half a minute to train: once for all tests."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from sweeps.spec.sweep import load
from sweeps.workspace import Workspace
from tests import shared
from workers.models.prepare import prepare

DEMO = load(Path(__file__).parents[1] / "sweeps" / "specs" / "demo.yaml")


@dataclass(frozen=True, slots=True)
class Training:
    """How the demo's model was trained in a workspace without weights."""

    shares: list[float]
    """Of the training, in the order in which they were shown."""
    state: bytes
    """Of the package that was prepared."""


def demo_weights(workspace: Path) -> Training:
    """Put them where a workspace has the weights that it trained."""
    trained = shared.made_once("demo-weights", _train)
    shutil.copytree(Workspace(trained).weights, Workspace(workspace).weights)
    return Training(json.loads((trained / "shares.json").read_text()), (trained / "state").read_bytes())


def _train(folder: Path) -> None:
    shares: list[float] = []

    def note(what: str, share: float | None) -> None:
        if "training" in what and share is not None:
            shares.append(share)

    prepared = prepare(DEMO.models[0], DEMO.data, Workspace(folder), {"torch": "2"}, note)
    (folder / "shares.json").write_text(json.dumps(shares))
    (folder / "state").write_bytes(prepared.build_inputs.package.state)
