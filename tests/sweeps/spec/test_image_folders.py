"""Images by class."""

from pathlib import Path

import pytest

from sweeps.errors import DataError
from sweeps.spec.image_folders import listed


def test_a_folder_that_the_system_does_not_look_for_is_an_error_that_names_it(tmp_path: Path) -> None:
    # A name that is too long is refused to whoever asks, also to root, like a folder of another user to others.
    with pytest.raises(DataError, match="x" * 300):
        listed(tmp_path / ("x" * 300))
