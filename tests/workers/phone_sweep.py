"""Sweeps of the tiny network on virtual phones that can be made to misbehave, and what must hold whatever happens.

Fixtures: `pair`, two phones, and `built`, the artifacts that all sweeps share; tests/workers/conftest.py imports them.
"""

import shutil
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from sweeps.device_facts import DeviceFacts
from sweeps.errors import FINAL_KINDS, StoreError
from sweeps.journal.journal import MAX_ATTEMPTS, Journal
from sweeps.records import Block, Failed, Job, Measured
from sweeps.spec.grid import GridSpec
from sweeps.spec.inputs import DataSpec, SyntheticData
from sweeps.spec.objective import ObjectiveSpec
from sweeps.spec.protocol import ProtocolSpec
from sweeps.store.mlflow import Store
from sweeps.store.reading import load
from tests import shared
from tests.fresh_mlflow import fresh_mlflow
from tests.transports import stand_in
from tests.workers.tiny_model import SOURCE
from tests.workers.tiny_sweep import Sweep
from workers.devices.adb.attempt import leads_attempt
from workers.devices.adb.device import AdbDevice
from workers.devices.adb.host import AdbHost
from workers.devices.adb.lease import Hold
from workers.devices.local import host_abi
from workers.devices.virtual_phone.phone import VirtualPhone
from workers.driver.events import Event
from workers.driver.ladder import AwayWait
from workers.models.code import construct
from workers.runtimes.torchscript import native_runner, programs

ONE_ROUND = ProtocolSpec(preset="quick", rounds=1, warmup_seconds=0.01, min_seconds=0.02, iterations=3, gate="none")
# Two jobs of one build.
GRID = GridSpec(precision=("fp32",), layout=("nchw",), threads=(1, 2))
# 3 MB: their push takes a while.
MANY_IMAGES = DataSpec(
    calibration=SyntheticData(source="synthetic", images=8), evaluation=SyntheticData(source="synthetic", images=1000)
)
ANY = ObjectiveSpec(constraints=())

# Sourced by the runner before it does its work, once or as often as it runs.
_FAULT = "local/fault"
_STARTS = "local/starts"
_NOW = "local/now"
# Until somebody has removed the file; not for ever, where whoever should has failed.
PAUSE = f"touch /data/{_NOW}; i=0; while [ -e /data/{_NOW} ] && [ $i -lt 600 ]; do sleep 0.1; i=$((i+1)); done"
OURS = ("fault", "starts", "now", "others")
_RUNNER = """#!/bin/sh
program='{program}'
[ "$1" = --nnapi-devices ] && exec "$program" "$@"
echo "$*" >>/data/local/starts
[ -e /data/local/fault ] && . /data/local/fault
exec "$program" "$@"
"""


class ImpatientPhone(AdbDevice):
    """Waits for answers, and for a phone that is away, as long as a test can."""

    ANSWER_S = 10.0
    PAUSES_S = (0.1, 0.2, 0.4)

    def __init__(self, folder: Path, name: str) -> None:
        super().__init__(folder, name, answer_s=self.ANSWER_S, backoff_s=self.PAUSES_S)


def as_new(phone: VirtualPhone) -> None:
    """Whatever a test did to it that can be undone."""
    phone.go_on()
    phone.slow_down()
    phone.plug()
    phone.start_daemon()
    phone.heat(25.0)
    phone.drain(80)
    phone.refuse_fixed_performance(None)
    phone.end_fixed_performance()
    for path in ("local/tmp/edgesweep", *(f"local/{name}" for name in OURS)):
        _remove(phone.data / path)


def _remove(path: Path) -> None:
    """Also while a program on the phone, which is about to end, writes into it."""
    deadline = time.monotonic() + 60
    while True:
        shutil.rmtree(path, ignore_errors=True)
        try:
            path.unlink(missing_ok=True)
            return
        except IsADirectoryError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


@pytest.fixture(scope="module")
def running(
    port: int, phones: list[VirtualPhone], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[VirtualPhone]]:
    runners = tmp_path_factory.mktemp("runners")
    runner = runners / host_abi() / "edgesweep_runner_full"
    runner.parent.mkdir()
    runner.write_text(_RUNNER.format(program=native_runner.program()))
    runner.chmod(runner.stat().st_mode | stat.S_IXUSR)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(programs.FOLDER_VARIABLE, str(runners))
        for phone in phones:
            # The server starts with the first, which takes longer than a test is patient.
            assert AdbHost(port).connect(phone.serial)
        stand_in(patch, "adb", f"{__name__}:{ImpatientPhone.__name__}")
        yield phones


