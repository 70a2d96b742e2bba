"""A sweep goes on over a phone's faults, by their rows in faults.md. What the device does: devices/test_adb.py."""

import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
from click.testing import CliRunner

from sweeps.cli import main as cli
from sweeps.errors import DeviceError
from sweeps.journal.journal import Journal
from sweeps.locks import HostLock
from sweeps.records import Measured
from tests.faulty_phone import FaultyPhone
from tests.workers.adb_server import kill_server
from tests.workers.devices.adb.test_device import Stranger
from tests.workers.phone_sweep import (
    MANY_IMAGES,
    ImpatientPhone,
    PhoneSweep,
    amid,
    assert_invariants,
    eventually,
    fault,
    files,
    in_a_push,
    resume,
    running_on,
    timed,
)
from workers.devices.adb.adb_host import AdbHost
from workers.devices.adb.device import AdbDevice
from workers.driver.driver_events import AttemptFailed, Away, Waiting
from workers.plan_inputs import plan_sweep

pytestmark = [pytest.mark.system, pytest.mark.long]

Pair = list[FaultyPhone]

SWEEP = """
name: tiny
models: [{source: "tiny_net:make", name: tiny, weights: tiny.pt, input_shape: [1, 3, 16, 16]}]
data: {calibration: {source: synthetic, images: 8}, evaluation: {source: synthetic, images: 8, seed: 1}}
devices: ["adb:*"]
grids: [{precision: [fp32], layout: [nchw], threads: [1, 2]}]
objective: {constraints: []}
protocol: {preset: quick, rounds: 1, warmup_seconds: 0.01, min_seconds: 0.02, iterations: 3, gate: none}
"""
DRIVER = """
import sys
from pathlib import Path
from workers.devices.adb.device import AdbDevice
AdbDevice(Path(), sys.argv[1]).run([sys.argv[2], "--model", "m"], 60)
"""


# Row 1


@pytest.mark.fault(1, "cable pulled in a block, back after 6 s", "waited for, no job lost")
def test_a_phone_that_slips_off_its_cable_in_a_block_loses_no_job(pair: Pair, built: Path, tmp_path: Path) -> None:
    first, _ = pair

    def slip() -> None:
        first.unplug()
        time.sleep(6)
        first.plug()

    sweep = PhoneSweep(tmp_path, built, pair)
    with Journal.open(sweep.workspace.journal) as journal:
        slipping = amid([first], slip)
        events = sweep.run(journal, away_s=20.0)
        slipping.join()
        assert any(isinstance(event, Waiting) and event.device == f"adb:{first.serial}" for event in events)
        assert not any(isinstance(event, Away) for event in events)
        assert all(isinstance(outcome, Measured) for phone in pair for outcome in sweep.outcomes(journal, phone))
        assert_invariants(sweep, journal)


@pytest.mark.fault(1, "cable pulled in a block", "away; its jobs wait, others go on")
@pytest.mark.fault(34, "cable of one phone pulled", "the other phone goes on")
def test_a_phone_that_stays_unplugged_keeps_its_jobs_pending_while_the_other_goes_on(
    pair: Pair, built: Path, tmp_path: Path
) -> None:
    first, second = pair
    sweep = PhoneSweep(tmp_path, built, pair)
    with Journal.open(sweep.workspace.journal) as journal:
        pulled = amid([first], first.unplug)
        events = sweep.run(journal)
        pulled.join()
        [away] = [event for event in events if isinstance(event, Away)]
        assert (away.device, away.failed.kind, away.pending) == (f"adb:{first.serial}", "offline", 2)
        assert first.serial in away.failed.message
        assert "plug it in" in away.failed.message
        assert sweep.outcomes(journal, first) == [None, None]
        assert all(isinstance(outcome, Measured) for outcome in sweep.outcomes(journal, second))
        assert_invariants(sweep, journal)
        messages: list[str] = []
        second_plan = plan_sweep(sweep.spec, sweep.workspace.root, (sweep.home,), sweep.plan.devices, messages.append)
        assert [job.key for job in second_plan.jobs] == [job.key for job in sweep.plan.jobs]
        assert ["plug it in" in line for line in messages] == [True, False]
        assert all(first.serial in line for line in messages)
        first.plug()
        resume(sweep, journal)


