"""One path in a real browser: what a person sees and does, and that nothing of the store comes alive there."""

import io
import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import pytest
from click.testing import CliRunner
from playwright.sync_api import Browser, Locator, Page, TimeoutError, expect

from dashboard.web_server import serving
from sweeps.cli.main import main
from tests.chromium import chromium
from tests.free_port import free_port

pytestmark = [pytest.mark.system, pytest.mark.browser]

LIMIT_MS, TRY_MS = 60_000, 5_000
expect.set_options(timeout=LIMIT_MS)
ROOT = Path(__file__).parents[2]
SCREENSHOT = ROOT / "infra/screenshot.py"
BEST = "int8 · NHWC · x86 · 1 thread · scripted · optimized"


@dataclass(frozen=True)
class Opened:
    """A browser, and the address of the dashboard."""

    browser: Browser
    address: str

    def page(self, path: str = "") -> Page:
        """A page in a browser session of its own."""
        page = self.browser.new_context(viewport={"width": 1400, "height": 1000}).new_page()
        page.set_default_timeout(LIMIT_MS)
        page.goto(f"{self.address}/{path}")
        return page


@pytest.fixture(scope="module")
def opened(workspace: Path) -> Iterator[Opened]:
    with serving(workspace, port=free_port()) as port, chromium(LIMIT_MS) as browser:
        yield Opened(browser, f"http://127.0.0.1:{port}")


