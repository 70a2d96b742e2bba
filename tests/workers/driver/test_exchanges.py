"""How often a sweep asks a phone something, counted on a virtual phone behind the real adb server."""

from pathlib import Path

import pytest

from sweeps.journal.journal import Journal
from tests.workers.phone_sweep import ONE_ROUND, PhoneSweep
from workers.devices.adb.link import AdbLink
from workers.devices.virtual_phone.phone import VirtualPhone

pytestmark = pytest.mark.system

JOBS = 2


def test_a_block_is_three_exchanges_and_a_round_three_more_for_its_mode(
    pair: list[VirtualPhone], built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sensors before it, its program, the sensors after it; once a round the mode ends, begins, and has clocks."""
    services: list[str] = []
    opened = AdbLink.open

    def counted(link: AdbLink, service: str, *words: object, **named: object) -> object:
        # Where a shell of the sweep before is just ending, the next one reads its command line too: chance.
        if not service.startswith("shell,v2,raw:(cat /proc/"):
            services.append(service)
        return opened(link, service, *words, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(AdbLink, "open", counted)

    def exchanges(rounds: int, *, mode: bool) -> int:
        protocol = ONE_ROUND.model_copy(update={"rounds": rounds, "fixed_performance": mode})
        sweep = PhoneSweep(tmp_path / f"{rounds}-{mode}", built, pair[:1], protocol=protocol)
        services.clear()
        with Journal.open(sweep.workspace.journal) as journal:
            sweep.run(journal)
            assert sum(len(journal.blocks(job.key)) for job in sweep.plan.jobs) == JOBS * rounds
        return len(services)

    exchanges(2, mode=False)  # the phone gets its programs
    assert exchanges(3, mode=False) - exchanges(1, mode=False) == 2 * JOBS * 3
    assert exchanges(3, mode=True) - exchanges(1, mode=True) == 2 * (JOBS * 3 + 3)