def test_the_command_survives_a_phone_that_is_unplugged_and_goes_on_with_it_later(
    pair: Pair, built: Path, tmp_path: Path
) -> None:
    first, second = pair
    sweep = PhoneSweep(tmp_path, built, pair)
    file = sweep.home / "sweep.yaml"
    file.write_text(SWEEP)
    words = ["run", str(file), "--workspace", str(sweep.workspace.root), "--executor", "inline"]
    pulled = amid([first], first.unplug)
    ended = CliRunner().invoke(cli.main, words)
    pulled.join()
    assert ended.exit_code == 0, ended.output
    assert f"adb:{first.serial} is away (offline)" in " ".join(ended.output.split())
    assert "2 of its jobs wait for the next run" in " ".join(ended.output.split())
    measured = timed(second)
    assert timed(first) == 1
    first.plug()
    ended = CliRunner().invoke(cli.main, words)
    assert ended.exit_code == 0, ended.output
    assert "2 done before" in ended.output
    assert (timed(first), timed(second)) == (3, measured)
    file.unlink()
    with Journal.open(sweep.workspace.journal) as journal:
        assert all(isinstance(outcome, Measured) for phone in pair for outcome in sweep.outcomes(journal, phone))
        assert_invariants(sweep, journal)


# Row 2


@pytest.mark.fault(2, "cable pulled in a push", "no half file; sent whole later")
def test_a_phone_unplugged_in_a_push_is_sent_the_whole_file_later(pair: Pair, built: Path, tmp_path: Path) -> None:
    first, _ = pair
    sweep = PhoneSweep(tmp_path, built, pair[:1], data=MANY_IMAGES)
    with Journal.open(sweep.workspace.journal) as journal:
        first.slow_down(bytes_per_s=4e6)
        pulled = in_a_push(first, first.unplug)
        events = sweep.run(journal)
        pulled.join()
        [away] = [event for event in events if isinstance(event, Away)]
        assert (away.failed.kind, away.pending) == ("offline", 2)
        assert files(first, "images-") == []
        assert [len(journal.attempts.blocks(job.key)) for job in sweep.plan.jobs] == [1, 1]
        assert_invariants(sweep, journal)
        first.slow_down()
        first.plug()
        resume(sweep, journal)
        assert files(first, "part") == []


# Rows 3 and 4


@pytest.mark.fault(3, "cable pulled before the plan", "named, with what to do")
def test_a_phone_that_is_not_there_at_the_start_is_named(pair: Pair, built: Path, tmp_path: Path) -> None:
    first, second = pair
    first.unplug()
    with pytest.raises(DeviceError) as caught:
        PhoneSweep(tmp_path, built, pair)
    assert caught.value.kind == "offline"
    assert f"adb:{first.serial}" in caught.value.message
    assert caught.value.next_step
    messages: list[str] = []
    sweep = PhoneSweep(tmp_path / "all", built, [second])
    spec = sweep.spec.model_copy(update={"devices": ("adb:*",)})
    plan = plan_sweep(spec, sweep.workspace.root, (sweep.home,), tell=messages.append)
    assert [facts.device_id for facts in plan.devices] == [second.serialno]


@pytest.mark.fault(3, "cable pulled after the plan", "its jobs wait, others go on")
def test_a_phone_that_left_after_the_plan_waits_for_the_next_run(pair: Pair, built: Path, tmp_path: Path) -> None:
    first, second = pair
    sweep = PhoneSweep(tmp_path, built, pair)
    first.unplug()
    with Journal.open(sweep.workspace.journal) as journal:
        events = sweep.run(journal)
        assert [event.failed.kind for event in events if isinstance(event, Away)] == ["offline"]
        assert not any(isinstance(event, Waiting | AttemptFailed) for event in events), "it was never there in this run"
        assert sweep.outcomes(journal, first) == [None, None]
        assert all(isinstance(outcome, Measured) for outcome in sweep.outcomes(journal, second))
        assert_invariants(sweep, journal)
        first.plug()
        resume(sweep, journal)


@pytest.mark.fault(4, "a daemon that accepts no key", "left out, told to accept the prompt")
def test_a_phone_that_does_not_know_this_computer_is_told_of_and_left_out(
    pair: Pair, built: Path, tmp_path: Path, port: int
) -> None:
    sweep = PhoneSweep(tmp_path, built, pair)
    stranger = Stranger()
    host = AdbHost(port)
    host.connect(stranger.serial)
    messages: list[str] = []
    try:
        root, roots = sweep.workspace.root, (sweep.home,)
        spec = sweep.spec.model_copy(update={"devices": ("adb:*",)})
        plan = plan_sweep(spec, root, roots, tell=messages.append)
        with pytest.raises(DeviceError) as caught:
            plan_sweep(spec.model_copy(update={"devices": (f"adb:{stranger.serial}",)}), root, roots)
    finally:
        stranger.close()
        host.disconnect(stranger.serial)
    assert {facts.device_id for facts in plan.devices} == {phone.serialno for phone in pair}
    assert ["accept the prompt" in line and stranger.serial in line for line in messages] == [True]
    assert caught.value.kind == "unauthorized"
    with Journal.open(sweep.workspace.journal) as journal:
        resume(sweep, journal)


# Row 5


