"""Unpacks what a program needs of an Android archive (AAR): its headers, and the shared libraries of one ABI.

An AAR is a zip that somebody else made. All its entries are checked before the first one is written.
"""

import re
import shutil
import stat
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from sweeps.errors import BuildError

_JNI = re.compile(r"jni/([A-Za-z0-9_-]{1,32})/([^/]+)\Z")
_LIBRARY = re.compile(r"lib[A-Za-z0-9_.+-]{1,100}\.so")
_MAX_ENTRIES = 100_000
_MAX_BYTES = 2 * 2**30
_AGAIN = "download it again, from where its library is released"


def tree(library: Path, abi: str, folder: Path) -> Path:
    """The folder with `include` and `lib` of the library that the user named: the library itself, or `folder`, where
    those of an AAR are laid, packed or unpacked. Raises `BuildError("no_library")`."""
    if library.suffix == ".aar":
        unpack(library, abi, folder)
        return folder
    if not (library / "jni").is_dir():
        return library
    try:
        if not (library / "jni" / abi).is_dir():
            raise _no_such_abi(library, abi, (entry.name for entry in (library / "jni").iterdir()))
        folder.mkdir()
        (folder / "lib").symlink_to((library / "jni" / abi).resolve())
        if (library / "headers").is_dir():
            (folder / "include").symlink_to((library / "headers").resolve())
    except OSError as error:
        raise BuildError("no_library", f"{library} cannot be read: {error}", _AGAIN) from error
    return folder


def unpack(file: Path, abi: str, folder: Path) -> None:
    """Unpack `headers/` to `include`, and the libraries of `jni/ABI/` to `lib`. Raises `BuildError("no_library")`."""
    try:
        with zipfile.ZipFile(file) as archive:
            entries = archive.infolist()
            if reason := _reason_against(entries, file.stat().st_size):
                raise BuildError("no_library", f"{file} is not unpacked: {reason}", _AGAIN)
            needed = {target: entry for entry in entries if (target := _target(entry.filename, abi))}
            if not any(target.startswith("lib/") for target in needed):
                raise _no_such_abi(file, abi, (match[1] for entry in entries if (match := _JNI.match(entry.filename))))
            if (size := sum(entry.file_size for entry in needed.values())) > _MAX_BYTES:
                raise BuildError("no_library", f"{file} is not unpacked: it would fill {size / 1e9:.1f} GB", _AGAIN)
            for target, entry in needed.items():
                path = folder / target
                path.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(entry) as content, path.open("xb") as written:
                    shutil.copyfileobj(content, written, 2**20)
    except (OSError, zipfile.BadZipFile, zlib.error, EOFError, ValueError, NotImplementedError, RuntimeError) as error:
        raise BuildError("no_library", f"{file} cannot be unpacked: {error}", _AGAIN) from error


def _target(name: str, abi: str) -> str:
    """The path to which an entry is written; empty if it is not needed."""
    if name.startswith("headers/") and not name.endswith("/"):
        return f"include/{name.removeprefix('headers/')}"
    match = _JNI.match(name)
    return f"lib/{match[2]}" if match and match[1] == abi and _LIBRARY.fullmatch(match[2]) else ""


def _reason_against(entries: Sequence[zipfile.ZipInfo], file_bytes: int) -> str | None:
    if len(entries) > _MAX_ENTRIES:
        return f"it has {len(entries)} entries"
    if sum(entry.compress_size for entry in entries) > file_bytes:
        return "its entries overlap"
    names: set[str] = set()
    for entry in entries:
        # The name is not read from `filename`, which ends at a zero byte.
        name = entry.orig_filename
        shown = repr(name[:100])
        parts = name.removesuffix("/").split("/")
        if not name.isprintable() or "\\" in name or ":" in name or any(part in ("", ".", "..") for part in parts):
            return f"an entry is called {shown}"
        if entry.filename != name:
            return f"an entry has two names: {shown}"
        if name in names:
            return f"it has two entries {shown}"
        if stat.S_IFMT(entry.external_attr >> 16) not in (0, stat.S_IFREG, stat.S_IFDIR):
            return f"{shown} is a link or a special file"
        if entry.flag_bits & 1 or entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            return f"{shown} is encrypted, or compressed in an unusual way"
        names.add(name)
    return None


def _no_such_abi(library: Path, abi: str, abis: Iterator[str]) -> BuildError:
    known = ", ".join(sorted(set(abis))[:10])
    has = f"only for {known}" if known else "and no jni folder"
    return BuildError("no_library", f"{library} has no libraries for {abi}, {has}", "name another archive or --abi")
