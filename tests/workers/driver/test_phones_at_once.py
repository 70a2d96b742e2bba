"""Two phones at once: each measures by itself, nothing overlaps on one of them, and nothing is pushed meanwhile."""

import time
from itertools import pairwise
from pathlib import Path

import pytest

from sweeps.journal.journal import Journal
from sweeps.records import Measured
from tests.faulty_phone import FaultyPhone
from tests.workers.phone_sweep import MANY_IMAGES, PAUSE, ImpatientPhone, PhoneSweep, fault, in_a_pause
from workers.devices.adb.device import AdbDevice

pytestmark = pytest.mark.system

Interval = tuple[float, float]

LOG = "local/others"
# The first run on each phone waits for the other phone's.
_TIMED = f"""
echo "$(date +%s.%N)" >>/data/{LOG}
[ "$(wc -l </data/{LOG})" -eq 1 ] && {{ {PAUSE}; }}
sleep 0.5
"$program" "$@"
ended=$?
echo "$(date +%s.%N)" >>/data/{LOG}
exit $ended
"""


def runs(phone: FaultyPhone) -> list[Interval]:
    """List the runs of the runner, by the clock of this host: lines of two that overlapped would not be in order."""
    times = [float(line) for line in (phone.data / LOG).read_text().split()]
    assert times == sorted(times)
    return list(zip(times[::2], times[1::2], strict=True))


def overlap(left: Interval, other: Interval) -> bool:
    return left[0] < other[1] and other[0] < left[1]


def test_phones_measure_at_once_and_each_does_one_thing_at_a_time(
    pair: list[FaultyPhone], built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pushes: dict[str, list[Interval]] = {phone.serial: [] for phone in pair}
    push = ImpatientPhone.push

    def logged(device: AdbDevice, *arguments: object, **more: object) -> str:
        began = time.time()
        path = push(device, *arguments, **more)
        pushes[device.serial].append((began, time.time()))
        return path

    monkeypatch.setattr(ImpatientPhone, "push", logged)
    sweep = PhoneSweep(tmp_path, built, pair, data=MANY_IMAGES)
    for phone in pair:
        fault(phone, _TIMED)
    with Journal.open(sweep.workspace.journal) as journal:
        met = in_a_pause(pair, lambda: None)
        sweep.run(journal)
        met.join()
        assert all(isinstance(journal.outcomes.in_sweep("tiny", job), Measured) for job in sweep.plan.jobs)
    first, second = (runs(phone) for phone in pair)
    assert len(first) == len(second) == 3, "two blocks and an evaluation"
    for own in (first, second):
        assert not any(overlap(interval, other) for interval, other in pairwise(own))
    assert any(overlap(interval, other) for interval in first for other in second), "both at once"
    for phone, own in zip(pair, (first, second), strict=True):
        assert len(pushes[phone.serial]) >= 2
        assert not any(overlap(pushed, run) for pushed in pushes[phone.serial] for run in own)
