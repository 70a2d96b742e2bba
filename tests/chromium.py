"""Chromium for tests of pages."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

_ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking")


@contextmanager
def chromium(limit_ms: float) -> Iterator[Browser]:
    """A browser without a window. Its home is a folder of its own: what it leaves there is no trace of a sweep."""
    with (
        tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True) as home,
        sync_playwright() as player,
    ):
        browser = player.chromium.launch(
            executable_path="/usr/bin/chromium", args=_ARGUMENTS, timeout=limit_ms, env={**os.environ, "HOME": home}
        )
        try:
            yield browser
        finally:
            browser.close()
