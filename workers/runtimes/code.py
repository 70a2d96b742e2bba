"""Identifies the code that builds: what a stage made with other code is not taken for its result. Torch-free."""

import hashlib
from functools import cache
from pathlib import Path


@cache
def code_of(package: Path) -> str:
    """sha256 over the Python files of a runtime's package, and of `weights.settle`: the id of random weights is only a
    seed."""
    digest = hashlib.sha256()
    models = Path(__file__).parents[1] / "models"
    for path in (*sorted(package.rglob("*.py")), models / "images.py", models / "weights.py"):
        digest.update(path.read_bytes())
    return digest.hexdigest()
