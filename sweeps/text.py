"""Text from outside (devices, models, files) made harmless before a person's terminal sees it."""


def plain(text: str) -> str:
    """`text` without control characters: nothing in it can move a cursor or change a colour."""
    return "".join(char if char.isprintable() or char == "\n" else "�" for char in text)
