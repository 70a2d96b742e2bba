"""How often a sweep asks a phone something, counted on a virtual phone behind the real adb server."""

from pathlib import Path

import pytest

from sweeps.journal.journal import Journal
from tests.workers.phone_sweep import ONE_ROUND, PhoneSweep
from workers.devices.adb.link import AdbLink
from workers.devices.virtual_phone.phone import VirtualPhone

pytestmark = pytest.mark.system

JOBS = 2


MOST_A_BLOCK = 4
"""The sensors before it, its program, the sensors after it: three, and one that only chance brings.

Chance is a shell of the sweep before that is just ending, or a reading that is asked for again.
"""
SWITCH = "shell,v2,raw:cmd power set-fixed-performance-mode-enabled"


def test_a_block_is_at_most_four_exchanges_and_the_mode_is_switched_once_a_round(
    pair: list[VirtualPhone], built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted as what two more rounds add, so that neither what begins a sweep nor what ends it is in the figure."""
    services: list[str] = []
    opened = AdbLink.open

    def counted(link: AdbLink, service: str, *words: object, **named: object) -> object:
        services.append(service)
        return opened(link, service, *words, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(AdbLink, "open", counted)

    def exchanges(rounds: int, *, mode: bool) -> tuple[int, int]:
        """All exchanges of a sweep of so many rounds, and how many of them switched the mode."""
        protocol = ONE_ROUND.model_copy(update={"rounds": rounds, "fixed_performance": mode})
        sweep = PhoneSweep(tmp_path / f"{rounds}-{mode}", built, pair[:1], protocol=protocol)
        services.clear()
        with Journal.open(sweep.workspace.journal) as journal:
            sweep.run(journal)
            assert sum(len(journal.blocks(job.key)) for job in sweep.plan.jobs) == JOBS * rounds
        return len(services), sum(service.startswith(SWITCH) for service in services)

    exchanges(2, mode=False)  # the phone gets its programs
    (few, none), (many, still_none) = exchanges(1, mode=False), exchanges(3, mode=False)
    assert (none, still_none) == (0, 0)
    assert many - few <= 2 * JOBS * MOST_A_BLOCK
    (few, switched), (many, switched_more) = exchanges(1, mode=True), exchanges(3, mode=True)
    assert switched_more - switched == 2 * 2  # off and on again, once in each of two rounds
    assert many - few <= 2 * (JOBS * MOST_A_BLOCK + 3)  # a round: off, on, and the clocks after it
