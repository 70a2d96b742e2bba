"""The folder for the files of one process that tries or makes a model, and a disk without room for it."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sweeps.errors import ModelError
from sweeps.temporary import temporary_folder


@contextmanager
def folder_of_request(below: Path | None) -> Iterator[Path]:
    """An empty folder until the end of the block; `below` is that of `temporary_folder`. Raises `ModelError` if it, or
    what the block does, meets an `OSError`."""
    try:
        with temporary_folder(below) as folder:
            yield folder
    except OSError as error:
        # The system's folder is not known where none of its candidates can be written.
        raise ModelError(*no_room(error, below or tempfile.tempdir or "the folder for temporary files")) from error


def no_room(error: OSError, folder: Path | str) -> tuple[str, str]:
    """The message and the next step for a disk that is full, so that the model is not blamed."""
    return f"{folder} cannot take what the model is tried with: {error.strerror or error}", (
        "free space on that disk, or take another one: --workspace, or TMPDIR for what is tried before a run"
    )
