"""Hostile and damaged files of checkpoints: refused in a few lines, without running code or taking memory for them."""

import json
import os
import pickle
import struct
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from sweeps.errors import ModelError
from workers.models import checkpoint

LONG = "x" * 5_000_000


def network() -> torch.nn.Module:
    return torch.nn.Linear(3, 2)


def saved(content: object, path: Path, *, modern: bool = True) -> None:
    torch.save(content, path, _use_new_zipfile_serialization=modern)


def with_numel(path: Path, *, modern: bool) -> None:
    """A tensor of 4 elements that says it has 10^12."""
    saved({"weight": torch.arange(4.0)}, path, modern=modern)
    four, many = b"K\x04", b"\x8a\x06" + (10**12).to_bytes(6, "little")
    if not modern:
        path.write_bytes(path.read_bytes().replace(four, many))
        return
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in entries.items():
            archive.writestr(name, content.replace(four, many) if name.endswith(".pkl") else content)


def zip_bomb(path: Path) -> None:
    saved({"weight": torch.zeros(2, 3), "more": torch.zeros(1_000_000)}, path)
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)


def overlapping_zip(path: Path) -> None:
    """One entry that the index lists a hundred times."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a/data.pkl", pickle.dumps({}, 2))
        archive.writestr("a/data/0", bytes(100_000))
        entry = archive.infolist()[1]
        archive.filelist += [entry] * 100


def safetensors_file(header: bytes, length: int | None = None) -> Callable[[Path], None]:
    size = len(header) if length is None else length
    return lambda path: path.write_bytes(struct.pack("<Q", size) + header) and None


def described(**tensor: object) -> bytes:
    return json.dumps({"weight": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24], **tensor}}).encode()


def global_name(path: Path) -> None:
    path.write_bytes(b"\x80\x02c" + LONG.encode() + b"\nx\n.")


def global_name_in_zip(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a/data.pkl", b"\x80\x02c" + LONG.encode() + b"\nx\n.")
        archive.writestr("a/version", "3")


def itself(path: Path) -> None:
    content: dict[str, object] = {"epoch": 1}
    content["again"] = content["once more"] = content
    saved(content, path)


def laughs(path: Path) -> None:
    """2^60 ways through 60 mappings."""
    content: dict[str, object] = {"w": torch.zeros(1)}
    for _ in range(60):
        content = {"a": content, "b": content}
    saved(content, path)


def pipe(path: Path) -> None:
    os.mkfifo(path)


REFUSED: dict[str, tuple[Callable[[Path], None], str]] = {
    "compressed": (zip_bomb, "would unpack to 4,0"),
    "overlapping": (overlapping_zip, "would unpack to 10,1"),
    "more elements than the file has": (lambda path: with_numel(path, modern=True), "is damaged"),
    "more elements than the old file has": (lambda path: with_numel(path, modern=False), "is damaged"),
    "a header of an exbibyte": (safetensors_file(described(), 2**60), "is damaged, or no file of safetensors"),
    "a header longer than the file": (safetensors_file(described(), 50_000_000), "no file of safetensors"),
    "tensors behind the end": (safetensors_file(described()), "no file of safetensors"),
    "offsets that go back": (safetensors_file(described(data_offsets=[24, 0])), "no file of safetensors"),
    "a shape of terabytes": (safetensors_file(described(shape=[10**6, 10**6])), "no file of safetensors"),
    "an unknown type": (safetensors_file(described(dtype=LONG)), "no file of safetensors"),
    "no JSON": (safetensors_file(b"{" + LONG.encode()), "no file of safetensors"),
    "deep JSON": (safetensors_file(b'{"a":' + b"[" * 1_000_000), "no file of safetensors"),
    "a pipe": (pipe, "is no file"),
    "a long name of a class": (global_name, r"holds more than tensors \(xxx"),
    "a long name of a class in a zip": (global_name_in_zip, r"holds more than tensors \(xxx"),
    "itself": (itself, "holds no state_dict; at its top the file has epoch, again, once more"),
    "shared mappings": (laughs, "holds no state_dict"),
    "a stretched tensor": (
        lambda path: saved({"weight": torch.zeros(1).expand(10**9, 10**9), "bias": torch.zeros(2)}, path),
        r"weight is \[1000000000, 1000000000\] instead of \[2, 3\]",
    ),
    "a sparse tensor": (
        lambda path: saved({"weight": torch.zeros(1, 1).to_sparse().sparse_resize_((10**9, 10**9), 2, 0)}, path),
        "weight .* is sparse",
    ),
    "a tensor of many dimensions": (
        lambda path: saved({"weight": torch.zeros(1).reshape([1] * 5_000), "bias": torch.zeros(2)}, path),
        r"weight is \[1, 1, 1, 1, 1, 1, 1, 1, \.\.\.\] instead",
    ),
    "a long name of a tensor": (
        lambda path: saved({LONG: torch.zeros(1), "weight": torch.zeros(2, 3)}, path),
        r"xxx\.\.\. \(5,000,000 characters\)",
    ),
    "a long name in safetensors": (
        lambda path: save_file({LONG: torch.zeros(1)}, path),
        r"xxx\.\.\. \(5,000,000 characters\)",
    ),
    "a long name of wrappers": (
        lambda path: saved({f"{'module.' * 700_000}weight": torch.zeros(9), "bias": torch.zeros(2)}, path),
        "does not fit",
    ),
    "a long prefix": (
        lambda path: saved({f"{'x' * 4_000}.{name}": torch.zeros(2) for name in ("weight", "bias")}, path),
        r"without `xxx.*\(4,001 characters\)`, of another shape: weight",
    ),
    "a long key": (
        lambda path: saved({LONG: {LONG: {"a": torch.zeros(1)}}, "epoch": 1}, path),
        r"at `xxx(.|\n)*at its top the file has xxx",
    ),
    "lines and colours in a name": (
        lambda path: saved({"weight\n\x1b[31mred": torch.zeros(1)}, path),
        "unexpected: weight��\\[31mred",
    ),
    "many tensors": (
        lambda path: saved({f"{number}.x": torch.zeros(1) for number in range(1_500)}, path),
        "unexpected: 0.x, 1.x, 2.x and 1,497 more",
    ),
    "many keys": (
        lambda path: saved({**{f"k{number}": 0 for number in range(5_000)}, "w": torch.zeros(1)}, path),
        "k7, 4992 more, 1 tensors",
    ),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_a_hostile_file_is_refused_in_a_few_lines(tmp_path: Path, kind: str) -> None:
    make, message = REFUSED[kind]
    path = tmp_path / "hostile.pt"
    make(path)
    with pytest.raises(ModelError, match=message) as caught:
        checkpoint.load(network(), path)
    assert len(str(caught.value).replace(str(path), "")) < 2_000
    assert "\n" not in caught.value.message


def test_without_the_library_the_line_that_installs_it_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_file({"weight": torch.zeros(2, 3), "bias": torch.zeros(2)}, tmp_path / "net.safetensors")
    monkeypatch.setitem(sys.modules, "safetensors.torch", None)
    with pytest.raises(ModelError, match="safetensors is not installed") as caught:
        checkpoint.load(network(), tmp_path / "net.safetensors")
    assert "[workers]" in caught.value.next_step


def test_a_stretched_tensor_of_the_networks_shape_is_one(tmp_path: Path) -> None:
    linear = network()
    saved({"weight": torch.ones(1).expand(2, 3), "bias": torch.zeros(2)}, tmp_path / "a.pt")
    checkpoint.load(linear, tmp_path / "a.pt")
    assert torch.equal(linear.weight, torch.ones(2, 3))
