"""What all pages share of their looks: width, spacing, and colours that are safe for colour-blind eyes."""

WIDTH_PX = 1280

BLUE = "#0072B2"
SKY = "#56B4E9"
GREEN = "#009E73"
ORANGE = "#E69F00"
VERMILION = "#D55E00"
PINK = "#CC79A7"
"""These are Okabe and Ito's."""
GREY = "#8A94A0"
INK = "#6B7785"
"""Intervals, lines and small print: readable on the light and on the dark background."""

STYLE = "<style>.stMainBlockContainer { padding-top: 3.5rem; }</style>"
