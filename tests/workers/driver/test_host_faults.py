"""Faults of the computer that drives two virtual phones: its builders, its disk, its clock, its files, MLflow."""

import os
import shutil
import sqlite3
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from sweeps.errors import StoreError
from sweeps.journal.journal import Journal
from sweeps.ranking import rank
from sweeps.records import Failed, Measured
from sweeps.spec.grid import GridSpec
from sweeps.spec.model_inputs import ModelSpec
from sweeps.store.publishing import Publisher
from tests.faulty_phone import FaultyPhone
from tests.mlflow_rows import load
from tests.workers.phone_sweep import (
    GRID,
    PAUSE,
    PhoneSweep,
    amid,
    assert_invariants,
    fault,
    in_a_pause,
    once,
    resume,
    timed,
)
from tests.workers.tiny_model import SOURCE
from workers.driver.driver_events import AttemptFailed, Away, Building, Event
from workers.executors.ray import RayExecutor
from workers.models.model_code import construct
from workers.models.prepare import PreparedModel
from workers.plan_inputs import plan_sweep

pytestmark = [pytest.mark.system, pytest.mark.long]

Pair = list[FaultyPhone]

TWO_BUILDS = GridSpec(precision=("fp32",), layout=("nchw", "nhwc"))


def published_run(sweep: PhoneSweep, journal: Journal) -> list[Event]:
    """With the publisher that the command has."""
    with Publisher(sweep.workspace, "tiny") as publisher:
        return sweep.run(journal, publishing=publisher)


def all_measured(sweep: PhoneSweep, journal: Journal) -> bool:
    return all(isinstance(journal.outcomes.in_sweep("tiny", job), Measured) for job in sweep.plan.jobs)


@pytest.mark.suite
@pytest.mark.fault(27, "the daemon killed after the program, before its reply", "collected, no block repeated")
def test_a_reply_that_is_lost_after_a_block_is_collected(pair: Pair, built: Path, tmp_path: Path) -> None:
    first, _ = pair
    sweep = PhoneSweep(tmp_path, built, pair)
    fault(first, f'"$program" "$@"; s=$?; {PAUSE}; exit $s', once=True)
    with Journal.open(sweep.workspace.journal) as journal:
        dropped = in_a_pause([first], first.restart_daemon)
        events = sweep.run(journal, away_s=20.0)
        dropped.join()
        assert not any(isinstance(event, AttemptFailed | Away) for event in events)
        assert [timed(phone) for phone in pair] == [2, 2]
        assert_invariants(sweep, journal, faults=0)


# Builds


@pytest.mark.suite
@pytest.mark.fault(32, "SIGKILL of the builder in a build", "that build fails for now, the next run builds it")
def test_a_builder_that_is_killed_for_memory_costs_its_build_until_the_next_run(
    pair: Pair, built: Path, tmp_path: Path
) -> None:
    sweep = PhoneSweep(tmp_path, built, pair[:1], TWO_BUILDS)
    before = set(psutil.Process().children(recursive=True))

    def kill() -> None:
        for process in set(psutil.Process().children(recursive=True)) - before:
            if "workers.executors.builder" in process.cmdline():
                process.kill()

    with Journal.open(sweep.workspace.journal) as journal:
        killed = once(lambda: any(sweep.workspace.artifacts.glob(".*/")), kill)
        events = sweep.run(journal)
        killed.join()
        failed = [event for event in events if isinstance(event, AttemptFailed)]
        assert [(event.failed.stage, event.final) for event in failed] == [("build", False)]
        outcomes = {job.variant.layout: journal.outcomes.in_sweep("tiny", job) for job in sweep.plan.jobs}
        assert isinstance(outcomes["nchw"], Measured)
        assert outcomes["nhwc"] is None
        assert_invariants(sweep, journal)
        resume(sweep, journal)


