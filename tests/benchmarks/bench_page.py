"""Pages are timed on a real server: a rerun of each after one widget has changed, Fleet drawn, also after ten new
results, bytes of a first view.

python tests/benchmarks/bench_page.py [--sizes 10000] [--stores FOLDER]

Stores of 10,000 and 100,000 results, as `bench_read.py` makes them. CPU is that of the server's process, medians of 9
reruns of Decide and of 5 of each other page, to a value that was not looked at before; Chromium's is not counted.
Beside them stands the same of a page that has one widget and nothing else, measured before and after them. `--stores`:
keep the stores there, or use those that are.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench_read import LEFT, SIZES
from many_results import SWEEP, add_ten, make
from playwright.sync_api import Browser, Page, StorageState, WebSocket, sync_playwright
from report import Figure, at_most, finish

from dashboard.arguments import Options
from dashboard.web_server import serving
from sweeps.store.verdicts import overview
from sweeps.workspace import Workspace

RERUNS, RERUNS_BESIDE = 9, 5
TOKEN = "of-this-bench"  # only this process can reach the server
CHROMIUM = "/usr/bin/chromium"
EMPTY = """import streamlit as st
st.title("Empty")
st.text_input("Accuracy drop, at most (points)", value="1")
"""
PLACE = f"sweep={SWEEP}&device=phone-0001&model=net1"
DECIDE = f"decide?{PLACE}"


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


def view(browser: Browser, url: str, rights: StorageState | None = None) -> tuple[Page, int]:
    """A page in a browser of its own, and the bytes of its first view. `rights`: the cookies of who came in by the
    link."""
    page = browser.new_context(viewport={"width": 1400, "height": 1000}, storage_state=rights).new_page()
    page.set_default_timeout(120_000)
    received = Received()
    page.on("websocket", received.listen)
    page.goto(url)
    idle(page)
    return page, received.bytes


def entered_by(browser: Browser, link: str) -> StorageState:
    """The cookies of a browser that came in by the link, which works once."""
    with browser.new_context() as context:
        context.new_page().goto(link)
        return context.storage_state()


def cost_ms(pid: int, act: Callable[[], None], page: Page) -> float:
    """CPU of the server until the page is quiet again, with what it does in the quarter of a second after that."""
    before = cpu_s(pid)
    act()
    page.wait_for_timeout(150)
    idle(page)
    page.wait_for_timeout(250)
    return 1000 * (cpu_s(pid) - before)


def entered(page: Page, label: str, text: str) -> None:
    field = page.get_by_label(label, exact=True)
    field.fill(text)
    field.press("Enter")


def picked(page: Page, label: str, number: int) -> None:
    """One of the options of a box, from 0 on. Only the first ten or so are drawn before somebody scrolls."""
    page.get_by_role("combobox", name=label, exact=True).click()
    page.get_by_role("option").nth(number).click()


def rerun_ms(pid: int, page: Page, act: Callable[[Page, int], None], count: int) -> float:
    return statistics.median(cost_ms(pid, partial(act, page, number), page) for number in range(count))


def bounded(page: Page, number: int) -> None:
    """One constraint is changed, to a value that was not ranked before."""
    entered(page, "Accuracy drop, at most (points)", f"{1.1 + number / 10:.1f}")


ELSEWHERE: dict[str, tuple[str, Callable[[Page, int], None]]] = {
    "Fleet of one model": (f"?sweep={SWEEP}&model=net", lambda page, number: picked(page, "Model", 2 + number)),
    "Compare": (f"compare?{PLACE}", lambda page, number: picked(page, "B: variant", 3 + number)),
    "Result": (f"result?{PLACE}", lambda page, number: picked(page, "Job", 3 + number)),
    "Devices": ("devices", lambda page, number: picked(page, "Device", 1 + number)),
    "Launch": ("launch", lambda page, number: entered(page, "Name", f"sweep-{number}")),
}
"""Beside Decide: what is changed on each page."""


def empty_page(browser: Browser) -> float:
    with tempfile.TemporaryDirectory(prefix="edgesweep-bench-") as folder:
        app = Path(folder, "app.py")
        app.write_text(EMPTY)
        with serving(Path(folder), app) as port:
            page, _ = view(browser, f"http://127.0.0.1:{port}")
            return rerun_ms(server_of(port), page, bounded, RERUNS)


def pages(browser: Browser, workspace: Workspace, size: int) -> tuple[list[Figure], dict[str, float], dict[str, int]]:
    """Figures of a store; and by page milliseconds of a rerun, and bytes of the first view."""
    sent, reruns = {}, {}
    with serving(workspace.root, token=TOKEN, options=Options(workspace.root)) as port:
        pid, address = server_of(port), f"http://127.0.0.1:{port}/"
        view(browser, address)[0].close()  # the imports, and what is cached
        rights = entered_by(browser, f"{address}enter?token={TOKEN}")
        page, sent["Fleet"] = view(browser, address)
        drawn = [cost_ms(pid, page.reload, page) for _ in range(5)]
        add_ten(workspace)
        news = cost_ms(pid, page.reload, page)
        page.close()
        page, sent["Decide"] = view(browser, address + DECIDE)
        reruns["Decide"] = rerun_ms(pid, page, bounded, RERUNS)
        page.close()
        for name, (path, act) in ELSEWHERE.items():
            page, sent[name] = view(browser, address + path, rights)
            reruns[name] = rerun_ms(pid, page, act, RERUNS_BESIDE)
            page.close()
    figures = [
        at_most(f"{size:,}: Fleet drawn, CPU", statistics.median(drawn), "ms", 300),
        at_most(f"{size:,}: Fleet drawn after ten new results, CPU", news, "ms", 600),
        *(at_most(f"{size:,}: a rerun of {name}, CPU", ms, "ms", 100) for name, ms in reruns.items()),
    ]
    return figures, reruns, sent


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES[1:], choices=SIZES[1:])
    parser.add_argument("--stores", type=Path)
    options = parser.parse_args()
    figures: list[Figure] = []
    sent: dict[int, dict[str, int]] = {}
    with sync_playwright() as playwright, tempfile.TemporaryDirectory(prefix="edgesweep-bench-") as name:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        for size in options.sizes:
            folder = (options.stores or Path(name)) / str(size)
            is_new = not folder.exists()
            workspace = Workspace.open(folder)
            if is_new:
                make(workspace, size, LEFT)
            overview(workspace)
            before = empty_page(browser)
            page_figures, reruns, sent[size] = pages(browser, workspace, size)
            after = empty_page(browser)
            ratios = {page: 2 * ms / (before + after) for page, ms in reruns.items()}
            figures += [
                Figure(f"{size:,}: a rerun of an empty page before, CPU", before, "ms"),
                *page_figures,
                Figure(f"{size:,}: a rerun of an empty page after, CPU", after, "ms"),
                *(
                    at_most(f"{size:,}: a rerun of {page} / of an empty page", ratio, "times", 5)
                    for page, ratio in ratios.items()
                ),
                *(Figure(f"{size:,}: first view of {page}", count / 1000, "kB") for page, count in sent[size].items()),
            ]
        browser.close()
    if set(options.sizes) == set(SIZES[1:]):
        small, large = sent[SIZES[1]], sent[SIZES[-1]]
        figures += [
            at_most(f"first view of {page}, 100,000 / 10,000", count / small[page], "times", 1.2)
            for page, count in large.items()
        ]
    finish("pages of the dashboard", figures)


if __name__ == "__main__":
    main()
