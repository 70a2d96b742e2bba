"""What the pages cost on a real server: a rerun after one widget has changed, Fleet drawn, bytes of a first view.

python tests/benchmarks/bench_page.py [--sizes 10000] [--stores FOLDER]

Stores of 10,000 and 100,000 results, as `bench_read.py` makes them. CPU is that of the server's process, medians of 9
reruns; Chromium's is not counted. Beside them stands the same of a page that has one widget and nothing else, measured
before and after them. `--stores`: keep the stores there, or use those that are.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench_read import SIZES, make
from playwright.sync_api import Browser, Page, WebSocket, sync_playwright
from report import Figure, at_most, finish

from dashboard.launch import serving
from sweeps.store.verdicts import overview
from sweeps.workspace import Workspace

RERUNS = 9
CHROMIUM = "/usr/bin/chromium"
EMPTY = """import streamlit as st
st.title("Empty")
st.number_input("Accuracy drop, at most (points)", value=1.0, step=0.1)
"""
DECIDE = "decide?sweep=phones&device=phone-0001&model=net1"


@dataclass
class Received:
    """Bytes over the websockets of a page."""

    bytes: int = 0

    def listen(self, socket: WebSocket) -> None:
        socket.on("framereceived", lambda frame: self.add(len(frame)))

    def add(self, count: int) -> None:
        self.bytes += count


def cpu_s(pid: int) -> float:
    """CPU of a process so far, with its threads that have ended: by its own clock (`man clock_getcpuclockid`),
    since /proc counts in steps of 10 ms."""
    return time.clock_gettime((~pid << 3) | 2)


def server_of(port: int) -> int:
    """The process that serves this port: a child of this one."""
    for status in Path("/proc").glob("[0-9]*/cmdline"):
        words = status.read_bytes().split(b"\0")
        if b"streamlit" in words and str(port).encode() in words:
            return int(status.parent.name)
    raise RuntimeError(f"nothing serves port {port}")


def idle(page: Page) -> None:
    page.wait_for_function(
        """() => {
            const app = document.querySelector('[data-testid="stApp"]');
            const heads = document.querySelectorAll('h1, h2').length;
            const isIdle = app.dataset.testScriptState === 'notRunning';
            return heads && isIdle && !document.querySelector('[data-stale="true"]');
        }"""
    )


def view(browser: Browser, url: str) -> tuple[Page, int]:
    """A page in a browser of its own, and the bytes of its first view."""
    page = browser.new_context(viewport={"width": 1400, "height": 1000}).new_page()
    page.set_default_timeout(120_000)
    received = Received()
    page.on("websocket", received.listen)
    page.goto(url)
    idle(page)
    return page, received.bytes


def cost_ms(pid: int, act: Callable[[], None], page: Page) -> float:
    """CPU of the server until the page is quiet again, with what it does in the quarter of a second after that."""
    before = cpu_s(pid)
    act()
    page.wait_for_timeout(150)
    idle(page)
    page.wait_for_timeout(250)
    return 1000 * (cpu_s(pid) - before)


def rerun_ms(pid: int, page: Page) -> float:
    """One constraint is changed, to a value that was not ranked before."""
    found = []
    for _ in range(RERUNS):
        button = page.get_by_test_id("stNumberInputStepUp").first
        found.append(cost_ms(pid, button.click, page))
    return statistics.median(found)


def empty_page(browser: Browser) -> float:
    with tempfile.TemporaryDirectory(prefix="edgesweep-bench-") as folder:
        app = Path(folder, "app.py")
        app.write_text(EMPTY)
        with serving(Path(folder), app) as port:
            page, _ = view(browser, f"http://127.0.0.1:{port}")
            return rerun_ms(server_of(port), page)


def pages(browser: Browser, workspace: Workspace, size: int) -> tuple[list[Figure], float, dict[str, int]]:
    """Figures of a store, milliseconds of a rerun of Decide, and bytes of first views."""
    sent = {}
    with serving(workspace.root) as port:
        pid, address = server_of(port), f"http://127.0.0.1:{port}/"
        view(browser, address)[0].close()  # the imports, and what is cached
        page, sent["Fleet"] = view(browser, address)
        drawn = [cost_ms(pid, page.reload, page) for _ in range(5)]
        page.close()
        page, sent["Decide"] = view(browser, address + DECIDE)
        rerun = rerun_ms(pid, page)
        page.close()
    figures = [
        at_most(f"{size:,}: Fleet drawn, CPU", statistics.median(drawn), "ms", 300),
        at_most(f"{size:,}: a rerun of Decide, CPU", rerun, "ms", 100),
    ]
    return figures, rerun, sent


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES[1:], choices=SIZES[1:])
    parser.add_argument("--stores", type=Path)
    asked = parser.parse_args()
    figures: list[Figure] = []
    sent: dict[int, dict[str, int]] = {}
    with sync_playwright() as playwright, tempfile.TemporaryDirectory(prefix="edgesweep-bench-") as name:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        for size in asked.sizes:
            folder = (asked.stores or Path(name)) / str(size)
            is_new = not folder.exists()
            workspace = Workspace.open(folder)
            if is_new:
                make(workspace, size)
            overview(workspace)
            before = empty_page(browser)
            found, rerun, sent[size] = pages(browser, workspace, size)
            after = empty_page(browser)
            ratio = 2 * rerun / (before + after)
            figures += [
                Figure(f"{size:,}: a rerun of an empty page before, CPU", before, "ms"),
                *found,
                Figure(f"{size:,}: a rerun of an empty page after, CPU", after, "ms"),
                at_most(f"{size:,}: a rerun of Decide / of an empty page", ratio, "times", 5),
                *(Figure(f"{size:,}: first view of {page}", count / 1000, "kB") for page, count in sent[size].items()),
            ]
        browser.close()
    if set(asked.sizes) == set(SIZES[1:]):
        small, large = sent[SIZES[1]], sent[SIZES[-1]]
        figures += [
            at_most(f"first view of {page}, 100,000 / 10,000", count / small[page], "times", 1.2)
            for page, count in large.items()
        ]
    finish("pages of the dashboard", figures)


if __name__ == "__main__":
    main()
