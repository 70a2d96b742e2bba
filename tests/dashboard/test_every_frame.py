"""While another selection loads, in no frame a card stands under the label of another one."""

import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from dashboard.web_server import serving
from infra import made_up as pictures
from sweeps.journal.journal import Journal
from sweeps.workspace import Workspace
from tests.chromium import chromium
from tests.free_port import free_port

pytestmark = [pytest.mark.system, pytest.mark.browser]

LIMIT_MS = 60_000
BOARD, PHONE = "Acme Board 3 (Fast SoC)", "Globex Phone 9 (SoC X)"
NOBODY = "nobody"
DEVICES = {
    "label": '.st-key-choices input[aria-label="Device"]',
    "card": ":is(.st-key-recommendation, .st-key-result-card) p",
}
WATCH = """([names, told, nobody, labelOf, linesOf]) => {
    const found = (texts, text) => names[texts.findIndex((name) => text.includes(name))] ?? nobody;
    const named = (text) => found(names, text);
    const isSeen = (part) => {
        const box = part.getBoundingClientRect();
        return getComputedStyle(part).visibility === 'visible' && box.width > 0 && box.height > 0;
    };
    const look = () => {
        const box = document.querySelector(labelOf);
        const label = named(box?.value || box?.textContent || '');
        const lines = [...document.querySelectorAll(linesOf)].filter(isSeen);
        const of = lines.map((line) => found(told, line.textContent)).filter((name) => name !== nobody);
        window.frames_seen.push([label, of.length ? [...new Set(of)].join(' and ') : nobody]);
    };
    // A size that changes is reported after the layout of its frame, when nothing of the frame can change any more.
    const probe = document.body.appendChild(document.createElement('div'));
    probe.style.cssText = 'position: fixed; visibility: hidden; height: 1px; width: 1px';
    new ResizeObserver(look).observe(probe);
    const tick = () => {
        probe.style.width = probe.style.width === '1px' ? '2px' : '1px';
        requestAnimationFrame(tick);
    };
    window.frames_seen = [];
    requestAnimationFrame(tick);
}"""
"""Keeps of every frame, as it is painted: what the selector names, and what the card names."""


@pytest.fixture(scope="module")
def page(workspace: Path) -> Iterator[Page]:
    expect.set_options(timeout=LIMIT_MS)
    with serving(workspace, port=free_port()) as port, chromium(LIMIT_MS) as browser:
        page = browser.new_page(viewport={"width": 1400, "height": 1000}, base_url=f"http://127.0.0.1:{port}")
        page.set_default_timeout(LIMIT_MS)
        yield page


