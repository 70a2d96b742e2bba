"""The recorded ids of our own modules stand for the code that they were given to."""

import ast
import hashlib
from importlib.util import find_spec
from pathlib import Path

import pytest

from workers.models.model_code import RECORDED_IDS

CODE = {
    "workers.models.demo_training": "bbe2e78f33ddf147e81553a61400cd9ee5c4588a57930ec6af40a1c25c1644eb",
    "workers.small_vit": "726d034099107677806687674704061bcd6ec115c147fa2e04eff897106df8ee",
    "workers.sentinel": "d015ccbb7a98777ff60e7c509e083d74e33df924a0fbdde029f0319ba7050db9",
}


def code_without_imports(module: str) -> str:
    """sha256 over what the module computes: its syntax tree without imports and its own docstring."""
    spec = find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    tree = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))
    tree.body = [node for node in tree.body[1:] if not isinstance(node, ast.Import | ast.ImportFrom)]
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()


@pytest.mark.parametrize("module", RECORDED_IDS)
def test_a_recorded_id_is_given_a_new_value_when_the_code_changes(module: str) -> None:
    assert code_without_imports(module) == CODE[module], f"{module} has changed: give it a new id in RECORDED_IDS"
