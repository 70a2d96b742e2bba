"""Hashes the code that builds, so that a stage's result is not reused by other code. Torch-free."""

import hashlib
from functools import cache
from pathlib import Path

_MODELS = Path(__file__).parents[1] / "models"


@cache
def code_of(package: Path) -> str:
    """Return the sha256 over the Python files of a runtime's package, of the normal form that models are built in, and
    of `weights.settle`: the id of random weights has only their seed."""
    digest = hashlib.sha256()
    shared = (_MODELS / name for name in ("images.py", "normal_form.py", "weights.py"))
    for path in (*sorted(package.rglob("*.py")), *shared):
        digest.update(path.read_bytes())
    return digest.hexdigest()
