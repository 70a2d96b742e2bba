"""Files that others may have replaced are read without waiting, and never to more than a bound."""

import os
import stat
from pathlib import Path

import pytest

from sweeps.untrusted_file import read_regular


def test_a_regular_file_is_read_up_to_its_bound(tmp_path: Path) -> None:
    file = tmp_path / "answer"
    file.write_bytes(b"abc")
    assert read_regular(file, 3) == b"abc"
    with pytest.raises(ValueError, match="more than 2 bytes"):
        read_regular(file, 2)


def test_a_file_without_a_size_is_read_whole_and_a_link_where_it_may_be_one(tmp_path: Path) -> None:
    sizeless = Path("/proc/self/cmdline")
    assert sizeless.stat().st_size == 0
    assert len(read_regular(sizeless, 10**6)) > 1
    with pytest.raises(ValueError, match="more than 1 bytes"):
        read_regular(sizeless, 1)
    (tmp_path / "link").symlink_to(sizeless)
    assert read_regular(tmp_path / "link", 10**6, links=True) == read_regular(sizeless, 10**6)


@pytest.mark.parametrize("kind", ["pipe", "folder", "link", "missing", "endless"])
def test_what_is_no_regular_file_is_an_error_at_once(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "answer"
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "link":
            path.symlink_to("/etc/hostname")
        case "endless":
            path = Path("/dev/zero")
            assert stat.S_ISCHR(path.stat().st_mode)
    with pytest.raises(OSError, match=r"."):
        read_regular(path, 10)
