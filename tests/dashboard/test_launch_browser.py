"""From the printed link to a build for two virtual phones in a real browser; and who may not start a sweep."""

import hashlib
import http.server
import io
import json
import re
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest
from playwright.sync_api import Browser, Page, expect

from dashboard.arguments import Options
from dashboard.web_server import serving
from sweeps.journal.journal import Journal
from sweeps.launching.driver import find
from sweeps.workspace import Workspace
from tests.chromium import chromium
from tests.dashboard.issuer import CLIENT, issuing
from tests.faulty_phone import FaultyPhone
from tests.free_port import free_port
from tests.fresh_mlflow import fresh_mlflow
from workers.devices.adb.adb_host import AdbHost

pytestmark = [pytest.mark.system, pytest.mark.browser, pytest.mark.long]

LIMIT_MS = 120_000
TOKEN, NEXT_TOKEN = "one-entry", "another-entry"
HOT_C, COOL_C = 44.0, 25.0
SMALL = """\
name: small
models:
  - {source: mobilenet_v2, arguments: {width_mult: 0.35, num_classes: 10}, weights: random, input_shape: [1, 3, 32, 32]}
data: {calibration: {source: synthetic, images: 8}, evaluation: {source: synthetic, images: 8}}
grids:
  - {precision: [fp32], layout: [nchw, nhwc]}
devices: [local]
protocol: {preset: quick, min_seconds: 0.2, gate: {max_load: 1.0, wait_seconds: 600}}
objective: {minimize: latency_p50_ms, constraints: []}
"""
ENDED = re.compile(r"^small · Ended$")
OPENS = """address => new Promise(told => {
    const socket = new WebSocket(address);
    socket.onopen = () => { told(true); socket.close(); };
    socket.onerror = () => told(false);
})"""


@pytest.fixture
def browser() -> Iterator[Browser]:
    with chromium(LIMIT_MS) as browser:
        yield browser


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    root = tmp_path / "workspace"
    root.mkdir()
    fresh_mlflow(root)
    yield root
    left = find(Workspace(root))
    if left.pid:  # the test failed before its end
        with suppress(psutil.NoSuchProcess):
            psutil.Process(left.pid).kill()


class _Foreign(http.server.BaseHTTPRequestHandler):
    """A page of another program on this computer."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"<title>foreign</title>")

    def log_message(self, *_: object) -> None:
        """Not on the test's stderr."""


@contextmanager
def foreign_page() -> Iterator[str]:
    """The address of one on another port of this computer: a browser sends it the cookies of all ports."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Foreign) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def a_page(browser: Browser) -> Page:
    """Of a browser session of its own."""
    page = browser.new_context(viewport={"width": 1400, "height": 1000}).new_page()
    page.set_default_timeout(LIMIT_MS)
    return page


def write(page: Page, text: str) -> None:
    file = page.get_by_role("textbox", name="Sweep file")
    file.fill(text)
    file.press("Control+Enter")


def launched(person: Page, home: str, serials: list[str]) -> None:
    """From the page of who has the rights to a sweep of both phones that has begun."""
    person.goto(f"{home}/launch")
    start = person.get_by_role("button", name="Start").first  # there may be an old one for a moment
    expect(start).to_be_enabled()
    write(person, SMALL.replace("fp32", "fp23"))
    expect(person.get_by_text("line 6: grids[0].precision[0]: the text 'fp23' is not allowed")).to_be_visible()
    expect(start).to_be_disabled()

    person.get_by_role("button", name="Look for devices").click()
    for serial in serials:
        expect(person.locator("strong", has_text=f"adb:{serial}")).to_be_visible()
    first, second = (f"adb:{serial}" for serial in serials)
    write(person, SMALL.replace("local", json.dumps(first)))
    expect(start).to_be_enabled()
    box = person.get_by_role("combobox", name="Devices")
    box.fill(second)
    box.press("Enter")
    box.press("Escape")  # its list hides the rest of the page
    expect(person.get_by_role("textbox", name="Sweep file")).to_have_value(re.compile(re.escape(second)))

    person.get_by_role("button", name="Preview").click()
    expect(person.get_by_text("What would run")).to_be_visible()
    expect(person.get_by_text("4 jobs", exact=True)).to_be_visible()
    start.click()
    expect(person.get_by_role("button", name="Pause")).to_be_visible()


def refused(stranger: Page, home: str) -> None:
    """Who has a used link, or no page of this server, starts nothing."""
    stolen = stranger.goto(f"{home}/enter?token={TOKEN}")
    assert stolen is not None
    assert stolen.status == 403
    stranger.goto(f"{home}/launch")
    expect(stranger.get_by_text("You may look")).to_be_visible()
    expect(stranger.get_by_role("button", name="Start")).to_be_disabled()


def kept_out(person: Page, home: str) -> None:
    """A foreign page in the browser that has the rights opens no connection; the server's own page does."""
    address = f"{home.replace('http', 'ws', 1)}/_stcore/stream"
    assert person.evaluate(OPENS, address) is True
    page = person.context.new_page()
    with foreign_page() as there:
        page.goto(there)
        assert page.title() == "foreign"
        assert page.evaluate(OPENS, address) is False
    page.close()


