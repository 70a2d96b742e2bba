"""When the driver lets results be published: beside phones, and between the blocks of this computer."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sweeps.journal.journal import Journal
from sweeps.spec.grid import GridSpec
from tests.workers.tiny_sweep import BuiltSweep
from workers.driver.driver_events import Published

ONE = GridSpec(precision=("fp32",), layout=("nhwc",))


class Recorder:
    """Notes each call, and how many blocks there were on the simulated phone and on this computer at that time."""

    def __init__(self, journal: Journal, phone: str, local_key: str) -> None:
        self._journal = journal
        self._keys = (phone, local_key)
        self.calls: list[tuple[str, int, int]] = []

    def _note(self, word: str) -> None:
        phone, local_key = (self._journal.attempts.block_count(key) for key in self._keys)
        self.calls.append((word, phone, local_key))

    def beside(self) -> None:
        self._note("beside")

    def between(self) -> None:
        self._note("between")

    def turn(self) -> None:
        self._note("turn")

    def complaint(self) -> str:
        return ""

    def drain(self, stop: Callable[[], bool]) -> Iterator[tuple[int, int]]:
        self._note("drain")
        yield 0, 0
        yield 1, 2
        yield 2, 2


@pytest.mark.system
def test_publishing_goes_on_beside_a_phone_and_takes_turns_with_timing_this_computer(tmp_path: Path) -> None:
    sweep = BuiltSweep(tmp_path, ONE, devices=("local", "fake:cool"))
    keys = {facts.name: facts.device_id for facts in sweep.plan.devices}
    [phone] = [job.key for job in sweep.plan.jobs if job.device_id == keys["fake:cool"]]
    [local_key] = [job.key for job in sweep.plan.jobs if job.device_id == keys["local"]]
    with Journal.open(sweep.workspace.journal) as journal:
        recorder = Recorder(journal, phone, local_key)
        events = sweep.run(journal, publishing=recorder)
        assert recorder.calls == [
            ("beside", 0, 0),
            ("turn", 2, 0),
            ("between", 2, 0),
            ("turn", 2, 2),
            ("drain", 2, 2),
        ]
        assert events[-2:] == [Published(1, 2), Published(2, 2)], "nothing is said of nothing"

        recorder = Recorder(journal, phone, local_key)
        sweep.run(journal, publishing=recorder, more={local_key: 2, phone: 1})
    words = [(word, blocks) for word, _, blocks in recorder.calls]
    assert words == [("between", 2), ("drain", 4)], "a job that is done is published once, not after each added round"
