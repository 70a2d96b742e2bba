"""Makes text from outside (devices, models, files) safe to print on a terminal."""


def plain(text: str) -> str:
    """`text` without control characters, so that it cannot move the cursor or change colours."""
    return "".join(char if char.isprintable() or char == "\n" else "�" for char in text)
