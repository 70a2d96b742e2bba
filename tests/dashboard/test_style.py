"""Colours that people can read, and a style that no text of a store gets out of."""

import pytest

from dashboard.charts.heat import TINTS, _shade
from dashboard.style import DARK, GREEN, GREY, LIGHT, PINK, VERMILION, Palette, contrast, hidden_unless
from tests.dashboard.conftest import EVIL

READABLE, SEEN = 4.5, 3.0
"""The least contrast of text, and of what else has to be told from its background (WCAG 2.2, 1.4.3 and 1.4.11)."""
BACKGROUNDS = ((LIGHT, ("#FFFFFF", "#F3F6FA")), (DARK, ("#10161E", "#1A232E")))


def test_contrast_is_that_of_the_standard() -> None:
    assert contrast("#000000", "#FFFFFF") == pytest.approx(21.0)
    assert contrast("#777777", "#FFFFFF") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize(("look", "backgrounds"), BACKGROUNDS)
def test_text_and_marks_stand_out_from_the_background(look: Palette, backgrounds: tuple[str, ...]) -> None:
    for background in backgrounds:
        assert contrast(look.text, background) >= READABLE
        assert contrast(look.quiet, background) >= READABLE
    for mark in (look.winner, look.ships, look.unresolved, look.side_a, look.side_b, GREEN, GREY, VERMILION, PINK):
        assert contrast(mark, backgrounds[0]) >= SEEN


@pytest.mark.parametrize("look", [LIGHT, DARK])
def test_what_is_written_in_a_cell_can_be_read_at_every_shade(look: Palette) -> None:
    cells = [_shade(1.0 + step / 50, look) for step in range(100)]
    cells += [_shade(None, look), *TINTS]
    assert min(contrast(fill, ink) for fill, ink in cells) >= READABLE


def test_no_text_ends_the_style_that_it_stands_in() -> None:
    style = hidden_unless("Device", f'{EVIL}"] {{}} </style> \\')
    assert "<" not in style
    assert style.count('"') == 16, "twice the quotes of three boxes and of one key, and no other"
