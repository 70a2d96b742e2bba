"""The report as one HTML page with charts as pictures, without scripts and without requests to the network."""

import base64
from collections.abc import Callable, Sequence
from datetime import datetime
from importlib.resources import files
from typing import Any

import vl_convert
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from dashboard.charts.drawing import Spec
from dashboard.markdown_escape import NOTHING
from dashboard.report.sections import Section
from dashboard.style import DARK, LIGHT

_WIDTH_PX = 470
_BACKGROUND = {"light": "#FFFFFF", "dark": "#10161E"}


def page(
    sweep: str,
    sections: Sequence[Section],
    *,
    objective: str,
    updated: datetime,
    version: str,
    sweep_file: str,
    notes: Sequence[str] = (),
    each: Callable[[str], None] = lambda _: None,
) -> str:
    """Return the whole page as text. `sweep_file`: the sweep file as YAML. `notes`: notes about the whole sweep. `each`
    is called with the device of each section, for progress."""
    drawn: list[dict[str, Any]] = []
    for section in sections:
        each(section.device)
        charts = [
            (chart, _image(chart.light, _BACKGROUND["light"]), _image(chart.dark, _BACKGROUND["dark"]))
            for chart in section.charts
        ]
        drawn.append({"section": section, "charts": charts})
    # The template escapes all values.
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(files("dashboard.report").joinpath("report.html.j2").read_text("utf-8"))
    return template.render(
        sweep=sweep,
        drawn=drawn,
        objective=objective,
        notes=notes,
        updated=f"{updated:%Y-%m-%d %H:%M} UTC",
        version=version,
        nothing=NOTHING,
        zip=zip,
        sweep_file=sweep_file,
        light=LIGHT,
        dark=DARK,
        background=_BACKGROUND,
    )


def _image(spec: Spec, background: str) -> Markup:
    """Return a data URL of a chart as an SVG picture, in which no script runs."""
    config = {**spec.get("config", {}), "font": "system-ui, sans-serif"}
    whole = {**spec, "width": _WIDTH_PX, "background": background, "config": config}
    svg = vl_convert.vegalite_to_svg(whole, allowed_base_urls=[])
    return Markup("data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode())  # noqa: S704  # base64
