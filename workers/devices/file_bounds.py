"""Bounds on files that a device sends: a device may send any content, and any amount of it."""

from collections.abc import Callable

from sweeps.errors import DeviceError


def too_large(name: str, path: str, most_bytes: int) -> DeviceError:
    """Return the error for a file of device `name` that has more bytes than the caller accepts."""
    return DeviceError(
        "too_much_output",
        f"{name}: {path[-100:]} has more than the {most_bytes} bytes that it may have",
        "the program on the device is not what it should be: put the runner there anew",
    )


def bounded(write: Callable[[bytes], object], name: str, path: str, most_bytes: int) -> Callable[[bytes], object]:
    """Return a `write` that raises `too_large` before it gets more than `most_bytes` in total."""
    left = most_bytes

    def checked(content: bytes) -> object:
        nonlocal left
        left -= len(content)
        if left < 0:
            raise too_large(name, path, most_bytes)
        return write(content)

    return checked
