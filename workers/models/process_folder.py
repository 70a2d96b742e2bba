"""The folder for the files of one process that tries or makes a model, and the error of a disk without room for it."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sweeps.errors import ModelError
from sweeps.temporary import temporary_folder


@contextmanager
def folder_of_request(below: Path | None) -> Iterator[Path]:
    """Provide an empty folder until the end of the block, below the folder `below`, as `temporary_folder` does. Raises
    `ModelError` if an `OSError` occurs, also in the block."""
    try:
        with temporary_folder(below) as folder:
            yield folder
    except OSError as error:
        # The system's folder for temporary files is not known if none of its candidates can be written.
        raise ModelError(*no_room(error, below or tempfile.tempdir or "the folder for temporary files")) from error


def no_room(error: OSError, folder: Path | str) -> tuple[str, str]:
    """Return the message and the next step for a full disk, so that the model is not blamed."""
    return f"{folder} cannot take what the model is tried with: {error.strerror or error}", (
        "free space on that disk, or take another one: --workspace, or TMPDIR for what is tried before a run"
    )