def shown_as_hot(page: Page, home: str, serials: list[str]) -> None:
    """Live has a card for each phone, and what the hot one waits for."""
    page.goto(f"{home}/live")
    expect(page.get_by_role("heading", name=re.compile(r"^small · "))).to_be_visible()
    for serial in serials:
        expect(page.get_by_text(f"adb:{serial}").first).to_be_visible()
    expect(page.get_by_text(f"battery at {HOT_C} °C").first).to_be_visible()


def paused_and_resumed(page: Page) -> None:
    """On Live, while a phone is hot: what is measured is kept, and the same sweep goes on."""
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("heading", name=re.compile(r"^small · Paused$"))).to_be_visible()
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_role("button", name="Pause")).to_be_visible()


def test_a_person_with_a_browser_goes_from_launch_to_a_build_and_others_only_look(
    browser: Browser, root: Path, port: int, phones: list[FaultyPhone]
) -> None:
    host, serials = AdbHost(port), [phone.serial for phone in phones]
    assert all(host.connect(serial) for serial in serials)
    phones[0].heat(HOT_C)
    own, options, workspace = free_port(), Options(root), Workspace(root)
    home = f"http://127.0.0.1:{own}"
    expect.set_options(timeout=LIMIT_MS)
    person, stranger, fleet = a_page(browser), a_page(browser), a_page(browser)
    with serving(root, token=TOKEN, options=options, port=own):
        person.goto(f"{home}/enter?token={TOKEN}")
        assert TOKEN not in person.url
        refused(stranger, home)
        stranger.goto(f"{home}/live")
        expect(stranger.get_by_text("Nothing was started yet")).to_be_visible()
        fleet.goto(f"{home}/launch")
        expect(fleet.get_by_role("button", name="Start")).to_be_visible()
        launched(person, home, serials)
        for page in (stranger, fleet):  # where nothing ran when they were opened
            expect(page.get_by_role("heading", name=re.compile(r"^small · "))).to_be_visible()
        kept_out(person, home)
        for page in (person, stranger):
            shown_as_hot(page, home, serials)
        expect(stranger.get_by_role("button", name="Pause")).to_have_count(0)
        running = find(workspace)
    assert running.pid
    assert find(workspace).pid == running.pid, "it survives the dashboard"
    assert running.launch is not None
    assert running.launch.by == "the user of this computer"
    with serving(root, token=NEXT_TOKEN, options=options, port=own):
        person.goto(f"{home}/enter?token={NEXT_TOKEN}")
        for page in (person, stranger):
            shown_as_hot(page, home, serials)
        paused_and_resumed(person)
        for page in (person, stranger):
            shown_as_hot(page, home, serials)
        waits = a_page(browser)
        with Journal.open(workspace.journal, read_only=True) as journal:
            hot = next(one for one in journal.plans.devices("small") if one.name == f"adb:{serials[0]}")
        waits.goto(f"{home}/decide?sweep=small&device={hot.device_id}")
        first_there = waits.locator(".st-key-recommendation").get_by_role("heading").first
        expect(first_there).to_have_text("Waiting")
        fleet.goto(home)
        runs_now = fleet.locator(".st-key-runs-now")
        expect(runs_now).to_contain_text("small")
        phones[0].heat(COOL_C)
        for page in (person, stranger):
            expect(page.get_by_role("heading", name=ENDED)).to_be_visible()
            expect(page.get_by_text("2 of 2 jobs", exact=True)).to_have_count(2)
        expect(runs_now).to_contain_text("Nothing.")
        expect(first_there).to_have_text(re.compile(r"^fp32 · "))

        person.get_by_role("link", name="Decide").first.click()
        card = person.locator(".st-key-recommendation")
        headline = card.get_by_role("heading").first
        expect(headline).to_have_text(re.compile(r"^fp32 · (NCHW|NHWC) · "))
        best = headline.inner_text()
        limit = person.get_by_label("Latency p50, at most (ms)")
        for ms, shown in (("0.01", "No winner"), ("500", best)):
            limit.fill(ms)
            limit.press("Enter")
            expect(headline).to_have_text(shown)
        expect(person).to_have_url(re.compile(r"ms=500"))

        stranger.goto(person.url)
        expect(stranger.locator(".st-key-recommendation").get_by_role("heading").first).to_have_text(best)
        with person.expect_download() as downloading:
            person.get_by_role("button", name="Download this build").click()
        archive = zipfile.ZipFile(io.BytesIO(downloading.value.path().read_bytes()))
        manifest = json.loads(archive.read("manifest.json"))
        assert manifest["expected"]["figures"]["latency_p50_ms"] > 0
        assert manifest["artifact"]["file_sha256"] == hashlib.sha256(archive.read("model.pt")).hexdigest()

        card.get_by_role("link", name="Compare it").click()
        verdict = person.locator(".st-key-verdict")
        expect(verdict.get_by_role("heading")).to_be_visible()
        expect(verdict).to_contain_text(best)
        expect(person).to_have_url(re.compile(r"/compare\?.*a=small"))