@pytest.mark.suite
@pytest.mark.fault(39, "a builder that ends while it builds one variant", "that variant fails, the rest is measured")
def test_a_variant_that_cannot_be_exported_is_one_failure(pair: Pair, built: Path, tmp_path: Path) -> None:
    sweep = PhoneSweep(tmp_path, built, pair[:1], TWO_BUILDS)

    def prepare(model: ModelSpec) -> PreparedModel:
        prepared = sweep.prepare(model)
        package = replace(prepared.build_inputs.package, files={"tiny_net.py": b"import os\nos._exit(9)\n"})
        return replace(prepared, build_inputs=replace(prepared.build_inputs, package=package))

    with Journal.open(sweep.workspace.journal) as journal:
        sweep.run(journal, prepare=prepare)
        outcomes = {job.variant.layout: journal.outcomes.in_sweep("tiny", job) for job in sweep.plan.jobs}
        assert isinstance(outcomes["nchw"], Measured)
        assert isinstance(outcomes["nhwc"], Failed)
        assert outcomes["nhwc"].stage == "build"
        assert_invariants(sweep, journal)


@pytest.mark.suite
@pytest.mark.fault(42, "7 bytes cut off an artifact before the run", "built again, measured")
def test_an_artifact_that_is_damaged_is_built_again_and_measured(pair: Pair, built: Path, tmp_path: Path) -> None:
    sweep = PhoneSweep(tmp_path, built, pair[:1])
    [model] = sweep.workspace.artifacts.glob(f"{sweep.plan.jobs[0].build_key}/model.pt")
    os.truncate(model, model.stat().st_size - 7)
    with Journal.open(sweep.workspace.journal) as journal:
        events = sweep.run(journal)
        assert any(isinstance(event, Building) for event in events)
        assert all_measured(sweep, journal)
        assert_invariants(sweep, journal)


# Ray


