"""Shortens errors of libraries to one readable line."""

_LIMIT = 300


def first_words(error: BaseException | str) -> str:
    """The first line that is not empty, at most 300 characters: torch's messages contain pages of source code."""
    lines = (line.strip().rstrip(":") for line in str(error).splitlines())
    text = next((line for line in lines if line), type(error).__name__)
    return text if len(text) <= _LIMIT else text[: _LIMIT - 1] + "…"
