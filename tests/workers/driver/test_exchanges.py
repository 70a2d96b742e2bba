"""A sweep's exchanges with a phone are counted, on a virtual phone behind the real adb server."""

from pathlib import Path
from typing import Any

import pytest

from sweeps.journal.journal import Journal
from tests.faulty_phone import FaultyPhone
from tests.workers.phone_sweep import ONE_ROUND, PhoneSweep
from workers.devices.adb.attempt import KEPT_SHELL
from workers.devices.adb.open_shell import KeptShell
from workers.devices.adb.phone_connection import PhoneConnection
from workers.devices.adb.wire import Deadline, Wire

pytestmark = pytest.mark.system

JOBS, ROUNDS = 2, 3
EVALUATES = " --eval-inputs "
SWITCH = "shell,v2,raw:cmd power set-fixed-performance-mode-enabled"


@pytest.mark.parametrize("mode", [False, True], ids=["as it is", "fixed performance"])
def test_a_block_is_three_exchanges_and_a_round_three_more_for_its_mode(
    pair: list[FaultyPhone], built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: bool
) -> None:
    """The sensors before it, its program, the sensors after it; once a round the mode ends, begins, and has clocks.

    Counted from the first block's program to the last one's. How a sweep begins depends on chance: a shell of the sweep
    before may be just ending, and is looked at, and perhaps ended, first.
    """
    services: list[str] = []
    opened, sent = PhoneConnection.open, KeptShell.send

    def counted(link: PhoneConnection, service: str, *words: Any, **named: Any) -> Any:
        if not service.endswith(KEPT_SHELL):  # the lines sent to it are counted
            services.append(service)
        return opened(link, service, *words, **named)

    def counted_line(shell: KeptShell, line: str, deadline: Deadline) -> Wire:
        services.append(line)
        return sent(shell, line, deadline)

    monkeypatch.setattr(PhoneConnection, "open", counted)
    monkeypatch.setattr(KeptShell, "send", counted_line)
    protocol = ONE_ROUND.model_copy(update={"rounds": ROUNDS, "fixed_performance": mode})
    sweep = PhoneSweep(tmp_path, built, pair[:1], protocol=protocol)
    with Journal.open(sweep.workspace.journal) as journal:
        sweep.run(journal)
        assert sum(len(journal.attempts.blocks(job.key)) for job in sweep.plan.jobs) == JOBS * ROUNDS
    blocks = [number for number, service in enumerate(services) if " --model " in service and EVALUATES not in service]
    assert len(blocks) == JOBS * ROUNDS
    between = services[blocks[0] : blocks[-1]]
    assert sum(service.startswith(SWITCH) for service in between) == (2 * (ROUNDS - 1) if mode else 0)
    assert len(between) == 3 * (len(blocks) - 1) + (3 * (ROUNDS - 1) if mode else 0)