def pick(marks: Locator, shows: Callable[[], None]) -> None:
    """Click the first mark of a chart until `shows` holds: one click may fall on a chart that is just drawn anew."""
    for left in reversed(range(LIMIT_MS // TRY_MS)):
        with suppress(TimeoutError):  # the last click has led to another page, which is slow
            marks.first.click(force=True, timeout=TRY_MS)
        try:
            shows()
        except AssertionError:
            if not left:
                raise
        else:
            return


def drawn(page: Page) -> None:
    """Until then, what belongs to a selection is hidden, and hidden text is no inner text."""
    expect(page.locator("[data-test-script-state='notRunning']")).to_be_attached()


@pytest.mark.smoke
def test_a_person_goes_from_the_fleet_to_a_decision_sends_it_and_takes_the_build(opened: Opened) -> None:
    page = opened.page("?sweep=shipped")
    expect(page.get_by_role("heading", name="Fleet")).to_be_visible()
    cells = page.locator(".st-key-fleet-wide .mark-rect.role-mark path")
    pick(cells, lambda: expect(page).to_have_url(re.compile(r"/decide\?.*device=board-5"), timeout=TRY_MS))
    card = page.locator(".st-key-recommendation")
    expect(card.get_by_role("heading")).to_have_text(BEST)

    page.get_by_label("Latency p50, at most (ms)").fill("0.5")
    page.get_by_label("Latency p50, at most (ms)").press("Enter")
    expect(card.get_by_role("heading")).to_have_text("No winner")
    page.get_by_label("Latency p50, at most (ms)").fill("50")
    page.get_by_label("Latency p50, at most (ms)").press("Enter")
    expect(card.get_by_role("heading")).to_have_text(BEST)
    expect(page).to_have_url(re.compile(r"ms=50"))

    other = opened.page(page.url.removeprefix(f"{opened.address}/"))
    theirs = other.locator(".st-key-recommendation")
    expect(theirs.get_by_role("heading")).to_have_text(BEST)
    drawn(page)
    expect(theirs).to_have_text(card.inner_text(), use_inner_text=True)

    with other.expect_download() as downloading:
        other.get_by_role("button", name="Download this build").click()
    archive = zipfile.ZipFile(io.BytesIO(downloading.value.path().read_bytes()))
    assert sorted(archive.namelist()) == ["manifest.json", "model.pt"]
    manifest = json.loads(archive.read("manifest.json"))
    assert manifest["expected"]["figures"]["latency_p50_ms"] == pytest.approx(3.003, abs=0.001)
    assert archive.read("model.pt") == b"the model"


def test_a_point_that_is_picked_shows_its_result_beside_it(opened: Opened) -> None:
    page = opened.page("decide?sweep=phones&device=board-1")
    picked = page.locator(".st-key-picked")
    expect(picked).to_contain_text(BEST)
    # They are drawn in this order: the winner last, on top of the others.
    points = page.locator(".st-key-tradeoff-chart .mark-symbol.role-mark path")
    pick(points, lambda: expect(picked).to_contain_text("Picked", timeout=TRY_MS))
    expect(picked).not_to_contain_text(BEST)
    drawn(page)
    name = picked.locator("strong").inner_text()
    expect(page).to_have_url(re.compile("job=[0-9a-f]{64}"))
    again = opened.page(page.url.removeprefix(f"{opened.address}/"))
    expect(again.locator(".st-key-picked strong")).to_have_text(name)


def test_nothing_of_the_store_comes_alive(opened: Opened, evil: str) -> None:
    dialogs: list[str] = []
    for path in ("decide?sweep=hostile", "?sweep=hostile", f"decide?sweep={quote(evil)}"):
        page = opened.page()
        page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
        page.goto(f"{opened.address}/{path}")
        expect(page.get_by_role("heading").first).to_be_visible()
        # A table's cells, which are painted, have hidden twins for screen readers.
        expect(page.get_by_text("alert(1)").filter(visible=True).first).to_be_visible()
        assert page.locator("a[href^='javascript:'], a[href*='example.com']").count() == 0
        page.context.close()
    assert dialogs == []


def test_a_page_asks_only_its_own_server(opened: Opened) -> None:
    page = opened.browser.new_context().new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{opened.address}/decide?sweep=shipped")
    expect(page.locator(".st-key-recommendation")).to_be_visible()
    # A headless browser asks for no icon. By itself, Streamlit's page would have one of another server.
    expect(page.locator("link[rel~='icon']")).to_have_attribute("href", re.compile("^data:image/svg"))
    assert [url for url in asked if not url.startswith((f"{opened.address}/", "data:", "blob:"))] == []


@pytest.mark.parametrize("sweep", ["phones", "hostile"])
def test_a_report_opens_from_its_file_whole_and_asks_for_nothing_else(
    opened: Opened, workspace: Path, tmp_path: Path, sweep: str
) -> None:
    file = tmp_path / "a report.html"
    made = CliRunner().invoke(main, ["report", sweep, "--html", str(file), "--workspace", str(workspace)])
    assert made.exit_code == 0, made.output
    page = opened.browser.new_context(offline=True, viewport={"width": 420, "height": 900}).new_page()
    asked, said = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: said.append(message.text))
    page.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
    page.goto(file.as_uri())
    expect(page.get_by_role("heading", name=sweep, exact=True)).to_be_visible()
    expect(page.get_by_text("Ship this on").first).to_be_visible()
    charts = page.locator(".charts img")
    assert charts.count() == 2 * page.locator("section").count()
    assert charts.evaluate_all("all => all.every(one => one.complete && one.naturalWidth > 300)")
    assert page.evaluate("document.documentElement.scrollWidth") <= 420
    assert [url for url in asked if not url.startswith("data:")] == [file.as_uri()]
    assert said == []
    page.context.close()


@pytest.mark.long
def test_pictures_of_all_pages_are_taken_from_a_workspace(workspace: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [
            *(sys.executable, str(SCREENSHOT), "--workspace", str(workspace), "--out", str(tmp_path)),
            *("--width", "420", "--theme", "dark"),
        ],
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
        env={**os.environ, "HOME": str(tmp_path / "home")},
    )
    assert done.returncode == 0, done.stderr
    for name in ("fleet", "decide", "launch"):
        header = (tmp_path / f"{name}-dark-420.png").read_bytes()[:24]
        assert re.match(rb"\x89PNG", header)
        width, height = int.from_bytes(header[16:20]), int.from_bytes(header[20:24])
        assert width == 420
        assert height > 1000
