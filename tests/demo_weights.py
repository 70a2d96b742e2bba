"""The weights of the demo's model, which take half a minute to train: once for all tests that only need them."""

import shutil
from pathlib import Path

from sweeps.spec.sweep import load
from sweeps.workspace import Workspace
from tests import shared
from workers.models.prepare import prepare

DEMO = Path(__file__).parents[1] / "sweeps" / "specs" / "demo.yaml"


def demo_weights(workspace: Path) -> None:
    """Put them where a workspace has the weights that it trained."""
    trained = Workspace(shared.made_once("demo-weights", _train)).weights
    shutil.copytree(trained, Workspace(workspace).weights)


def _train(folder: Path) -> None:
    spec = load(DEMO)
    prepare(spec.models[0], spec.data, Workspace(folder), {"torch": "2"}, lambda *_: None)
