"""From a click on Start to the first line of progress, and what a page that is open costs the computer that measures.

python tests/benchmarks/bench_launch.py [--arms 3] [--seconds 30]

A real server, Chromium, and real sweeps of a small model, which run detached: on this computer, where a page looks
every 10 s, and then on simulated phones, where it looks every 2 s. A line of progress is what the page says of builds
or jobs. CPU is that of the server's process; Chromium's is not counted, as people look from elsewhere. The arms take
turns: no page, the page Live, and once more no page (A/A). Beside them stands what the sweep on this computer itself
measured in each arm: the time of its blocks with the page open to that without (the phones' time is simulated).
"""

import argparse
import math
import re
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from bench_page import CHROMIUM, cpu_s, server_of
from playwright.sync_api import Browser, Page, expect, sync_playwright
from report import Figure, at_most, finish

from dashboard.launch import serving
from dashboard.options import Options
from sweeps.journal.evidence import read_job
from sweeps.journal.journal import Journal
from sweeps.launching.driver import find, stop
from sweeps.launching.record import Ask
from sweeps.workspace import Workspace

TOKEN = "of-this-bench"  # of a server that only this process can reach
LIMIT_MS = 120_000
STARTS = 3
PHONES = "fake:steady, fake:cool"
MORE = ", threads: [1, 2, 3, 4, 5, 6, 7, 8], cpus: [all, 0-3, 4-7, 0-5, 2-7], reuse_input: [true, false]"
"""Thousands of blocks: simulated time costs no time."""
NONE, LIVE, AGAIN = "no page", "Live", "no page, again"
PROGRESS = re.compile(r"Builds: \d+ of \d+|\d+ of \d+ jobs")
SWEEP = """\
name: {name}
models:
  - {{source: mobilenet_v2, arguments: {{width_mult: 0.35, num_classes: 10}}, weights: random,
     input_shape: [1, 3, 32, 32]}}
data: {{calibration: {{source: synthetic, images: 8}}, evaluation: {{source: synthetic, images: 8}}}}
grids:
  - {{precision: [fp32], layout: [nchw, nhwc]{axes}}}
devices: [{devices}]
protocol: {{preset: quick, rounds: {rounds}, min_seconds: 2, gate: none, sentinel_every: 0}}
objective: {{minimize: latency_p50_ms, constraints: []}}
"""


def start_s(page: Page, name: str, rounds: int, devices: str = "local", axes: str = "") -> float:
    """Start a sweep on the page Launch: seconds until the page tells of its progress."""
    page.reload()
    file = page.get_by_role("textbox", name="Sweep file")
    file.fill(SWEEP.format(name=name, rounds=rounds, devices=devices, axes=axes))
    file.press("Control+Enter")
    button = page.get_by_role("button", name="Start")
    expect(button).to_be_enabled()
    page.wait_for_timeout(1000)
    began = time.monotonic()
    button.click()
    expect(page.get_by_role("heading", name=re.compile(rf"^{name} · "))).to_be_visible()
    expect(page.get_by_text(PROGRESS).first).to_be_visible()
    return time.monotonic() - began


def end(workspace: Workspace) -> None:
    """End what runs, after its running work."""
    while (driver := find(workspace)).state != "idle":
        if driver.state == "running" and driver.pid and not driver.is_asked:
            stop(workspace, Ask(what="stop", by="the benchmark", at_s=time.time(), pid=driver.pid))
        time.sleep(0.2)


@contextmanager
def looking(browser: Browser, address: str) -> Iterator[None]:
    """While the block runs, a page Live is open, which has been drawn."""
    context = browser.new_context(viewport={"width": 1400, "height": 1000})
    page = context.new_page()
    page.set_default_timeout(LIMIT_MS)
    page.goto(f"{address}/live")
    expect(page.get_by_text(PROGRESS).first).to_be_visible()
    page.wait_for_timeout(1000)
    yield
    context.close()
    time.sleep(1.0)


def share_percent(pid: int, seconds: float) -> float:
    """CPU of a process in the next seconds, as a share of one core."""
    before = cpu_s(pid)
    time.sleep(seconds)
    return 100 * (cpu_s(pid) - before) / seconds


