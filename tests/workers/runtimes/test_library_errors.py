"""A failed build is told with the operator, the line of the user's code, and the next step."""

import io
import pickle
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from sweeps.errors import BuildError
from sweeps.json_records import from_json, to_json
from sweeps.records import Failed
from sweeps.variant import Variant
from tests.workers.tiny_model import tiny_inputs
from workers.artifacts import failure_of_build
from workers.models.package import BuildInputs
from workers.runtimes.library_errors import located, place_in

SOURCE = b"""
import torch
from torch import nn


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(3, 4)


class Branch(Base):
    def forward(self, x):
        if x.sum() > 0:
            x = x * 2
        return self.head(x.mean((2, 3)))


class Lambda(Base):
    def forward(self, x):
        halved = [i for i in range(2)]
        mean = (lambda y, *more: y.mean((2, 3)))(x)
        return self.head(mean)


class Overload(Base):
    def forward(self, x):
        return self.head(torch.special.no_such_thing(x))
"""


def inputs(network: str) -> BuildInputs:
    tiny = tiny_inputs()
    state = torch.nn.Linear(3, 4).state_dict(prefix="head.")
    content = io.BytesIO()
    torch.save(state, content)
    files = {"deep/own_nets.py": SOURCE}
    package = replace(tiny.package, source=f"deep.own_nets:{network}", files=files, state=content.getvalue())
    return replace(tiny, package=replace(package, model_source=network))


@pytest.mark.parametrize(
    ("network", "axes", "kind", "line"),
    [
        ("Branch", {"fuse": True}, "not_traceable", 14),
        ("Branch", {"capture": "trace"}, "trace_differs", 14),
        ("Lambda", {}, "not_scriptable", 22),
    ],
)
def test_a_failed_build_names_the_line_of_the_user_s_code(
    network: str, axes: dict[str, object], kind: str, line: int, tmp_path: Path
) -> None:
    variant = replace(Variant(fuse=False, optimize=False), **axes)
    failed = failure_of_build(tmp_path / "artifacts", "b" * 64, variant, inputs(network))
    assert isinstance(failed, Failed)
    assert (failed.kind, failed.file, failed.line) == (kind, "deep/own_nets.py", line)
    assert failed.text.endswith(f" (at deep/own_nets.py:{line})")
    assert failed.next_step


def test_what_a_failure_names_survives_processes_and_the_journal() -> None:
    error = BuildError("not_exportable", "why", "what to do", operator="aten::pad", file="nets.py", line=3)
    copied = pickle.loads(pickle.dumps(error))
    assert (type(copied), vars(copied)) == (BuildError, vars(error))
    failed = Failed(stage="build", kind="k", message="m", operator="aten::pad", file="nets.py", line=3)
    assert from_json(Failed, to_json(failed)) == failed
    assert failed.text == "m (aten::pad at nets.py:3)"
    plain = Failed(stage="build", kind="k", message="m")
    assert to_json(plain) == '{"stage":"build","kind":"k","message":"m"}', "old records stay as they were"


def test_the_operator_is_the_one_that_torch_names() -> None:
    torchs = RuntimeError(
        "While executing %pad : [num_users=1] = call_function[target=torch.ops.aten.pad.default](args = (%x,))\n"
        'Original traceback:\nFile "/tmp/a/nets.py", line 7, in forward\n'
        'File "/lib/torch/functional.py", line 9, in pad'
    )
    error = BuildError("not_exportable", "it fails")
    error.__cause__ = torchs
    location = located(error, {"nets.py"})
    assert (location.operator, location.file, location.line) == ("aten.pad.default", "nets.py", 7)
    assert located(BuildError("k", "m"), {"nets.py"}).file == ""


def test_a_line_of_other_files_is_no_line_of_the_user() -> None:
    text = 'File "/a/my_nets.py", line 1\nFile "/b/nets.py", line 2\nFile "/c/other.py", line 3'
    assert place_in(text, {"nets.py"}) == ("nets.py", 2)
    assert place_in(text, {"deep/nets.py"}) is None
