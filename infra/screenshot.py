"""Take the README's picture of the dashboard from a workspace.

    python infra/screenshot.py --workspace edgesweep-data --out dashboard.png

Needs Debian's chromium (`apt-get install -y chromium`) and playwright (`pip install -e .[dev]`).
"""

import argparse
import sys
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from dashboard.launch import serving

CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
WIDTH = 1400
TIMEOUT_MS = 60_000


def wait_until_drawn(page: Page) -> None:
    """The script has ended, and every chart that it put on the page is drawn."""
    page.get_by_role("heading", name="EdgeSweep").wait_for(timeout=TIMEOUT_MS)
    page.wait_for_function(
        """() => {
            const idle = document.querySelector('[data-testid="stApp"]').dataset.testScriptState === 'notRunning';
            const charts = [...document.querySelectorAll('[data-testid="stVegaLiteChart"]')];
            const pending = document.querySelector('[data-testid="stSkeleton"], [data-stale="true"]');
            return idle && !pending && charts.every((chart) => chart.querySelector('canvas, svg'));
        }""",
        timeout=TIMEOUT_MS,
    )
    page.evaluate("document.fonts.ready")


def take(workspace: Path, out: Path) -> None:
    """Write a PNG of the whole page, 1400 pixels wide, two pixels per point."""
    with serving(workspace) as port, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS, timeout=TIMEOUT_MS)
        page = browser.new_page(viewport={"width": WIDTH, "height": 1000}, device_scale_factor=2, color_scheme="light")
        page.set_default_timeout(TIMEOUT_MS)
        page.goto(f"http://127.0.0.1:{port}")
        wait_until_drawn(page)
        # Streamlit scrolls inside the page, so that the window itself has to become as tall as what is in it.
        height = page.evaluate("document.querySelector('[data-testid=\"stMain\"]').scrollHeight")
        page.set_viewport_size({"width": WIDTH, "height": int(height)})
        wait_until_drawn(page)
        page.screenshot(path=out)
        browser.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--workspace", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    if not CHROMIUM.exists():
        sys.exit(f"{CHROMIUM} is missing: apt-get install -y chromium")
    take(arguments.workspace, arguments.out)
    print(arguments.out)  # noqa: T201  # a script's one line


if __name__ == "__main__":
    main()
