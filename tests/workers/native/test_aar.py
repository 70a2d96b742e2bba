"""Android archives: what is unpacked of them, and what a hostile one may not do."""

import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from sweeps.errors import BuildError
from tests.workers.native.archives import archived
from workers.native import aar, android
from workers.runtimes.torchscript import for_phones as torchscript

WHOLE = {
    "AndroidManifest.xml": b"<manifest/>",
    "classes.jar": b"jar",
    "headers/torch/script.h": b"// header",
    "headers/ATen/ATen.h": b"// header",
    "jni/arm64-v8a/libpytorch_jni_lite.so": b"library",
    "jni/arm64-v8a/libc++_shared.so": b"library",
    "jni/arm64-v8a/notes.txt": b"",
    "jni/x86/libpytorch_jni_lite.so": b"library",
}


def test_of_an_archive_the_headers_and_the_libraries_of_one_abi_are_unpacked(tmp_path: Path) -> None:
    file = archived(tmp_path / "pytorch_android_lite-2.1.0.aar", WHOLE)
    recipe = torchscript.recipe(file, "arm64-v8a", android.Choice(), tmp_path / "out")
    files = {str(file.relative_to(tmp_path / "out")) for file in (tmp_path / "out").rglob("*") if file.is_file()}
    libraries = {"lib/libpytorch_jni_lite.so", "lib/libc++_shared.so"}
    assert files == {"include/torch/script.h", "include/ATen/ATen.h"} | libraries
    assert "-DINTERPRETER=lite" in recipe.definitions
    assert recipe.programs["edgesweep_profiler"] == "edgesweep_profiler_lite"
    assert recipe.shared == tmp_path / "out" / "lib"
    with pytest.raises(BuildError, match="has the interpreter lite, not full"):
        torchscript.recipe(file, "arm64-v8a", android.Choice(interpreter="full"), tmp_path / "other")
    with pytest.raises(BuildError, match=r"no libraries for x86_64, only for arm64-v8a, x86\n"):
        torchscript.recipe(file, "x86_64", android.Choice(), tmp_path / "third")
    with zipfile.ZipFile(file) as archive:
        archive.extractall(tmp_path / "unpacked")
    by_hand = torchscript.recipe(tmp_path / "unpacked", "arm64-v8a", android.Choice(), tmp_path / "fourth")
    assert by_hand.shared == tmp_path / "fourth" / "lib"


def link(archive: zipfile.ZipFile) -> None:
    entry = zipfile.ZipInfo("jni/arm64-v8a/liblink.so")
    entry.external_attr = 0o120777 << 16
    archive.writestr(entry, "/etc/passwd")


def changed(name: str, value: int) -> Callable[[zipfile.ZipFile], None]:
    """An entry whose record says something else."""

    def change(archive: zipfile.ZipFile) -> None:
        setattr(archive.getinfo("headers/torch/script.h"), name, value)

    return change


def named(name: str, times: int = 1) -> Callable[[zipfile.ZipFile], None]:
    def add(archive: zipfile.ZipFile) -> None:
        for _ in range(times):
            entry = zipfile.ZipInfo("x")
            entry.filename = name
            with warnings.catch_warnings(action="ignore"):
                archive.writestr(entry, b"content")

    return add


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (named("../outside"), "an entry is called '../outside'"),
        (named("headers/../../outside"), "an entry is called"),
        (named("/tmp/outside"), "an entry is called"),
        (named("C:/outside"), "an entry is called"),
        (named("headers\\..\\outside"), "an entry is called"),
        (named("headers/a\0b"), "an entry is called"),
        (named("headers/a\x1b[2J"), r"an entry is called 'headers/a\\x1b"),
        (named("headers/a.h", 2), "two entries"),
        (link, "a link or a special file"),
        (changed("flag_bits", 1), "encrypted"),
        (changed("compress_type", zipfile.ZIP_BZIP2), "compressed in an unusual way"),
        (changed("file_size", 3 * 2**30), r"would fill 3\.2 GB"),
        (changed("compress_size", 2**30), "its entries overlap"),
    ],
)
def test_of_a_hostile_archive_nothing_is_unpacked(
    tmp_path: Path, spoil: Callable[[zipfile.ZipFile], None], message: str
) -> None:
    file = archived(tmp_path / "bad.aar", WHOLE)
    with zipfile.ZipFile(file, "a") as archive:
        spoil(archive)
        archive._didModify = True  # type: ignore[attr-defined]  # writes the records again
    with pytest.raises(BuildError, match=message) as caught:
        aar.unpack(file, "arm64-v8a", tmp_path / "out")
    assert caught.value.kind == "no_library"
    assert [path.name for path in tmp_path.iterdir()] == ["bad.aar"]


@pytest.mark.parametrize("damage", ["none", "cut", "crc"])
def test_a_damaged_archive_is_told(tmp_path: Path, damage: str) -> None:
    file = archived(tmp_path / "bad.aar", WHOLE)
    if damage == "crc":
        with zipfile.ZipFile(file, "a") as archive:
            changed("CRC", 1)(archive)
            archive._didModify = True  # type: ignore[attr-defined]
    else:
        file.write_bytes(b"no zip" if damage == "none" else file.read_bytes()[:-30])
    with pytest.raises(BuildError, match="cannot be unpacked"):
        aar.unpack(file, "arm64-v8a", tmp_path / "out")