SECRETS = """\
[auth]
redirect_uri = "http://127.0.0.1:{port}/oauth2callback"
cookie_secret = "of this test only"
client_id = "{client}"
client_secret = "none"
server_metadata_url = "{url}/.well-known/openid-configuration"
"""


def test_people_who_log_in_have_the_role_of_their_address_if_it_was_checked(browser: Browser, root: Path) -> None:
    port, secrets, roles = free_port(), root.with_name("secrets.toml"), root.with_name("roles.yaml")
    roles.write_text("ann@example.org: launch\nolga@example.org: operate\n")
    options = Options(root, roles=roles, login=True)
    with issuing() as issuer:
        secrets.write_text(SECRETS.format(port=port, client=CLIENT, url=issuer.url))
        with serving(root, token=TOKEN, options=options, auth_secrets=secrets, port=port):
            for claims, may in (
                ({"email": "Ann@example.org", "email_verified": True}, "launch sweeps"),
                ({"email": "olga@example.org", "email_verified": True}, "operate this computer"),
                ({"email": "ann@example.org", "email_verified": False}, "look"),
                ({"email": "ann@example.org"}, "look"),
                ({"email": "bob@example.org", "email_verified": True}, "look"),
            ):
                issuer.claims = claims
                context = browser.new_context()
                page = context.new_page()
                page.set_default_timeout(LIMIT_MS)
                expect.set_options(timeout=LIMIT_MS)
                page.goto(f"http://127.0.0.1:{port}/launch")
                expect(page.get_by_text("Log in to see the results of this workspace.")).to_be_visible()
                assert page.get_by_role("button", name="Start").count() == 0
                page.get_by_role("button", name="Log in").click()
                page.wait_for_url(f"http://127.0.0.1:{port}/")
                expect(page.get_by_text("Log in to see the results of this workspace.")).to_have_count(0)
                page.goto(f"http://127.0.0.1:{port}/launch")
                start = page.get_by_role("button", name="Start")
                expect(start).to_be_visible()
                expect(page.get_by_text(f"who may {may}.")).to_be_visible()
                expect(page.get_by_text("Let another browser in")).to_have_count(int(may == "operate this computer"))
                if may != "look":
                    expect(start).to_be_enabled()
                else:
                    expect(page.get_by_text("You may look")).to_be_visible()
                    expect(start).to_be_disabled()
                if may == "operate this computer":
                    page.get_by_role("button", name="Log out").click()
                    expect(page.get_by_role("button", name="Log in")).to_be_visible()
                context.close()
