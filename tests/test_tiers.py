"""The two tiers of tests do not overlap, together are everything, and the first has one path of each real kind."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
MAKEFILE = (ROOT / "Makefile").read_text()


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
