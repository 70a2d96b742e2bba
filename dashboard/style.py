"""Style that all pages share: width, spacing, and colours that colour-blind people can tell apart."""

from collections.abc import Iterable
from dataclasses import dataclass

import streamlit as st

WIDTH_PX = 1280

GREEN = "#009E73"
ORANGE = "#E69F00"
VERMILION = "#D55E00"
PINK = "#CC79A7"
"""Colours of Okabe and Ito's palette."""
GREY = "#8A94A0"


@dataclass(frozen=True, slots=True)
class Palette:
    """Colours of one theme, for charts."""

    text: str
    quiet: str
    faint: str
    """Grid lines."""
    empty: str
    """Cells without a figure."""
    winner: str
    ships: str
    unresolved: str
    best: str
    """Cells of a heat map with the lowest cost."""
    worst: str
    """Cells of a heat map with the highest cost of a build that may ship; colours in between are mixed."""
    on_best: str
    on_worst: str
    side_a: str
    """Sides A and B of a comparison, which charts also place apart."""
    side_b: str


LIGHT = Palette(
    text="#17212E",
    quiet="#5B6774",
    faint="#E3E8EE",
    empty="#EEF0F2",
    winner="#0B5CAD",
    ships="#4F8ECB",
    unresolved="#B27300",
    best="#0B5CAD",
    worst="#E4EDF7",
    on_best="#FFFFFF",
    on_worst="#000000",
    side_a="#B85C00",
    side_b="#0B5CAD",
)
DARK = Palette(
    text="#E6EDF5",
    quiet="#9AA7B5",
    faint="#2A3542",
    empty="#1B232C",
    winner="#7CC0FF",
    ships="#3D87CC",
    unresolved=ORANGE,
    best="#7CC0FF",
    worst="#1C3147",
    on_best="#000000",
    on_worst="#FFFFFF",
    side_a="#F0B040",
    side_b="#7CC0FF",
)


