"""Messages for people, on stderr beside the results."""

import sys

from sweeps.text import plain


def notify(message: str) -> None:
    """Write one message to stderr; in a notebook it appears below the cell."""
    sys.stderr.write(f"{plain(message)}\n")
    sys.stderr.flush()
