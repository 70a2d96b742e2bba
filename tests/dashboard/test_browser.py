"""One path in a real browser: what a person sees, and that nothing of the store comes alive there."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect, sync_playwright

from dashboard.launch import serving

pytestmark = [pytest.mark.system, pytest.mark.browser]

LIMIT_MS = 60_000
expect.set_options(timeout=LIMIT_MS)
SCREENSHOT = Path(__file__).parents[2] / "infra/screenshot.py"


@pytest.fixture(scope="module")
def opened(workspace: Path) -> Iterator[Page]:
    with serving(workspace) as port, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium",
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
            timeout=LIMIT_MS,
        )
        page = browser.new_page(viewport={"width": 1400, "height": 1000})
        page.set_default_timeout(LIMIT_MS)
        page.goto(f"http://127.0.0.1:{port}")
        yield page
        browser.close()


def choose(page: Page, label: str, option: str) -> None:
    page.get_by_role("combobox", name=label).click()
    page.get_by_role("option", name=option, exact=True).click()


@pytest.mark.smoke
def test_a_person_reads_the_recommendation_and_switches_device_and_sweep(
    opened: Page, tmp_path: Path, evil: str
) -> None:
    dialogs: list[str] = []
    opened.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    card = opened.locator(".st-key-recommendation")

    expect(opened.get_by_role("heading", name="EdgeSweep")).to_be_visible()
    expect(card.get_by_role("heading")).to_have_text("cpu int8-x86 nhwc script fused optimized")
    expect(card).to_contain_text("3.003 ms")
    table = opened.get_by_test_id("stDataFrame").first
    expect(table).to_be_visible()
    # Cells are painted; this is what a screen reader is given.
    expect(table).to_contain_text("2.984 to 3.022 ms")
    expect(opened.locator('[data-testid="stVegaLiteChart"] :is(canvas, svg.marks)')).to_have_count(2)

    choose(opened, "Device", "Globex Phone 9 (SoC X)")
    expect(card.get_by_role("heading")).to_have_text("cpu int8-qnnpack nchw script fused optimized")

    choose(opened, "Sweep", "hostile")
    expect(card.get_by_role("heading")).to_contain_text("<script>alert(1)</script>")
    # The word joiner that keeps `:material/` from matching has no width.
    assert evil in (card.get_by_role("heading").text_content() or "").replace("\u2060", "")
    assert card.locator("a, script").count() == 0
    assert opened.locator("a[href^='javascript:'], a[href*='example.com']").count() == 0
    assert dialogs == []

    choose(opened, "Sweep", "checked")
    # While a page is drawn anew, parts of the one before stand above those of this one: `last` is of this one, and in
    # the end there is no other.
    heading = opened.get_by_role("heading", name="Checked on this host, not timed")
    expect(heading.last).to_be_visible()
    checked = opened.get_by_test_id("stDataFrame").filter(has_text="Checked by")
    expect(checked.last).to_contain_text("nnapi int8-qnnpack nhwc")
    expect(checked.last).to_contain_text("reference:nnapi@1")
    expect(heading).to_have_count(1)
    expect(checked).to_have_count(1)
    expect(opened.locator(".st-key-checked-chart :is(canvas, svg.marks)")).to_have_count(1)

    choose(opened, "Sweep", "raced")
    expect(opened.get_by_role("heading", name="All units of this class")).to_have_count(1)
    expect(opened.get_by_role("heading", name="All units of this class").last).to_be_visible()
    expect(card).to_contain_text("Shown at 95 % to be within 2 % of the best")
    evidence = f"left after 3 rounds: at least 2.01 times as slow as {evil}"
    reasons = opened.get_by_test_id("stExpander").filter(has_text="Why not the others")
    expect(reasons.last).to_contain_text(evidence)
    expect(reasons).to_have_count(1)
    assert opened.locator("a[href^='javascript:'], a[href*='example.com']").count() == 0
    choose(opened, "Sweep", "open")
    expect(card.get_by_test_id("stCode")).to_contain_text("edgesweep run SWEEP.yaml --settle ")
    assert dialogs == []

    choose(opened, "Sweep", "broken")
    expect(card.get_by_role("heading")).to_have_text("No winner")
    picture = tmp_path / "broken.png"
    opened.screenshot(path=picture)
    assert picture.stat().st_size > 10_000


@pytest.mark.long
def test_the_readme_picture_is_taken_from_a_workspace(workspace: Path, tmp_path: Path) -> None:
    picture = tmp_path / "picture.png"
    done = subprocess.run(
        [sys.executable, str(SCREENSHOT), "--workspace", str(workspace), "--out", str(picture)],
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    header = picture.read_bytes()[:24]
    assert re.match(rb"\x89PNG", header)
    width, height = int.from_bytes(header[16:20]), int.from_bytes(header[20:24])
    assert width == 2800
    assert height > 2000
