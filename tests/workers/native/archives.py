"""Android archives (AARs) for tests."""

import zipfile
from collections.abc import Mapping
from pathlib import Path


def archived(file: Path, names: Mapping[str, bytes | Path]) -> Path:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in names.items():
            archive.writestr(name, content if isinstance(content, bytes) else content.read_bytes())
    return file