@pytest.fixture(scope="module")
def made_up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a dashboard of sweeps with several models."""
    folder = tmp_path_factory.mktemp("made-up")
    pictures.make(folder)
    with serving(folder, port=free_port()) as port:
        yield f"http://127.0.0.1:{port}/"


def by_mouse(page: Page, device: str) -> None:
    page.get_by_role("combobox", name="Device").click()
    page.get_by_role("option", name=device).click()


def by_keyboard(page: Page, device: str) -> None:
    """Two devices are listed: the other one is the next or the one before."""
    box = page.get_by_role("combobox", name="Device")
    box.focus()
    box.press("ArrowDown")
    expect(page.get_by_role("listbox")).to_be_visible()
    box.press("ArrowDown" if device == PHONE else "ArrowUp")
    box.press("Enter")


@pytest.mark.parametrize("name", ["decide", "result"])
def test_no_visible_card_names_another_device_than_the_selector(page: Page, name: str) -> None:
    page.goto(f"/{name}?sweep=phones&device=board-1")
    wait_for_pair(page, BOARD, start=True)
    for device, choose in zip((PHONE, BOARD) * 2, itertools.cycle((by_mouse, by_mouse, by_keyboard, by_keyboard))):
        choose(page, device)
        wait_for_pair(page, device)
    nothing_wrong(page, [BOARD, PHONE, BOARD, PHONE, BOARD])


def test_nothing_that_is_seen_on_devices_is_of_another_device_than_the_box_says(page: Page) -> None:
    page.goto("/devices?device=board-1")
    units, signs = ("· board-1", "Globex Phone 9 (SoC X) · adb:1"), ("it is the device", "by its adb server")
    watched = {
        "label": 'input[aria-label="Device"]',
        "card": '[data-testid="stText"]',
        "there": ".st-key-measured-there",
    }
    wait_for_pair(page, units[0], start=True, names=units, card_texts=signs, watched=watched)
    for unit in (units[1], units[0]) * 2:
        page.get_by_role("combobox", name="Device", exact=True).click()
        page.get_by_role("option", name=unit).click()
        wait_for_pair(page, unit)
    nothing_wrong(page, [units[0], *(units[1], units[0]) * 2])


def nothing_wrong(page: Page, expected: list[str]) -> None:
    """No frame had a card of another selection than its label; the pairs that were seen are `expected`."""
    # Before the first one the page is not drawn yet.
    pairs = itertools.dropwhile(lambda pair: pair[0] == NOBODY, map(tuple, page.evaluate("window.frames_seen")))
    changes = [pair for pair, _ in itertools.groupby(pairs)]
    wrong = [(label, card) for label, card in changes if card not in (label, NOBODY)]
    assert not wrong, changes
    shown = [label for label, card in changes if label == card != NOBODY]
    assert [pair for pair, _ in itertools.groupby(shown)] == expected, changes


def test_no_visible_card_is_of_another_objective_than_the_sidebar_says(page: Page) -> None:
    page.goto("/decide?sweep=phones&device=board-1")
    goals = ("lowest latency (p50)", "lowest file's size")
    watched = {"label": 'input[aria-label="The best has the"]', "card": ".st-key-recommendation p"}
    wait_for_pair(page, goals[0], start=True, names=goals, watched=watched)
    for goal in (goals[1], goals[0]) * 2:
        page.get_by_role("combobox", name="The best has the").click()
        page.get_by_role("option", name=goal).click()
        wait_for_pair(page, goal)
    nothing_wrong(page, [goals[0], *(goals[1], goals[0]) * 2])


def test_no_visible_verdict_is_of_another_variant_than_compare_s_box_says(page: Page, workspace: Path) -> None:
    with Journal.open(Workspace(workspace).journal, read_only=True) as journal:
        keys = {job.name: job.key for job, _ in journal.jobs.of_sweep("phones") if job.device_id == "board-1"}
    a, b = (next(key for name, key in keys.items() if part in name) for part in ("int8-x86 nhwc script", "fp32 nhwc"))
    page.goto(f"/compare?a=phones:{a}&b=phones:{b}")
    variants = ("fp32 · NHWC · 1 thread · scripted · optimized", "fp32 · NCHW · 1 thread · scripted · optimized")
    verdict_box = ".st-key-verdict"
    watched = {"label": 'input[aria-label="B: variant"]', "card": f"{verdict_box} p", "there": verdict_box}
    wait_for_pair(page, variants[0], start=True, names=variants, watched=watched)
    for variant in (variants[1], variants[0]):
        page.get_by_role("combobox", name="B: variant").click()
        page.get_by_role("option", name=variant).click()
        wait_for_pair(page, variant)
    nothing_wrong(page, [variants[0], variants[1], variants[0]])


def test_no_visible_map_is_of_another_model_than_fleet_s_row_of_models_says(page: Page, made_up: str) -> None:
    page.goto(f"{made_up}?sweep=release-candidate&model=resnet18")
    models = ("resnet18", "efficientnet_b0")
    watched = {"label": '.st-key-choices [role="radio"][aria-checked="true"]', "card": ".st-key-shipping p"}
    wait_for_pair(page, models[0], start=True, names=models, watched=watched)
    for model in (models[1], models[0]) * 2:
        page.get_by_role("radio", name=model).click()
        wait_for_pair(page, model)
    nothing_wrong(page, [models[0], *(models[1], models[0]) * 2])


def test_no_visible_map_is_of_another_sweep_than_fleet_s_box_says(page: Page, made_up: str) -> None:
    page.goto(f"{made_up}?sweep=release-candidate&model=resnet18")
    sweeps, card_texts = ("release-candidate", "last-week"), ("8 of 8", "2 of 2")
    watched = {"label": 'input[aria-label="Sweep"]', "card": ".st-key-shipping p"}
    wait_for_pair(page, sweeps[0], start=True, names=sweeps, card_texts=card_texts, watched=watched)
    for sweep in (sweeps[1], sweeps[0]) * 2:
        page.get_by_role("combobox", name="Sweep").click()
        page.get_by_role("option", name=sweep).click()
        wait_for_pair(page, sweep)
    nothing_wrong(page, [sweeps[0], *(sweeps[1], sweeps[0]) * 2])


def test_no_visible_card_is_of_another_bound_than_its_field_says(page: Page) -> None:
    """The card follows its field also while somebody types there, and after Enter, when the field still has the
    focus."""
    page.goto("/decide?sweep=phones&device=board-1")
    bounds, card_texts = ("0.875", "0.9", "1"), ("at most 0.875 points", "at most 0.9 points", "at most 1 points")
    watched = {"label": 'input[aria-label="Accuracy drop, at most (points)"]', "card": ".st-key-recommendation p"}
    wait_for_pair(page, bounds[2], start=True, names=bounds, card_texts=card_texts, watched=watched)
    field = page.locator(watched["label"])
    for bound in (*bounds, bounds[0]):
        field.fill(bound)
        page.wait_for_function("nobody => window.frames_seen.at(-1)[1] === nobody", arg=NOBODY)
        field.press("Enter")
        wait_for_pair(page, bound)
        expect(field).to_be_focused()
    nothing_wrong(page, [bounds[2], *bounds, bounds[0]])


def wait_for_pair(
    page: Page,
    device: str,
    *,
    start: bool = False,
    names: tuple[str, ...] = (BOARD, PHONE),
    card_texts: tuple[str, ...] | None = None,
    watched: Mapping[str, str] = DEVICES,
) -> None:
    """Until the last frame has the card of the selection under its label. `told`: what cards say of each of `names`,
    where they do not name it."""
    if start:
        page.locator(watched.get("there", ".st-key-choices")).wait_for()
        page.evaluate(WATCH, [names, card_texts or names, NOBODY, watched["label"], watched["card"]])
    page.wait_for_function(
        "device => window.frames_seen.length && window.frames_seen.at(-1).every((name) => name === device)", arg=device
    )
