"""Messages for people, beside the results."""

import sys

from sweeps.text import plain


def tell(message: str) -> None:
    """One message on stderr: in a notebook it stands below the cell."""
    sys.stderr.write(f"{plain(message)}\n")
    sys.stderr.flush()
