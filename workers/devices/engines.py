"""The version and the quantized engines of this machine's torch, cached for the user: importing torch takes 1.5 s."""

import importlib.util
import json
import sys
from contextlib import suppress
from pathlib import Path

from sweeps.device_facts import canonical_key
from sweeps.whole_file import write_whole
from workers.native.compiler import cache_folder


def torch_and_engines(cpu: str) -> tuple[str, tuple[str, ...]] | None:
    """Return torch's version and its quantized engines on this machine; `None` if torch is not installed.

    Imports torch if the cache has no entry for this installation on this `cpu` (its name and features).
    """
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return None
    file = cache_folder() / "torch" / f"{_installation(Path(spec.origin).parent, cpu)}.json"
    if "torch" not in sys.modules and (known := _read(file)) is not None:
        return known
    try:
        import torch
    except ImportError:
        return None
    installed = str(torch.__version__), tuple(sorted(set(torch.backends.quantized.supported_engines) - {"none"}))
    if _read(file) != installed:
        with suppress(OSError):  # a cache that cannot be written costs time, nothing else
            file.parent.mkdir(parents=True, exist_ok=True)
            write_whole(file, json.dumps({"version": installed[0], "engines": installed[1]}))
    return installed


def _installation(folder: Path, cpu: str) -> str:
    """Return the id of an installation. It differs for every other torch, even of the same version in the same folder,
    and for every other CPU."""
    stamps = []
    for name in ("version.py", "lib/libtorch_cpu.so"):
        with suppress(OSError):
            stat = (folder / name).stat()
            stamps.append([name, stat.st_size, stat.st_mtime_ns])
    return canonical_key({"at": str(folder), "files": stamps, "cpu": cpu})[:16]


def _read(file: Path) -> tuple[str, tuple[str, ...]] | None:
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
        version, engines = document["version"], document["engines"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if not isinstance(engines, list) or not all(isinstance(text, str) for text in (version, *engines)):
        return None
    return version, tuple(engines)
