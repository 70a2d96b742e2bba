"""What the pages cost on a real server: a rerun after one widget has changed, Fleet drawn, bytes of a first view.

python tests/benchmarks/bench_page.py [--largest 10000]

Stores of 10,000 and 100,000 results, as `bench_read.py` makes them. CPU is that of the server's process, medians of 9
reruns; Chromium's is not counted. Beside them stands the same of a page that has one widget and nothing else.
"""

import argparse
import statistics
import tempfile
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
    """CPU of a process so far, all its threads."""
    ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return sum(map(int, ticks)) / 100


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


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--largest", type=int, default=SIZES[-1], choices=SIZES[1:])
    sizes = [size for size in SIZES[1:] if size <= parser.parse_args().largest]
    figures: list[Figure] = []
    sent: dict[tuple[str, int], int] = {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        empty = empty_page(browser)
        figures.append(Figure("a rerun of an empty page, CPU", empty, "ms"))
        for size in sizes:
            with tempfile.TemporaryDirectory(prefix="edgesweep-bench-") as name:
                workspace = Workspace.open(Path(name))
                make(workspace, size)
                overview(workspace)
                with serving(workspace.root) as port:
                    pid, address = server_of(port), f"http://127.0.0.1:{port}/"
                    view(browser, address)[0].close()  # the imports, and what is cached
                    page, sent["Fleet", size] = view(browser, address)
                    drawn = [cost_ms(pid, page.reload, page) for _ in range(5)]
                    figures.append(at_most(f"{size:,}: Fleet drawn, CPU", statistics.median(drawn), "ms", 300))
                    page.close()
                    page, sent["Decide", size] = view(browser, address + DECIDE)
                    rerun = rerun_ms(pid, page)
                    figures += [
                        at_most(f"{size:,}: a rerun of Decide, CPU", rerun, "ms", 100),
                        at_most(f"{size:,}: a rerun of Decide / of an empty page", rerun / empty, "times", 5),
                    ]
                    page.close()
        browser.close()
    for (name, size), count in sent.items():
        figures.append(Figure(f"{size:,}: first view of {name}", count / 1000, "kB"))
        if size == SIZES[-1]:
            ratio = count / sent[name, SIZES[1]]
            figures.append(at_most(f"first view of {name}, 100,000 / 10,000", ratio, "times", 1.2))
    finish("pages of the dashboard", figures)


if __name__ == "__main__":
    main()