def contrast(first: str, second: str) -> float:
    """Return the contrast ratio of two colours (`#RRGGBB`) by WCAG 2, from 1 to 21."""
    brighter, darker = sorted((_luminance(first), _luminance(second)), reverse=True)
    return (brighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def palette() -> Palette:
    """Return the palette of the theme in which this page is shown."""
    return DARK if st.context.theme.type == "dark" else LIGHT


ICON = (
    '<svg viewBox="0 0 24 24"><rect width="24" height="24" rx="5" fill="#0B5CAD"/>'
    '<path d="M6 18v-5M12 18v-8M18 18V6" stroke="#FFF" stroke-width="3.2" stroke-linecap="round"/></svg>'
)
"""Icon of the browser's tab. With Streamlit's default, the browser would request an icon from another server."""

STYLE = """<style>
.stMainBlockContainer { padding: 4.5rem clamp(1rem, 4vw, 5rem) 3rem; }
[data-testid="stHeading"] :is(h1, h2, h3) { padding: 0.25rem 0 0.5rem; }
/* Text of at least 4.5 times the contrast of its background; disabled controls have less. */
[data-testid="stCaptionContainer"] { opacity: 0.78; }
[data-testid="stBaseButton-primary"]:is(*, :hover):not(:disabled) { color: light-dark(#FFFFFF, #0B1A2A); }
/* A name that is too long for its box ends in dots; it stands whole in the list, and in the card below. */
[data-testid="stSelectbox"] input { text-overflow: ellipsis; }
@media (max-width: 640px) { [data-testid="stSelectbox"] input { font-size: 0.8125rem; } }
/* What is of another selection is not to be seen under the new one, not even for a moment. */
[class*="st-key-now-"] [data-stale="true"], [class*="st-key-now-"] [data-stale="true"] *,
[data-stale="true"] [class*="st-key-now-"], [data-stale="true"] [class*="st-key-now-"] * {
    visibility: hidden !important;  /* Streamlit makes some of what is in them visible. */
}
/* Nor while a number is typed that was not entered yet. */
.stApp:has([data-testid="InputInstructions"] > *) [class*="st-key-now-"],
.stApp:has([data-testid="InputInstructions"] > *) [class*="st-key-now-"] * { visibility: hidden !important; }
[class*="st-key-now-"] h2 {
    padding: 0 0 0.4rem; font-size: clamp(1.5rem, 4.5vw, 2.4rem); line-height: 1.15; overflow-wrap: anywhere;
}
[class*="st-key-eyebrow"] p { letter-spacing: 0.06em; text-transform: none; overflow-wrap: anywhere; }
/* Side by side where there is room for it, otherwise one below the other. */
.st-key-charts, .st-key-attention, .st-key-choices, .st-key-devices-now { flex-flow: row wrap !important; }
.st-key-charts > * { flex: 1 1 26rem !important; min-width: min(100%, 26rem) !important; }
.st-key-attention > * { flex: 1 1 20rem !important; min-width: min(100%, 20rem) !important; }
.st-key-devices-now > * { flex: 1 1 26rem !important; min-width: min(100%, 26rem) !important; }
.st-key-choices > * { flex: 1 1 13rem !important; min-width: min(100%, 13rem) !important; }
.st-key-choices > *:nth-child(2) { flex-grow: 2 !important; }
/* All values of an axis are seen at once. */
[data-testid="stButtonGroup"] > div { flex-wrap: wrap; }
.st-key-figures {
    display: grid !important; grid-template-columns: repeat(auto-fit, minmax(8rem, 1fr));
    column-gap: 1.25rem !important; max-width: 64rem;
}
.st-key-figures > * { width: auto !important; }
.st-key-needs-attention [data-testid="stPageLink"] * { white-space: normal; overflow: visible; }
/* Links of all lines one below the other. */
.st-key-measured-there [data-testid="stElementContainer"]:has([data-testid="stMarkdown"]) {
    flex: 0 1 31rem !important;
}
@media (max-width: 640px) { :has(> .st-key-fleet-wide), :has(> .st-key-ended-wide) { display: none; } }
@media (min-width: 641px) { :has(> .st-key-fleet-narrow), :has(> .st-key-ended-narrow) { display: none; } }
.st-key-ended-narrow p { overflow-wrap: anywhere; }
</style>"""
"""Style sheet of all pages. `st-key-now-...` is the class of containers whose content belongs to a selection
(`dashboard.state.selected`)."""


def hidden_unless(box: str, value: str) -> str:
    """Return a CSS rule that hides the content of a selection while the select box with this label shows another text
    than `value`.

    The browser changes the box some frames before anything else on the page shows that a new selection loads.
    """
    anchor = f'input[aria-label="{_css_string(box)}"]'
    return _hidden_unless(anchor, f'{anchor}[value="{_css_string(value)}"]')


def hidden_unless_pressed(key: str, number: int) -> str:
    """Return a CSS rule like that of `hidden_unless` for a row of buttons: it hides content while a button other than
    the one with index `number` (from 0) is pressed."""
    anchor = f'.st-key-{key.replace(" ", "-")} [role="radio"]'
    return _hidden_unless(anchor, f'{anchor}[aria-checked="true"]:nth-of-type({number + 1})')


def hidden_but(keys: Iterable[str]) -> str:
    """Return a CSS rule that hides the content of selections, except for the containers with these keys."""
    selector = '[class*="st-key-now-"]' + "".join(f":not(.st-key-{key})" for key in keys)
    return f"{selector}, {selector} * {{ visibility: hidden !important; }}"


def _hidden_unless(anchor: str, match: str) -> str:
    selector = f'.stApp:has({anchor}):not(:has({match})) [class*="st-key-now-"]'
    return f"{selector}, {selector} * {{ visibility: hidden !important; }}"


def _css_string(text: str) -> str:
    """Escape text for a quoted string in CSS, so that nothing in it can end the string or the style element."""
    return "".join(char if char.isascii() and (char.isalnum() or char == " ") else f"\\{ord(char):x} " for char in text)