class Thief:
    """Takes the adb server's port, and hangs up on everyone who calls."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._listener: socket.socket | None = None

    def steal(self) -> None:
        listener: socket.socket | None = None
        while listener is None:
            kill_server(self._port)
            # Whoever measures starts a server at once.
            with suppress(OSError):
                listener = self._listener = socket.create_server(("127.0.0.1", self._port))
        threading.Thread(target=self._serve, args=(listener,), daemon=True).start()

    def give_back(self) -> None:
        if self._listener is not None:
            self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()

    @staticmethod
    def _serve(listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                listener.accept()[0].close()


@pytest.mark.fault(5, "adb kill-server in a block", "no job lost, at most one block a phone")
def test_an_adb_server_that_is_killed_costs_no_job_and_at_most_the_blocks_in_flight(
    pair: Pair, built: Path, tmp_path: Path, port: int
) -> None:
    sweep = PhoneSweep(tmp_path, built, pair)
    with Journal.open(sweep.workspace.journal) as journal:
        killed = amid(pair[:1], lambda: kill_server(port))
        events = sweep.run(journal, away_s=20.0)
        killed.join()
        assert [event for event in events if isinstance(event, AttemptFailed | Away)] == []
        assert all(2 <= timed(phone) <= 3 for phone in pair)
        assert all(isinstance(journal.outcomes.in_sweep("tiny", job), Measured) for job in sweep.plan.jobs)
        assert_invariants(sweep, journal)


def test_an_adb_server_that_is_killed_before_a_phone_was_ready_costs_no_job(
    pair: Pair, built: Path, tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep = PhoneSweep(tmp_path, built, pair)
    push = ImpatientPhone.push
    killed: list[str] = []

    def kill_at_first(device: AdbDevice, *arguments: object, **more: object) -> str:
        if not killed:
            killed.append(device.serial)
            kill_server(port)
        return push(device, *arguments, **more)

    monkeypatch.setattr(ImpatientPhone, "push", kill_at_first)
    with Journal.open(sweep.workspace.journal) as journal:
        events = sweep.run(journal, away_s=20.0)
        assert killed
        assert [event for event in events if isinstance(event, AttemptFailed | Away)] == []
        assert all(isinstance(journal.outcomes.in_sweep("tiny", job), Measured) for job in sweep.plan.jobs)
        assert_invariants(sweep, journal)


@pytest.mark.fault(5, "another program takes the server's port", "one event of the host, jobs wait")
def test_a_host_that_lost_its_adb_server_is_one_event_and_no_phone_s_failure(
    pair: Pair, built: Path, tmp_path: Path, port: int
) -> None:
    sweep = PhoneSweep(tmp_path, built, pair)
    with Journal.open(sweep.workspace.journal) as journal:
        thief = Thief(port)
        stealing = amid(pair, thief.steal)
        try:
            events = sweep.run(journal)
            stealing.join()
            messages: list[str] = []
            plan_sweep(sweep.spec, sweep.workspace.root, (sweep.home,), sweep.plan.devices, messages.append)
        finally:
            stealing.join()
            thief.give_back()
        assert sum("adb server" in line for line in messages) == 1, "and one to whoever plans"
        assert sum("its jobs wait" in line for line in messages) == 2
        [away] = [event for event in events if isinstance(event, Away)]
        assert away.failed.kind == "adb_server"
        assert str(port) in away.failed.message
        assert away.pending == sum(journal.outcomes.in_sweep("tiny", job) is None for job in sweep.plan.jobs) > 2
        waits = [event.waited_seconds for event in events if isinstance(event, Waiting)]
        assert waits == sorted(set(waits)), "both phones waited, and one event told it"
        assert not any(journal.attempts.failures(job.key) for job in sweep.plan.jobs), "no phone is to blame"
        assert_invariants(sweep, journal)
        AdbHost(port).devices()  # starts a server again
        resume(sweep, journal)


# Row 6


@pytest.mark.fault(6, "the phone's daemon killed in a block", "reconnected, no block repeated")
def test_a_network_that_drops_in_a_block_costs_nothing(
    pair: Pair, built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The daemon is back in a fraction of a second, on a busy machine in some.
    monkeypatch.setattr(ImpatientPhone, "PAUSES_S", (0.2, 2.0, 10.0))
    sweep = PhoneSweep(tmp_path, built, pair)
    with Journal.open(sweep.workspace.journal) as journal:
        dropped = amid(pair[:1], pair[0].restart_daemon)
        events = sweep.run(journal)
        dropped.join()
        assert not any(isinstance(event, AttemptFailed | Away) for event in events)
        assert [timed(phone) for phone in pair] == [2, 2]
        assert_invariants(sweep, journal)


# Rows 7 and 8


@pytest.mark.fault(7, "adb connect by a second address", "planned once, and said")
def test_one_phone_by_two_ways_is_planned_once_and_said(pair: Pair, built: Path, tmp_path: Path, port: int) -> None:
    first, _ = pair
    other = f"localhost:{first.serial.partition(':')[2]}"
    AdbHost(port).connect(other)
    try:
        sweep = PhoneSweep(tmp_path, built, [first])
        messages: list[str] = []
        spec = sweep.spec.model_copy(update={"devices": (f"adb:{first.serial}", f"adb:{other}")})
        plan = plan_sweep(spec, sweep.workspace.root, (sweep.home,), tell=messages.append)
        assert [facts.name for facts in plan.devices] == [f"adb:{first.serial}"]
        assert [other in line and first.serial in line for line in messages] == [True]
        with Journal.open(sweep.workspace.journal) as journal:
            resume(sweep, journal)
    finally:
        AdbHost(port).disconnect(other)


@pytest.mark.fault(8, "two phones of one serial number", "both refused, others planned")
def test_two_phones_of_one_serial_number_are_refused(pair: Pair, built: Path, tmp_path: Path, port: int) -> None:
    first, second = pair
    sweep = PhoneSweep(tmp_path, built, [second])
    root, roots = sweep.workspace.root, (sweep.home,)
    messages: list[str] = []
    with FaultyPhone(tmp_path / "twin", first.serialno) as twin:
        AdbHost(port).connect(twin.serial)
        try:
            spec = sweep.spec.model_copy(update={"devices": ("adb:*",)})
            plan = plan_sweep(spec, root, roots, tell=messages.append)
            both_phones = spec.model_copy(update={"devices": (f"adb:{first.serial}", f"adb:{twin.serial}")})
            with pytest.raises(DeviceError) as caught:
                plan_sweep(both_phones, root, roots)
        finally:
            AdbHost(port).disconnect(twin.serial)
    assert [facts.device_id for facts in plan.devices] == [second.serialno]
    assert any(first.serialno in line for line in messages)
    assert caught.value.kind == "ambiguous_serial"
    with Journal.open(sweep.workspace.journal) as journal:
        resume(sweep, journal)


# Row 12


@pytest.mark.fault(12, "SIGKILL of a driver beside its runner", "ended before the first block")
def test_what_an_earlier_sweep_left_running_is_ended_before_anything_is_measured(
    pair: Pair, built: Path, tmp_path: Path
) -> None:
    first, _ = pair
    sweep = PhoneSweep(tmp_path, built, pair)
    fault(first, "exec sleep 83.5")
    runner = f"/data/local/tmp/edgesweep/run/{files(first, 'edgesweep_runner')[0]}"
    with subprocess.Popen([sys.executable, "-c", DRIVER, first.serial, runner]) as driver:
        eventually(lambda: bool(running_on(first, "83.5")))
        driver.kill()
    assert running_on(first, "83.5")
    fault(first, "grep -al '83[.]5' /proc/[0-9]*/cmdline >>/data/local/others")
    (first.data / "local/starts").unlink()
    with Journal.open(sweep.workspace.journal) as journal:
        resume(sweep, journal)
    assert (first.data / "local/others").read_text() == "", "beside no block there was another program"
    assert not running_on(first, "83.5")


@pytest.mark.fault(28, "another process has the lease", "leased: left to it, measured later")
def test_a_phone_that_another_sweep_measures_is_left_to_it(pair: Pair, built: Path, tmp_path: Path) -> None:
    first, second = pair
    sweep = PhoneSweep(tmp_path, built, pair)
    with Journal.open(sweep.workspace.journal) as journal:
        other = HostLock(f"phone {first.serialno}")
        events = sweep.run(journal)
        other.release()
        [away] = [event for event in events if isinstance(event, Away)]
        assert (away.device, away.failed.kind) == (f"adb:{first.serial}", "leased")
        assert timed(first) == 0
        assert all(isinstance(outcome, Measured) for outcome in sweep.outcomes(journal, second))
        assert_invariants(sweep, journal)
        resume(sweep, journal)


# Row 33, with several phones


@pytest.mark.fault(33, "the driver fails while a phone measures", "no program left; resumed whole")
def test_what_ends_a_run_leaves_no_program_on_the_phones_that_were_measuring(
    pair: Pair, built: Path, tmp_path: Path
) -> None:
    first, second = pair
    sweep = PhoneSweep(tmp_path, built, pair)
    fault(second, "sleep 87.5")

    def publish() -> None:
        eventually(lambda: bool(running_on(second, "87.5")))
        raise RuntimeError("the driver is wrong")

    with Journal.open(sweep.workspace.journal) as journal:
        with pytest.raises(RuntimeError, match="the driver is wrong"):
            sweep.run(journal, publish=publish)
        assert not running_on(second, "87.5")
        assert all(isinstance(outcome, Measured) for outcome in sweep.outcomes(journal, first)[:1])
        (second.data / "local/fault").unlink()
        resume(sweep, journal)
