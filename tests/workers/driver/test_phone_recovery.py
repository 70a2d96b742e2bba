"""The steps that bring a phone back, taken on virtual phones behind the real adb server."""

import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from sweeps.errors import DeviceError
from sweeps.journal.journal import Journal
from sweeps.quarantine import QuarantineBook, Rule
from sweeps.records import Measured
from sweeps.spec.recovery import RecoverySpec
from tests.faulty_phone import FaultyPhone
from tests.workers.phone_sweep import (
    ONE_ROUND,
    ImpatientPhone,
    PhoneSweep,
    assert_invariants,
    fault,
    timed,
    wait_until_it_answers,
)
from workers.devices.adb import phone_recovery
from workers.devices.adb.adb_host import AdbHost
from workers.devices.adb.device import AdbDevice
from workers.devices.interface import Completed, Sensors
from workers.driver.canary import BLOCKS
from workers.driver.driver_events import Away, Quarantined, Readmitted, Recovering
from workers.driver.ladder import AwayWait

pytestmark = pytest.mark.system

Pair = list[FaultyPhone]

MEASURES = """
import sys
from pathlib import Path
from workers.devices.adb.device import AdbDevice
device = AdbDevice(Path(), sys.argv[1])
device.take_lock()
print("leased", flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(phone_recovery, "ANSWER_S", 3.0)


def device_of(phone: FaultyPhone) -> AdbDevice:
    return AdbDevice(Path(), phone.serial, answer_s=5.0)


def name_of(phone: FaultyPhone) -> str:
    return f"adb:{phone.serial}"


def test_asking_tells_a_phone_that_answers_from_one_that_starts_or_hangs(pair: Pair) -> None:
    phone, _ = pair
    phone_recovery.climb(name_of(phone), "ask")
    phone.set_property("init.svc.bootanim", "running")
    try:
        with pytest.raises(DeviceError, match="still starting") as caught:
            phone_recovery.climb(name_of(phone), "ask")
        assert caught.value.kind == "offline"
        phone.set_property("init.svc.bootanim", "stopped")
        phone_recovery.climb(name_of(phone), "ask")
    finally:
        phone.set_property("init.svc.bootanim", None)
    phone.hang()
    with pytest.raises(DeviceError) as hung:
        phone_recovery.climb(name_of(phone), "ask")
    assert hung.value.kind == "unresponsive"


def test_a_connection_that_died_without_a_word_is_made_anew(pair: Pair) -> None:
    phone, _ = pair
    phone_recovery.climb(name_of(phone), "ask")
    phone.lose_connections()
    with pytest.raises(DeviceError) as dead:
        phone_recovery.climb(name_of(phone), "ask")
    assert dead.value.kind == "unresponsive"
    phone_recovery.climb(name_of(phone), "reconnect")
    phone_recovery.climb(name_of(phone), "ask")


def test_a_phone_that_is_not_there_cannot_be_connected_again(pair: Pair) -> None:
    phone, _ = pair
    phone.unplug()
    with pytest.raises(DeviceError, match="cannot be connected") as caught:
        phone_recovery.climb(name_of(phone), "reconnect")
    assert caught.value.kind == "offline"


def test_the_server_is_restarted_and_knows_its_phones_of_the_network_again(pair: Pair, port: int) -> None:
    before = AdbHost(port)
    serials = {phone.serial for phone in before.devices()}
    assert {phone.serial for phone in pair} <= serials
    phone_recovery.climb(name_of(pair[0]), "restart_adb")
    assert before.has_ended()
    assert {phone.serial for phone in pair} <= {
        phone.serial for phone in AdbHost(port).devices() if phone.state == "device"
    }


@pytest.mark.parametrize("elsewhere", [False, True], ids=["this process", "another process"])
def test_the_server_is_not_restarted_while_another_phone_is_measured(pair: Pair, port: int, elsewhere: bool) -> None:
    first, second = pair
    host = AdbHost(port)
    host.ensure_server()
    if elsewhere:
        other = subprocess.Popen(
            [sys.executable, "-c", MEASURES, second.serial], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert other.stdout is not None
        assert other.stdout.readline() == "leased\n"
    else:
        device = device_of(second)
        device.take_lock()
    try:
        with pytest.raises(DeviceError) as caught:
            phone_recovery.climb(name_of(first), "restart_adb")
        assert caught.value.kind == "adb_in_use"
        assert not host.has_ended()
    finally:
        if elsewhere:
            other.communicate(timeout=30)
        else:
            device.release()
    phone_recovery.climb(name_of(first), "restart_adb")
    assert host.has_ended()


class Tunnel:
    """Leads from a port of its own to another one, as ssh does."""

    def __init__(self, to: int) -> None:
        self._to = to
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._ends: list[socket.socket] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for end in self._ends:
            end.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                near = self._listener.accept()[0]
                far = socket.create_connection(("127.0.0.1", self._to))
                self._ends += [near, far]
                for pair in ((near, far), (far, near)):
                    threading.Thread(target=self._carry, args=pair, daemon=True).start()

    @staticmethod
    def _carry(source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while block := source.recv(65536):
                sink.sendall(block)
            sink.shutdown(socket.SHUT_WR)


def test_a_server_that_runs_elsewhere_is_not_restarted(pair: Pair, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    host = AdbHost(port)
    host.ensure_server()
    tunnel = Tunnel(port)
    monkeypatch.setenv("ANDROID_ADB_SERVER_PORT", str(tunnel.port))
    try:
        phone_recovery.climb(name_of(pair[0]), "ask")
        with pytest.raises(DeviceError, match="not known to run on this computer") as caught:
            phone_recovery.climb(name_of(pair[0]), "restart_adb")
    finally:
        tunnel.close()
    assert caught.value.kind == "adb_in_use"
    assert not host.has_ended()


def test_a_phone_restarts_and_answers_with_another_boot_id(pair: Pair) -> None:
    phone, _ = pair
    before = device_of(phone).boot_id()
    phone_recovery.climb(name_of(phone), "reboot")
    wait_until_it_answers(phone)
    assert device_of(phone).boot_id() != before


def test_a_phone_that_refuses_to_restart_is_named(pair: Pair) -> None:
    phone, _ = pair
    before = device_of(phone).boot_id()
    phone.refuse_restart(True)
    try:
        with pytest.raises(DeviceError, match="does not restart") as caught:
            phone_recovery.climb(name_of(phone), "reboot")
    finally:
        phone.refuse_restart(False)
    assert phone.serial in caught.value.message
    assert device_of(phone).boot_id() == before


@pytest.mark.long
def test_a_sweep_makes_a_dead_connection_anew_and_loses_nothing(
    pair: Pair, built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = pair
    monkeypatch.setattr(ImpatientPhone, "ANSWER_S", 3.0)
    sweep = PhoneSweep(tmp_path, built, pair[:1])
    sensors = ImpatientPhone.sensors
    looks: list[int] = []

    def lose_at_third(device: AdbDevice, **more: bool) -> Sensors:
        looks.append(1)
        if len(looks) == 3:
            first.lose_connections()
        return sensors(device, **more)

    monkeypatch.setattr(ImpatientPhone, "sensors", lose_at_third)
    with Journal.open(sweep.workspace.journal) as journal:
        events = sweep.run(journal, away_wait=AwayWait(20.0, 0.5))
        steps = [(event.rung, event.refused) for event in events if isinstance(event, Recovering)]
        assert steps == [("reconnect", "")]
        assert not any(isinstance(event, Away) for event in events)
        assert all(isinstance(outcome, Measured) for outcome in sweep.outcomes(journal, first))
        assert_invariants(sweep, journal)


@pytest.mark.long
@pytest.mark.parametrize("allowed", [False, True])
def test_a_sweep_restarts_a_phone_whose_mode_stays_if_its_file_allows_it(
    pair: Pair, built: Path, tmp_path: Path, allowed: bool
) -> None:
    first, _ = pair
    protocol = ONE_ROUND.model_copy(update={"fixed_performance": True, "rounds": 2})
    sweep = PhoneSweep(tmp_path, built, pair[:1], protocol=protocol, recovery=RecoverySpec(reboot=allowed))
    fault(first, 'echo "Power HAL is stuck" >"$PHONE/power_says"', once=True)
    with Journal.open(sweep.workspace.journal) as journal:
        events = sweep.run(journal, away_wait=AwayWait(4.0, 0.5))
        steps = [(event.rung, event.refused) for event in events if isinstance(event, Recovering)]
        away = [event.failed.kind for event in events if isinstance(event, Away)]
        assert sum(len(journal.attempts.blocks(job.key)) for job in sweep.plan.jobs) == (4 if allowed else 2)
        if allowed:
            assert (steps[0], away) == (("reboot", ""), [])
            assert all(isinstance(outcome, Measured) for outcome in sweep.outcomes(journal, first))
            assert not first.fixed_performance
        else:
            assert (steps, away) == ([], ["mode_stays"])
        assert_invariants(sweep, journal)


@pytest.mark.long
def test_a_phone_that_slips_twice_is_quarantined_and_let_in_by_its_canary(
    pair: Pair, built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = pair
    book = QuarantineBook(tmp_path / "state", rule=Rule(faults=2, apart_s=0.0))
    sweep = PhoneSweep(tmp_path, built, pair, protocol=ONE_ROUND.model_copy(update={"rounds": 3}))
    slipped: set[str] = set()

    def slip(argv: Sequence[str]) -> None:
        """Before the first block of each job."""
        threads = argv[argv.index("--threads") + 1]
        if threads not in slipped:
            slipped.add(threads)
            first.unplug()
            threading.Timer(1.0, first.plug).start()

    run = ImpatientPhone.run

    def run_after_slip(device: AdbDevice, argv: Sequence[str], deadline_s: float) -> Completed:
        if device.serial == first.serial and "--threads" in argv and "--eval-inputs" not in argv:
            slip(argv)
        return run(device, argv, deadline_s)

    monkeypatch.setattr(ImpatientPhone, "run", run_after_slip)
    with Journal.open(sweep.workspace.journal) as journal:
        events = sweep.run(journal, away_s=20.0, book=book)
        assert len(slipped) == 2
        assert [event.device for event in events if isinstance(event, Quarantined)] == [name_of(first)]
        assert [event.failed.kind for event in events if isinstance(event, Away)] == ["quarantined"]
        assert all(isinstance(outcome, Measured) for outcome in sweep.outcomes(journal, second))
        assert book.quarantine(second.serialno) is None
        measured, before = sum(len(journal.attempts.blocks(job.key)) for job in sweep.jobs(first)), timed(first)
        events = sweep.run(journal, book=book)
        assert [event.device for event in events if isinstance(event, Readmitted)] == [name_of(first)]
        assert all(isinstance(outcome, Measured) for outcome in sweep.outcomes(journal, first))
        assert timed(first) - before == BLOCKS + 6 - measured, "what the canary measured is not kept"
        assert_invariants(sweep, journal, faults=len(slipped) + BLOCKS)
