"""Take pictures of the dashboard: every page, in both themes and three widths.

    python infra/screenshot.py --out pictures                             of made-up sweeps
    python infra/screenshot.py --out pictures --workspace edgesweep-data  of a workspace

Needs Debian's chromium (`apt-get install -y chromium`) and playwright (`pip install -e .[dev]`).
"""

import argparse
import sys
import tempfile
from pathlib import Path
from secrets import token_hex
from urllib.parse import urlencode

from playwright.sync_api import Browser, Page, StorageState, sync_playwright

from dashboard.views.registry import PAGES
from dashboard.web_server import serving

CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
WIDTHS = (420, 900, 1400)
THEMES = ("light", "dark")
TIMEOUT_MS = 60_000


def wait_until_drawn(page: Page) -> None:
    """Wait until the script has ended, and every chart that it put on the page is drawn."""
    page.get_by_test_id("stAppViewContainer").wait_for(timeout=TIMEOUT_MS)
    page.wait_for_function(
        """() => {
            const idle = document.querySelector('[data-testid="stApp"]').dataset.testScriptState === 'notRunning';
            const charts = [...document.querySelectorAll('[data-testid="stVegaLiteChart"]')];
            const pending = document.querySelector('[data-testid="stSkeleton"], [data-stale="true"]');
            const drawn = document.querySelector('h1, h2, h3, [data-testid="stAlert"]');
            const isDrawn = (chart) => !chart.offsetParent || chart.querySelector('canvas, svg');
            return idle && drawn && !pending && charts.every(isDrawn);
        }""",
        timeout=TIMEOUT_MS,
    )
    page.evaluate("document.fonts.ready")


def picture(
    browser: Browser,
    url: str,
    out: Path,
    width: int,
    theme: str,
    scale: float = 1,
    rights: StorageState | None = None,
    press: str = "",
) -> None:
    """Write a PNG of a whole page. `rights`: the cookies of a browser that entered by the link. `press`: the button of
    the page to press first."""
    page = browser.new_page(
        viewport={"width": width, "height": 1000},
        device_scale_factor=scale,
        color_scheme="light" if theme == "light" else "dark",
        storage_state=rights,
    )
    page.set_default_timeout(TIMEOUT_MS)
    page.goto(url)
    wait_until_drawn(page)
    if press:
        page.get_by_role("button", name=press).click()
        page.get_by_text("What would run").wait_for()
        wait_until_drawn(page)
    # Streamlit scrolls inside the page, so the window itself has to become as tall as the page's content.
    height = page.evaluate("document.querySelector('[data-testid=\"stMain\"]').scrollHeight")
    page.set_viewport_size({"width": width, "height": int(height)})
    wait_until_drawn(page)
    page.screenshot(path=out)
    page.close()


def entered(browser: Browser, link: str) -> StorageState:
    """Return the cookies of a browser that entered by the link, which works once."""
    with browser.new_context() as context:
        context.new_page().goto(link)
        return context.storage_state()


def take(workspace: Path, out: Path, query: dict[str, str], widths: tuple[int, ...], themes: tuple[str, ...]) -> None:
    """Write `PAGE-THEME-WIDTH.png` for every page of the registry, as a person who may start sweeps sees it."""
    out.mkdir(parents=True, exist_ok=True)
    token = token_hex(16)
    with serving(workspace, token=token) as port, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS, timeout=TIMEOUT_MS)
        rights = entered(browser, f"http://127.0.0.1:{port}/enter?token={token}")
        for number, entry in enumerate(PAGES):
            url = f"http://127.0.0.1:{port}/{entry.name if number else ''}?{urlencode(query)}"
            for theme in themes:
                for width in widths:
                    file = out / f"{entry.name}-{theme}-{width}.png"
                    press = "Preview" if entry.name == "launch" else ""
                    picture(browser, url, file, width, theme, rights=rights, press=press)
        browser.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--workspace", type=Path, help="made-up sweeps without it")
    parser.add_argument("--out", type=Path, required=True, help="a folder")
    parser.add_argument("--width", type=int, action="append", help=f"pixels; {', '.join(map(str, WIDTHS))} without it")
    parser.add_argument("--theme", choices=THEMES, action="append")
    arguments = parser.parse_args()
    if not CHROMIUM.exists():
        sys.exit(f"{CHROMIUM} is missing: apt-get install -y chromium")
    widths, themes = tuple(arguments.width or WIDTHS), tuple(arguments.theme or THEMES)
    if arguments.workspace is not None:
        take(arguments.workspace, arguments.out, {}, widths, themes)
    else:
        sys.path.insert(0, str(Path(__file__).parents[1]))
        import made_up

        with (
            tempfile.TemporaryDirectory(prefix="edgesweep-pictures-") as folder,
            made_up.running(made_up.make(Path(folder))),
        ):
            take(Path(folder), arguments.out, {"sweep": "release-candidate"}, widths, themes)
    print(arguments.out)  # noqa: T201  # a script's one line


if __name__ == "__main__":
    main()
