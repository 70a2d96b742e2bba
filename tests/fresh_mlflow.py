"""A new MLflow database for a workspace: making one takes seconds, copying it does not."""

import shutil
from pathlib import Path

from sweeps.store.mlflow import Store
from tests import shared


def fresh_mlflow(workspace: Path) -> Path:
    """The database, as `Store.check` makes it, where the workspace has it."""
    workspace.mkdir(parents=True, exist_ok=True)
    return Path(shutil.copy(shared.made_once("mlflow", _make) / "mlflow.sqlite", workspace))


def _make(folder: Path) -> None:
    Store(f"sqlite:///{folder / 'mlflow.sqlite'}", folder / "mlflow-artifacts").check()
