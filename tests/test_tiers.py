"""The two tiers of tests do not overlap, together are everything, and the first has one path of each real kind."""

import itertools
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
    """Tell whether a test has the fixture, by itself or by another one."""
    return fixture in getattr(item, "fixturenames", ())


MARKERS = ("system", "smoke", "suite")


def _is_fast(item: pytest.Item) -> bool:
    return _is_in("FAST", {name: item.get_closest_marker(name) is not None for name in MARKERS})


def _is_in(tier: str, marked: dict[str, bool]) -> bool:
    expression = re.search(rf"^{tier} := (.+)$", MAKEFILE, re.MULTILINE)
    assert expression is not None
    return bool(eval(expression[1], dict(marked)))


def test_each_test_is_in_one_tier_or_in_the_suite_alone() -> None:
    for values in itertools.product((True, False), repeat=len(MARKERS)):
        marked = dict(zip(MARKERS, values, strict=True))
        belongs = [_is_in(tier, marked) for tier in ("FAST", "SYSTEM", "SUITE")]
        assert sum(belongs) == 1, marked


def test_what_only_the_suite_runs_injects_a_fault(request: pytest.FixtureRequest) -> None:
    alone = [item for item in request.session.items if item.get_closest_marker("suite")]
    assert [item.nodeid for item in alone if not item.get_closest_marker("fault")] == []


def test_continuous_integration_runs_both_tiers_strictly() -> None:
    calls = re.findall(r"^make (test.*)$", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    assert calls == ["test STRICT=1", "test-system STRICT=1"]


@pytest.mark.parametrize("kind", REAL)
def test_the_fast_tier_has_a_path_of_each_real_kind(kind: str, request: pytest.FixtureRequest) -> None:
    config = request.config
    chosen = config.option.keyword or config.option.deselect or config.option.lf
    if [Path(arg).resolve() for arg in config.args] != [ROOT / "tests"] or chosen:
        pytest.skip("only a part of the tests was collected; enable with: make test")
    assert any(_is_fast(item) and REAL[kind](item) for item in request.session.items)