@pytest.fixture
def pair(
    running: list[VirtualPhone], port: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[list[VirtualPhone]]:
    """Two phones as new, whose drivers give up soon."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    for phone in running:
        as_new(phone)
        assert AdbHost(port).connect(phone.serial)
    yield running
    for phone in running:
        as_new(phone)


@pytest.fixture(scope="module")
def built(running: list[VirtualPhone]) -> Path:
    """A workspace with what the grid of all sweeps needs."""

    def build(folder: Path) -> None:
        sweep = Sweep(folder, GRID, devices=(f"adb:{running[0].serial}",), protocol=ONE_ROUND)
        with Journal.open(sweep.workspace.journal) as journal:
            sweep.run(journal)
            assert all(isinstance(journal.sweep_outcome("tiny", job), Measured) for job in sweep.plan.jobs)

    # A process keeps the files of a model of one's own in a folder that it makes at first use. Whichever worker builds,
    # no test may be the first: it looks for what is left in the folder for temporary files.
    construct("tiny_net:make", {}, {"tiny_net.py": SOURCE})
    return shared.made_once("phone-sweep", build) / "workspace"


class PhoneSweep(Sweep):
    """On these phones, with nothing left to build. Gives a phone that goes away up soon."""

    def __init__(
        self, home: Path, built: Path, phones: Sequence[VirtualPhone], grid: GridSpec = GRID, **changes: object
    ) -> None:
        home = home / "home"
        for part in ("artifacts", "references"):
            shutil.copytree(built / part, home / "workspace" / part, dirs_exist_ok=True)
        fresh_mlflow(home / "workspace")
        self.phones = phones
        devices = tuple(f"adb:{phone.serial}" for phone in phones)
        super().__init__(home, grid, **{"devices": devices, "objective": ANY, "protocol": ONE_ROUND} | changes)

    def run(self, journal: Journal, *words: object, away_s: float = 1.0, **named: object) -> list[Event]:
        return super().run(journal, *words, **{"away_wait": AwayWait(away_s, 0.5)} | named)

    def jobs(self, phone: VirtualPhone) -> list[Job]:
        return [job for job in self.plan.jobs if job.device_id == phone.serialno]

    def outcomes(self, journal: Journal, phone: VirtualPhone) -> list[Measured | Failed | None]:
        return [journal.sweep_outcome("tiny", job) for job in self.jobs(phone)]

    def facts(self, job: Job) -> DeviceFacts:
        return next(facts for facts in self.plan.devices if facts.device_id == job.device_id)


def fault(phone: VirtualPhone, script: str, *, once: bool = False) -> None:
    """What the runner does first, in a shell, whenever it times or evaluates: `$program "$@"` is the real one."""
    (phone.data / _FAULT).write_text("rm /data/local/fault\n" * once + f"{script}\n")


def sizes(folder: Path, pattern: str) -> dict[Path, int]:
    """Files in it by their bytes, while some of them may be deleted."""
    while True:
        with suppress(FileNotFoundError):
            return {path: path.stat().st_size for path in folder.glob(pattern) if path.is_file()}


def files(phone: VirtualPhone, beginning: str) -> list[str]:
    """Of ours, on the phone."""
    return sorted(path.name for path in sizes(phone.data / "local/tmp/edgesweep", f"**/{beginning}*"))


def programs_on(phone: VirtualPhone) -> list[tuple[psutil.Process, list[str]]]:
    """What runs on the phone, with its argv. Whoever ends while it is asked is not among them."""
    found = []
    for one in phone.processes():
        with suppress(psutil.Error):
            found.append((one, one.cmdline()))
    return found


def running_on(phone: VirtualPhone, word: str) -> list[str]:
    """Command lines on the phone that hold it."""
    return [line for _, argv in programs_on(phone) if word in (line := " ".join(argv))]


def tidied_up(phone: VirtualPhone) -> bool:
    """Whether no shell that ran a program for us still removes what it left."""
    return not any(leads_attempt("\0".join(argv)) for _, argv in programs_on(phone))


def eventually(true: Callable[[], bool], seconds: float = 200.0) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def once(true: Callable[[], bool], call: Callable[[], object]) -> threading.Thread:
    def watch() -> None:
        eventually(true)
        call()

    thread = threading.Thread(target=watch)
    thread.start()
    return thread


def in_a_push(phone: VirtualPhone, call: Callable[[], object]) -> threading.Thread:
    """Call it once half a megabyte of a file has arrived."""
    return in_a_transfer(phone.data / "local/tmp/edgesweep/part", call)


def in_a_transfer(part: Path, call: Callable[[], object]) -> threading.Thread:
    def arrives() -> bool:
        # Smaller files arrive under this name too, and get one of their own.
        with suppress(FileNotFoundError):
            return part.stat().st_size > 500_000
        return False

    return once(arrives, call)


def timed(phone: VirtualPhone) -> int:
    """How often the runner was started to time a block."""
    return sum("--eval-inputs" not in line for line in _starts(phone))


def _starts(phone: VirtualPhone) -> list[str]:
    path = phone.data / _STARTS
    return path.read_text().splitlines() if path.exists() else []


def in_a_pause(phones: Sequence[VirtualPhone], call: Callable[[], object]) -> threading.Thread:
    """Call it once a program is at its `PAUSE` on each of them; they go on when it has returned."""
    marks = [phone.data / _NOW for phone in phones]

    def act() -> None:
        try:
            call()
        finally:
            for mark in marks:
                mark.unlink()

    return once(lambda: all(mark.exists() for mark in marks), act)


def amid(phones: Sequence[VirtualPhone], call: Callable[[], object]) -> threading.Thread:
    """Call it in the middle of the next run of the runner on each of them, which lasts 2 s beyond it."""
    for phone in phones:
        fault(phone, f"{PAUSE}; sleep 2", once=True)
    return in_a_pause(phones, call)


def resume(sweep: PhoneSweep, journal: Journal) -> None:
    """Run it again, to its end: what is there stays as it is, and only what is missing is measured."""
    kept = {job.key: journal.blocks(job.key) for job in sweep.plan.jobs}
    before = sum(map(timed, sweep.phones))
    sweep.run(journal)
    assert all(isinstance(journal.sweep_outcome("tiny", job), Measured) for job in sweep.plan.jobs)
    new = 0
    for key, blocks in kept.items():
        assert journal.blocks(key)[: len(blocks)] == blocks
        new += len(journal.blocks(key)) - len(blocks)
    assert sum(map(timed, sweep.phones)) - before == new
    starts = [len(_starts(phone)) for phone in sweep.phones]
    assert sweep.run(journal) == [], "what is done costs nothing"
    assert [len(_starts(phone)) for phone in sweep.phones] == starts
    assert_invariants(sweep, journal)


def assert_invariants(sweep: PhoneSweep, journal: Journal) -> None:
    """What faults.md asks for after every fault; that a resumed sweep repeats nothing, `resume` checks."""
    outcomes = {job.key: journal.sweep_outcome("tiny", job) for job in sweep.plan.jobs}
    for job in sweep.plan.jobs:
        _assert_at_most_one_outcome(journal, job, outcomes[job.key])
        for block in journal.blocks(job.key):
            _assert_whole(sweep, journal, job, block)
    _assert_published(sweep, journal, outcomes)
    for facts in sweep.plan.devices:
        Hold(f"phone {facts.device_id}").release()
    for phone in sweep.phones:
        assert {path.name for path in (phone.data / "local/tmp").iterdir()} <= {"edgesweep"}
        assert {path.name for path in (phone.data / "local").iterdir()} <= {"tmp", *OURS}
        assert {path.name for path in phone.data.iterdir()} == {"local"}
    assert {path.name for path in sweep.home.iterdir()} == {"tiny_net.py", "tiny.pt", "workspace"}
    assert not list(Path(tempfile.gettempdir()).iterdir())
    assert {path.name for path in Path.home().iterdir()} <= {".android"}


def _assert_at_most_one_outcome(journal: Journal, job: Job, outcome: Measured | Failed | None) -> None:
    """By its rows: of a job that is measured, `sweep_outcome` does not tell that it was given up as well."""
    blocks, failures = journal.blocks(job.key), journal.failures(job.key)
    rounds = {block.round for block in blocks}
    assert len(rounds) == len(blocks)
    assert rounds <= set(range(journal.planned_job("tiny", job.key).protocol.last_round))
    assert len(failures) <= MAX_ATTEMPTS, "it was tried on after it was given up"
    given_up = len(failures) == MAX_ATTEMPTS or any(failed.kind in FINAL_KINDS for failed in failures)
    assert not (given_up and isinstance(outcome, Measured))
    if isinstance(outcome, Measured) and outcome.timing is not None:
        assert outcome.timing.samples == sum(len(block.samples_ns) for block in blocks), "each block counts, once"


def _assert_whole(sweep: PhoneSweep, journal: Journal, job: Job, block: Block) -> None:
    manifest = journal.artifact(job.build_key)
    assert manifest is not None
    assert manifest.build_key == job.build_key
    assert block.job_key == job.key
    assert block.artifact_sha256 == manifest.file_sha256
    # A report without its end line has no samples: it is no block.
    assert len(block.samples_ns) >= (sweep.spec.protocol.iterations or 1)
    assert block.exit_code == 0
    assert block.backend_ran == job.variant.backend or "backend_fell_back" in block.labels
    assert block.engine_ran
    assert (block.runner, block.runtime_version) == (native_runner.runner(), "2.12.1")
    assert journal.planned_job("tiny", job.key).facts.fingerprint == sweep.facts(job).fingerprint


def _assert_published(sweep: PhoneSweep, journal: Journal, outcomes: Mapping[str, Measured | Failed | None]) -> None:
    """Twice, since what was brought once must not come again."""
    uri = sweep.workspace.tracking_uri
    store = Store(uri, sweep.workspace.mlflow_artifacts)
    for _ in range(2):
        store.publish(journal, "tiny")
    ended = {key: outcome for key, outcome in outcomes.items() if outcome is not None}
    if not ended:
        with pytest.raises(StoreError, match="no results yet"):
            load(uri, "tiny")
        return
    frame = load(uri, "tiny").frame
    rows = frame[frame["outcome"] != "skipped"]
    assert sorted(rows["job_key"]) == sorted(ended)
    for row in rows.itertuples():
        outcome = ended[row.job_key]
        if isinstance(outcome, Failed):
            assert (row.outcome, row.kind) == ("failed", outcome.kind)
        elif outcome.timing is not None:
            assert (row.outcome, row.samples) == ("measured", outcome.timing.samples)
            assert row.latency_p50_ms == pytest.approx(outcome.timing.latency_p50_ms)
