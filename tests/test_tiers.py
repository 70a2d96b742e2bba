"""The two tiers of tests do not overlap, together are everything, and the first has one path of each real kind."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MAKEFILE = (ROOT / "Makefile").read_text()


REAL: dict[str, Callable[[pytest.Item], bool]] = {
    "a Ray cluster": lambda item: item.get_closest_marker("ray") is not None,
    "a compiler": lambda item: item.get_closest_marker("compiler") is not None,
    "a browser": lambda item: item.get_closest_marker("browser") is not None,
    "a board": lambda item: item.get_closest_marker("sshd") is not None,
    "an MLflow server": lambda item: _is_given(item, "server_uri"),
    "virtual phones on an adb server": lambda item: _is_given(item, "port") and _is_given(item, "phones"),
}


def _is_given(item: pytest.Item, fixture: str) -> bool:
    """Whether it has the fixture, by itself or by another one."""
    return fixture in getattr(item, "fixturenames", ())


def _is_fast(item: pytest.Item) -> bool:
    system, smoke = (item.get_closest_marker(name) is not None for name in ("system", "smoke"))
    return _is_in("FAST", system=system, smoke=smoke)


def _is_in(tier: str, *, system: bool, smoke: bool) -> bool:
    expression = re.search(rf"^{tier} := (.+)$", MAKEFILE, re.MULTILINE)
    assert expression is not None
    return bool(eval(expression[1], {"system": system, "smoke": smoke}))


def test_each_test_is_in_one_tier() -> None:
    for system in (True, False):
        for smoke in (True, False):
            found = [_is_in(tier, system=system, smoke=smoke) for tier in ("FAST", "SYSTEM")]
            assert sum(found) == 1, (system, smoke)


def test_continuous_integration_runs_both_tiers_strictly() -> None:
    calls = re.findall(r"^make (.+)$", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    assert calls == ["test STRICT=1", "test-system STRICT=1"]


@pytest.mark.parametrize("kind", REAL)
def test_the_fast_tier_has_a_path_of_each_real_kind(kind: str, request: pytest.FixtureRequest) -> None:
    config = request.config
    chosen = config.option.keyword or config.option.deselect or config.option.lf
    if [Path(arg).resolve() for arg in config.args] != [ROOT / "tests"] or chosen:
        pytest.skip("only a part of the tests was collected; enable with: make test")
    assert any(_is_fast(item) and REAL[kind](item) for item in request.session.items)
