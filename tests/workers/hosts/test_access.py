"""The processes of a lab have the lab's settings in their environment."""

import importlib.util
from pathlib import Path

from workers.hosts.access import environment, environment_of_driver
from workers.hosts.interface import SILENT_S

CUT_S = 60.0
"""After which work goes on."""


def test_a_driver_s_ray_repeats_nothing_by_itself_within_a_cut() -> None:
    driver_environment = environment_of_driver(Path("token"), "10.0.0.4")
    (name,) = driver_environment.keys() - environment(Path("token"), "10.0.0.4").keys()
    assert float(driver_environment[name]) / 1000 > CUT_S + SILENT_S


def test_ray_has_the_settings_that_are_made() -> None:
    """Ray says nothing of a setting that it does not know, such as one that was renamed."""
    spec = importlib.util.find_spec("ray")
    assert spec is not None
    assert spec.origin is not None
    program = (Path(spec.origin).parent / "_raylet.so").read_bytes()
    driver_environment = environment_of_driver(Path("token"), "10.0.0.4")
    settings = [
        name.removeprefix("RAY_")
        for name in driver_environment
        if name.startswith("RAY_") and name.endswith(("_ms", "_milliseconds", "_threshold"))
    ]
    assert len(settings) >= 6
    assert [name for name in settings if name.encode() not in program] == []
    loops = (Path(spec.origin).parent / "_private" / "async_compat.py").read_text(encoding="utf-8")
    assert "RAY_USE_UVLOOP" in loops
    assert driver_environment["RAY_USE_UVLOOP"] == "0"