@pytest.mark.ray
@pytest.mark.suite
@pytest.mark.fault(26, "SIGKILL of a phone's worker process in a block", "that block is measured again, no other")
def test_a_worker_of_ray_that_is_killed_costs_its_block(
    pair: Pair, built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    sweep = PhoneSweep(tmp_path, built, pair)
    # Ray's own files are not the sweep's.
    executor = RayExecutor(sweep.workspace.root, [facts.device_id for facts in sweep.plan.devices])

    def kill() -> None:
        raylet = next(process for process in psutil.Process().children(recursive=True) if process.name() == "raylet")
        workers = [
            process for process in raylet.children(recursive=True) if "_DeviceActor" in " ".join(process.cmdline())
        ]
        assert len(workers) == 2
        workers[0].kill()

    with Journal.open(sweep.workspace.journal) as journal:
        killed = amid(pair, kill)
        events = sweep.run(journal, executor=executor, away_s=60.0)
        killed.join()
        failed = [event.failed.kind for event in events if isinstance(event, AttemptFailed)]
        assert failed == ["worker_lost"]
        assert all_measured(sweep, journal)
        assert sum(map(timed, pair)) == 5
        assert_invariants(sweep, journal, faults=0)


# The measurement itself


@pytest.mark.suite
@pytest.mark.fault(35, "other threads, then other code of the model", "new jobs run, old rows stay stale")
def test_a_sweep_that_changed_is_measured_anew_where_it_did_and_old_rows_stay(
    pair: Pair,
    built: Path,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    sweep = PhoneSweep(tmp_path, built, pair[:1])
    with Journal.open(sweep.workspace.journal) as journal:
        sweep.run(journal)
        kept_blocks = {job.key: journal.attempts.blocks(job.key) for job in sweep.plan.jobs}
        old = sweep.plan
        grid = GRID.model_copy(update={"threads": (1, 3)})
        sweep.spec = sweep.spec.model_copy(update={"grids": (grid,)})
        sweep.plan = plan_sweep(sweep.spec, sweep.workspace.root, (sweep.home,))
        same_keys = {job.key for job in sweep.plan.jobs} & set(kept_blocks)
        assert len(same_keys) == 1
        sweep.run(journal)
        assert timed(pair[0]) == 3, "the job that both files have is not measured again"
        source = SOURCE + b"\n# another\n"
        (sweep.home / "tiny_net.py").write_bytes(source)
        with monkeypatch.context() as patch:
            # A process keeps the files of a model until it ends, which this one does after the test.
            patch.setattr(tempfile, "tempdir", str(elsewhere))
            construct("tiny_net:make", {}, {"tiny_net.py": source})
        sweep.plan = plan_sweep(sweep.spec, sweep.workspace.root, (sweep.home,))
        assert not {job.key for job in sweep.plan.jobs} & set(kept_blocks)
        sweep.run(journal)
        assert timed(pair[0]) == 5
        assert all_measured(sweep, journal)
        assert {job.key for job in old.jobs} <= {job.key for job, stale in journal.jobs.of_sweep("tiny") if stale}
        for key, blocks in kept_blocks.items():
            assert journal.attempts.blocks(key) == blocks
        assert_invariants(sweep, journal)


@pytest.mark.fault(40, "the file of answers filled with NaN", "kept, marked invalid_output: cannot win")
def test_answers_that_are_no_numbers_are_kept_and_cannot_win(pair: Pair, built: Path, tmp_path: Path) -> None:
    first, _ = pair
    sweep = PhoneSweep(tmp_path, built, pair[:1])
    fault(
        first,
        r"""case "$*" in *--eval-outputs*)
            "$program" "$@" || exit
            while [ "$1" != --eval-outputs ]; do shift; done
            size=$(wc -c <"$2")
            head -c $size /dev/zero | tr '\000' '\377' >"$2"
            exit 0
        esac""",
    )
    with Journal.open(sweep.workspace.journal) as journal:
        sweep.run(journal)
        outcomes = sweep.outcomes(journal, first)
        assert all(isinstance(outcome, Measured) and outcome.accuracy is not None for outcome in outcomes)
        assert all("invalid_output" in outcome.accuracy.labels for outcome in outcomes)
        assert_invariants(sweep, journal)
        results = load(sweep.workspace.tracking_uri, "tiny")
        [entry] = rank.rank(results.frame, results.spec.objective, "tiny").devices
        assert entry.winner is None


# The disk and the files of the host


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A tmpfs where a `PhoneSweep` in `tmp_path` has its workspace."""
    place = tmp_path / "home" / "workspace"
    place.mkdir(parents=True)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", place], capture_output=True, text=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip(f"a tmpfs cannot be mounted; enable with a privileged container: {mounted.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


@pytest.mark.fault(45, "a tmpfs with the workspace filled in a block", "stops before accepting; resumed whole")
def test_a_host_with_a_full_disk_stops_before_it_accepts_and_goes_on_with_room(
    pair: Pair, built: Path, tmp_path: Path, small_disk: Path
) -> None:
    sweep = PhoneSweep(tmp_path, built, pair)
    filler = small_disk / "logs" / "others"
    filler.parent.mkdir(exist_ok=True)

    def fill() -> None:
        with filler.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, shutil.disk_usage(small_disk).free)

    with Journal.open(sweep.workspace.journal) as journal:
        filled = amid(pair, fill)
        with pytest.raises(StoreError, match=r"full\n.*free space"):
            sweep.run(journal)
        filled.join()
    with Journal.open(sweep.workspace.journal, read_only=True) as journal:
        assert not any(journal.attempts.blocks(job.key) for job in sweep.plan.jobs)
    filler.unlink()
    with Journal.open(sweep.workspace.journal) as journal:
        resume(sweep, journal)


@pytest.mark.suite
@pytest.mark.fault(44, "MLflow's sqlite, or the journal, locked in a block", "waited for, nothing lost")
@pytest.mark.parametrize("file", ["journal.sqlite", "mlflow.sqlite"])
@pytest.mark.parametrize("seconds", [2.0, 30.0])
def test_a_database_that_is_locked_for_a_while_loses_nothing(
    pair: Pair, built: Path, tmp_path: Path, file: str, seconds: float
) -> None:
    sweep = PhoneSweep(tmp_path, built, pair)
    free = threading.Event()

    def lock() -> None:
        held = threading.Event()

        def hold() -> None:
            with closing(sqlite3.connect(sweep.workspace.root / file, isolation_level=None, timeout=60)) as db:
                db.execute("BEGIN IMMEDIATE" if file == "journal.sqlite" else "BEGIN EXCLUSIVE")
                held.set()
                free.wait(seconds)
                db.execute("ROLLBACK")

        threading.Thread(target=hold).start()
        held.wait()

    with Journal.open(sweep.workspace.journal) as journal:
        locking = amid(pair[:1], lock)
        published_run(sweep, journal)
        free.set()
        locking.join()
        assert all_measured(sweep, journal)
        assert [timed(phone) for phone in pair] == [2, 2]
        assert_invariants(sweep, journal, faults=0)
