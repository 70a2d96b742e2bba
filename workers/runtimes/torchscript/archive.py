"""Reads the properties of a saved model with the standard library: unpickles nothing and runs no code."""

import pickletools
import zipfile
from dataclasses import dataclass
from pathlib import Path

# Tensors are not compressed; only sources are, and no model has this much source.
_MAX_INFLATED_BYTES = 512 * 2**20
_MAX_NUMBER_BYTES = 32
_HEAD_BYTES = 4096


class NoArchive(Exception):  # noqa: N818  # says what the file is not
    """The file is not a complete archive of a TorchScript model."""


@dataclass(frozen=True, slots=True)
class Archive:
    """Properties of a saved model."""

    format: str
    """`ptl` if it contains bytecode for the lite interpreter, else `pt`."""
    backend: str
    """`nnapi` or `metal` if a part of it runs there, else `cpu`."""
    file_version: int
    bytecode_version: int | None
    """The version of the bytecode; `None` for `pt`, which contains source code."""


def read(path: Path) -> Archive:
    """Return the properties of a file. Raises `NoArchive` if the file is truncated, damaged, of another kind, or a
    decompression bomb."""
    try:
        with zipfile.ZipFile(path) as archive:
            return _read(archive, path.stat().st_size)
    except (zipfile.BadZipFile, EOFError, OSError, ValueError, NotImplementedError, RuntimeError) as error:
        raise NoArchive(f"{path.name} is no whole archive of a model: {error}") from error
    except zipfile.zlib.error as error:  # type: ignore[attr-defined]  # raised through zipfile
        raise NoArchive(f"{path.name} is damaged: {error}") from error


def _read(archive: zipfile.ZipFile, file_bytes: int) -> Archive:
    records = {info.filename.partition("/")[2]: info for info in archive.infolist()}
    _check_sizes(archive.infolist(), file_bytes)
    # From file version 6 on (needed by ViT's operators) torch stores the version in another place.
    version = records.get("version") or records.get(".data/version")
    if version is None or "data.pkl" not in records:
        raise ValueError("it holds no TorchScript")
    if version.file_size > _MAX_NUMBER_BYTES:
        raise ValueError("its version is no number")
    bytecode = records.get("bytecode.pkl")
    return Archive(
        format="pt" if bytecode is None else "ptl",
        backend=_backend(archive, records),
        file_version=int(archive.read(version)),
        bytecode_version=None if bytecode is None else _first_number(archive, bytecode),
    )


def _check_sizes(records: list[zipfile.ZipInfo], file_bytes: int) -> None:
    """Check sizes before anything is decompressed, here or by torch."""
    if any(info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for info in records):
        raise ValueError("it is compressed in a way that torch does not use")
    if sum(info.compress_size for info in records) > file_bytes:
        raise ValueError("its records overlap")
    inflated = sum(info.file_size for info in records if info.compress_type != zipfile.ZIP_STORED)
    if inflated > _MAX_INFLATED_BYTES:
        raise ValueError(f"its sources would fill {inflated / 2**20:.0f} MB")


def _backend(archive: zipfile.ZipFile, records: dict[str, zipfile.ZipInfo]) -> str:
    code = [info for name, info in records.items() if name.startswith("code/") and name.endswith(".py")]
    sources = [archive.read(info) for info in code]
    if any(b"torch.classes._nnapi." in source for source in sources):
        return "nnapi"
    return "metal" if any(b"ops.metal" in source for source in sources) else "cpu"


def _first_number(archive: zipfile.ZipFile, bytecode: zipfile.ZipInfo) -> int:
    """Return the bytecode's version: the first element of the pickled tuple."""
    with archive.open(bytecode) as file:
        head = file.read(_HEAD_BYTES)
    for operation, argument, _ in pickletools.genops(head):
        if isinstance(argument, int) and operation.name.startswith(("BININT", "LONG")):
            return argument
        if operation.name not in ("PROTO", "MARK"):
            break
    raise ValueError("its bytecode has no version")