class Arms:
    """The server's shares of a core while a sweep runs, by what is open, and when that was."""

    def __init__(self) -> None:
        self.shares: dict[str, list[float]] = {NONE: [], LIVE: [], AGAIN: []}
        self.spans: dict[str, list[tuple[float, float]]] = {NONE: [], LIVE: [], AGAIN: []}

    def take(self, browser: Browser, address: str, pid: int, seconds: float) -> None:
        """One turn of each."""
        for what in self.shares:
            with looking(browser, address) if what == LIVE else nullcontext():
                began = time.time()
                self.shares[what].append(share_percent(pid, seconds))
                self.spans[what].append((began, time.time()))

    def figures(self, on: str) -> list[Figure]:
        none, live, again = (statistics.median(found) for found in self.shares.values())
        return [
            Figure(f"{on}: server without a page", none, "% of a core"),
            Figure(f"{on}: server without a page, again (A/A)", again - none, "% of a core more"),
            at_most(f"{on}: server with Live open", live - (none + again) / 2, "% of a core more", 2),
        ]

    def blocks(self, workspace: Workspace, sweep: str) -> dict[str, float]:
        """The p50 of the sweep's blocks in each arm (ms): the median of each job, and of these the geometric mean."""
        found: dict[str, list[float]] = {what: [] for what in self.spans}
        with Journal.open(workspace.journal, read_only=True) as journal:
            for job, _ in journal.jobs.of_sweep(sweep):
                evidence = read_job(journal, sweep, job.key)
                assert evidence is not None
                for what, spans in self.spans.items():
                    here = [
                        statistics.median(one.block.samples_ns) / 1e6
                        for one in evidence.blocks
                        if any(began <= one.stored.timestamp() <= ended for began, ended in spans)
                    ]
                    assert here, f"no block of {job.name} ended with {what}"
                    found[what].append(statistics.median(here))
        return {what: math.exp(statistics.fmean(map(math.log, medians))) for what, medians in found.items()}


def running(workspace: Workspace) -> None:
    """Wait until the sweep that was started measures. Raises `AssertionError` if it does not in time."""
    deadline = time.monotonic() + LIMIT_MS / 1000
    while (told := find(workspace).told) is None or not any(one.running for one in told.devices):
        assert told is None or not told.ended, f"the sweep {told.ended}: {told.problem}"
        assert time.monotonic() < deadline, f"nothing is measured after {LIMIT_MS / 1000:.0f} s"
        time.sleep(0.2)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--arms", type=int, default=3, help="on this computer; on simulated phones a third of them")
    parser.add_argument("--seconds", type=float, default=30.0)
    asked = parser.parse_args()
    expect.set_options(timeout=LIMIT_MS)
    starts: list[float] = []
    here, phones = Arms(), Arms()
    with tempfile.TemporaryDirectory(prefix="edgesweep-bench-") as name, sync_playwright() as playwright:
        workspace = Workspace.open(Path(name))
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        try:
            with serving(workspace.root, token=TOKEN, options=Options(workspace.root)) as port:
                address, pid = f"http://127.0.0.1:{port}", server_of(port)
                page = browser.new_context(viewport={"width": 1400, "height": 1400}).new_page()
                page.set_default_timeout(LIMIT_MS)
                page.goto(f"{address}/enter?token={TOKEN}")
                page.goto(f"{address}/launch")
                for number in range(STARTS):
                    is_last = number == STARTS - 1
                    starts.append(start_s(page, f"bench-{number}", 100 if is_last else 3))
                    if not is_last:
                        end(workspace)
                # A page that is open is what is looked at, so this one is elsewhere.
                page.goto("about:blank")
                running(workspace)
                for _ in range(asked.arms):
                    here.take(browser, address, pid, asked.seconds)
                assert find(workspace).state == "running", "the sweep ended too early"
                end(workspace)
                page.goto(f"{address}/launch")
                start_s(page, "bench-phones", 100, PHONES, MORE)
                page.close()
                running(workspace)
                for _ in range(max(1, asked.arms // 3)):
                    phones.take(browser, address, pid, asked.seconds)
                assert find(workspace).state == "running", "the sweep on phones ended too early"
        finally:
            end(workspace)
            browser.close()
        blocks_ms = here.blocks(workspace, f"bench-{STARTS - 1}")
    finish(
        "launching, and a page that is open",
        [
            at_most(f"from a click on Start to progress, the longest of {STARTS}", max(starts), "s", 10),
            Figure("from a click on Start to progress, median", statistics.median(starts), "s"),
            *here.figures("this computer"),
            Figure("this computer: p50 without a page, again (A/A)", blocks_ms[AGAIN] / blocks_ms[NONE], "times"),
            Figure(
                "this computer: p50 with Live open",
                blocks_ms[LIVE] / math.sqrt(blocks_ms[NONE] * blocks_ms[AGAIN]),
                "times",
            ),
            *phones.figures("simulated phones"),
        ],
        shares={"this computer": here.shares, "simulated phones": phones.shares},
        blocks_ms=blocks_ms,
        starts_s=starts,
    )


if __name__ == "__main__":
    main()
