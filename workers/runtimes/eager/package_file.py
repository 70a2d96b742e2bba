"""A model package as one file: a zip with its sources and its state_dict, without pickled code. Torch-free."""

import json
import zipfile
import zlib
from pathlib import Path

from workers.models.package import ModelPackage

FILE_VERSION = 1

_ABOUT, _STATE, _SOURCES = "package.json", "state.pt", "sources/"


class NoPackage(Exception):  # noqa: N818  # says what the file is not
    """The file is not a complete package."""


def write(package: ModelPackage, file: Path) -> None:
    """Write a package; equal packages give equal bytes: `ZipInfo` does not contain the current date."""
    about = {
        "file_version": FILE_VERSION,
        "name": package.name,
        "source": package.source,
        "arguments": dict(package.arguments),
        "weights_id": package.weights_id,
        "model_source": package.model_source,
        "input_shape": list(package.input_shape),
    }
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(zipfile.ZipInfo(_ABOUT), json.dumps(about, sort_keys=True))
        archive.writestr(zipfile.ZipInfo(_STATE), package.state)
        for name, content in sorted(package.files.items()):
            archive.writestr(zipfile.ZipInfo(f"{_SOURCES}{name}"), content)


def read(file: Path) -> ModelPackage:
    """Read a package. Raises `NoPackage` if the file is truncated, damaged, of another kind or of a newer version."""
    try:
        with zipfile.ZipFile(file) as archive:
            about = json.loads(archive.read(_ABOUT))
            if about["file_version"] != FILE_VERSION:
                raise ValueError(f"it has version {about['file_version']}, this EdgeSweep reads {FILE_VERSION}")
            batch, channels, height, width = about["input_shape"]
            return ModelPackage(
                name=about["name"],
                source=about["source"],
                arguments=about["arguments"],
                files={
                    name.removeprefix(_SOURCES): archive.read(name)
                    for name in archive.namelist()
                    if name.startswith(_SOURCES)
                },
                state=archive.read(_STATE),
                weights_id=about["weights_id"],
                model_source=about["model_source"],
                input_shape=(batch, channels, height, width),
            )
    except (zipfile.BadZipFile, EOFError, OSError, KeyError, TypeError, ValueError, RuntimeError, zlib.error) as error:
        raise NoPackage(f"{file.name} is no whole package of a model: {error}") from error
