"""From the printed link to a finished sweep in a real browser; and who may not start one."""

import re
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from dashboard.launch import serving
from dashboard.options import Options
from sweeps.launching.driver import find
from sweeps.workspace import Workspace
from tests.dashboard.issuer import CLIENT, issuing
from tests.free_port import free_port
from tests.fresh_mlflow import fresh_mlflow

pytestmark = [pytest.mark.system, pytest.mark.browser, pytest.mark.long]

LIMIT_MS = 120_000
TOKEN = "one-entry"
SMALL = """\
name: small
models:
  - {source: mobilenet_v2, arguments: {width_mult: 0.35, num_classes: 10}, weights: random, input_shape: [1, 3, 32, 32]}
data: {calibration: {source: synthetic, images: 8}, evaluation: {source: synthetic, images: 8}}
grids:
  - {precision: [fp32], layout: [nchw, nhwc]}
devices: ["fake:steady"]
protocol: {preset: quick}
objective: {minimize: latency_p50_ms, constraints: []}
"""


@pytest.fixture
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium",
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
            timeout=LIMIT_MS,
        )
        yield browser
        browser.close()


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


def test_a_person_with_the_link_launches_a_sweep_and_sees_it_end_and_others_only_look(
    browser: Browser, root: Path
) -> None:
    with serving(root, token=TOKEN, options=Options(root), port=free_port()) as port:
        home = f"http://127.0.0.1:{port}"
        person = browser.new_context(viewport={"width": 1400, "height": 1000}).new_page()
        person.set_default_timeout(LIMIT_MS)
        expect.set_options(timeout=LIMIT_MS)
        person.goto(f"{home}/enter?token={TOKEN}")
        assert TOKEN not in person.url
        person.goto(f"{home}/launch")
        file = person.get_by_role("textbox", name="Sweep file")
        start = person.get_by_role("button", name="Start")
        expect(start).to_be_enabled()

        file.fill(SMALL.replace("fp32", "fp23"))
        file.press("Control+Enter")
        expect(person.get_by_text("line 6: grids[0].precision[0]: the text 'fp23' is not allowed")).to_be_visible()
        expect(start).to_be_disabled()
        file.fill(SMALL)
        file.press("Control+Enter")
        expect(start).to_be_enabled()
        person.get_by_role("button", name="Preview").click()
        expect(person.get_by_text("What would run")).to_be_visible()
        expect(person.get_by_text("2 jobs", exact=True)).to_be_visible()

        stranger = browser.new_context().new_page()
        stranger.set_default_timeout(LIMIT_MS)
        stolen = stranger.goto(f"{home}/enter?token={TOKEN}")
        assert stolen is not None
        assert stolen.status == 403
        stranger.goto(f"{home}/launch")
        expect(stranger.get_by_text("You may look")).to_be_visible()
        expect(stranger.get_by_role("button", name="Start")).to_be_disabled()

        start.click()
        expect(person.get_by_role("button", name="Pause")).to_be_visible()
        stranger.goto(f"{home}/live")
        heading = re.compile(r"^small · ")
        for page in (person, stranger):
            expect(page.get_by_role("heading", name=heading)).to_be_visible()
        expect(stranger.get_by_role("button", name="Pause")).to_have_count(0)
        person.goto(f"{home}/live")
        for page in (person, stranger):
            expect(page.get_by_role("heading", name="small · Ended")).to_be_visible()
            # While it is drawn anew there may be two for a moment.
            expect(page.get_by_text("2 of 2 jobs").first).to_be_visible()
    ended = find(Workspace(root))
    assert ended.launch is not None
    assert ended.launch.by == "the user of this computer"
    deadline = time.monotonic() + 60
    while find(Workspace(root)).state != "idle":
        assert time.monotonic() < deadline
        time.sleep(0.1)


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
    roles.write_text("ann@example.org: launch\n")
    options = Options(root, roles=roles, login=True)
    with issuing() as issuer:
        secrets.write_text(SECRETS.format(port=port, client=CLIENT, url=issuer.url))
        with serving(root, token=TOKEN, options=options, auth_secrets=secrets, port=port):
            for claims, may in (
                ({"email": "Ann@example.org", "email_verified": True}, True),
                ({"email": "ann@example.org", "email_verified": False}, False),
                ({"email": "ann@example.org"}, False),
                ({"email": "bob@example.org", "email_verified": True}, False),
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
                if may:
                    expect(start).to_be_enabled()
                else:
                    expect(page.get_by_text("You may look")).to_be_visible()
                    expect(start).to_be_disabled()
                context.close()
