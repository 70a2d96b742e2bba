"""Workspaces with made-up measurements, recorded through the real plan and journal."""

import hashlib
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Protocol

import pytest
from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash

from dashboard.web_server import APP
from sweeps.device_facts import DeviceFacts
from sweeps.imported import Imported
from sweeps.journal.journal import Journal
from sweeps.journal.outcomes import MAX_ATTEMPTS
from sweeps.manifest import FILE_NAME, Manifest, TensorSpec
from sweeps.planning.keys import Identities, ModelIdentity
from sweeps.planning.plan import Plan, expand
from sweeps.protocol import sentinel_rules
from sweeps.protocol.presets import protocol_of
from sweeps.protocol.sentinel_rules import CHECK_BLOCKS, next_check, round_of
from sweeps.records import Accuracy, Block, Conditions, Failed, Job
from sweeps.settled import Settled
from sweeps.skip_kinds import Skip
from sweeps.spec.grid import GridSpec
from sweeps.spec.label import label_of
from sweeps.spec.model_inputs import DataSpec, DigitsData, ModelSpec
from sweeps.spec.objective import ObjectiveSpec
from sweeps.spec.protocol import MinutesBudget, ProtocolSpec
from sweeps.spec.sweep import SweepSpec
from sweeps.stats import Estimate
from sweeps.variant import Variant
from sweeps.workspace import Workspace
from tests import shared
from tests.builders import computer_facts, identities_of, imported_of
from tests.sweeps.conftest import Records

RECORDS = Records()
EVIL = "<script>alert(1)</script> [x](javascript:alert(1)) **b** `c` :smile: www.example.com -> $x$ :material/home:"

BOARD = computer_facts(
    device_id="board-1",
    maker="Acme",
    model="Board 3",
    soc="Fast SoC",
    os_build="linux 6.12",
    cores=4,
    ram_bytes=8 << 30,
)
PHONE = replace(BOARD, device_id="phone-1", name="adb:1", maker="Globex", model="Phone 9", soc="SoC X", abi="arm64-v8a")

IMAGES = 597
"""All that the digits hold out."""

Latency = Callable[[Job], float | None]
"""Milliseconds of a job; `None`: it fails."""


@dataclass(frozen=True)
class Recorder:
    """Writes sweeps into one workspace."""

    workspace: Workspace

    def record(
        self,
        name: str,
        latency_ms: Latency,
        devices: tuple[DeviceFacts, ...] = (BOARD,),
        grid: GridSpec | None = None,
        edit: Callable[[Plan], Plan] = lambda plan: plan,
        drop_points: Callable[[Job], float | Estimate] = lambda job: 0.2 if job.variant.precision == "int8" else 0.0,
        message: str = "the process was ended by signal 11",
        settle: Callable[[Job], Settled | None] = lambda job: None,
        pace: Callable[[Job, int], float] = lambda job, round_: (1.0, 1.004, 0.996)[round_ % 3],
        imported: tuple[Imported, ...] = (),
        edit_block: Callable[[Block, Job], Block] = lambda block, job: block,
        sentinel_ms: Callable[[int, int], float] | None = None,
        checks_every: int | None = None,
        waits: Callable[[Job], bool] = lambda job: False,
    ) -> Plan:
        """Three rounds of each job that has a latency and is timed, an accuracy of each build on each device. Of jobs
        that wait there is nothing. A drop without an interval has one that no counts of images give."""
        plan = edit(expand(_spec(name, grid, checks_every), devices, _supports, _identities(name)))
        protocol = protocol_of(plan.sweep)
        fingerprints = {facts.device_id: facts.fingerprint for facts in devices}
        with Journal.open(self.workspace.journal) as journal:
            journal.save_plan(plan)
            for looked in plan.sentinels if sentinel_ms else ():
                first = next_check(journal.attempts.blocks(looked.key))
                for check, number in product(range(4), range(CHECK_BLOCKS)):
                    block = _block(looked, round_of(first + check, number), sentinel_ms(check, number))
                    journal.attempts.add_block(edit_block(block, looked))
            for job in (job for job in plan.jobs if not waits(job)):
                journal.artifacts.add(_manifest(job))
                ms = latency_ms(job)
                if ms is None:
                    for _ in range(MAX_ATTEMPTS):
                        journal.attempts.add_failure(job.key, Failed(stage="run", kind="crashed", message=message))
                    continue
                for round_ in range(0 if job.emulated else protocol.rounds):
                    journal.attempts.add_block(edit_block(_block(job, round_, ms * pace(job, round_)), job))
                if (settled := settle(job)) is not None:
                    journal.attempts.add_settled(replace(settled, question=protocol.question))
                journal.attempts.add_accuracy(
                    _accuracy(job, job.reference or fingerprints[job.device_id], drop_points(job))
                )
            for entry in imported:
                journal.imports.add(name, entry)
        return plan


def by_axes(job: Job) -> float | None:
    """A plausible board: int8 and channels last are fast, one combination crashes."""
    ms = 9.0 if job.variant.precision == "fp32" else 3.0
    ms *= 1.0 if job.variant.layout == "nhwc" else 2.4
    ms *= 1.0 if job.variant.optimize else 1.2
    if job.device_id == PHONE.device_id:
        # The phone's own order: without channels last.
        ms *= 0.3 if job.variant.layout == "nchw" else 2.0
    crashes = job.variant.precision == "fp32" and job.variant.capture == "trace" and not job.variant.optimize
    return None if crashes else ms * (1.001 if job.variant.capture == "trace" else 1.0)


WIDE = GridSpec(capture=("script", "trace"), optimize=(True, False))


HOST = replace(BOARD, device_id="board-3", emulates=("nnapi", "metal"))
EVERY_BACKEND = GridSpec(backend=("cpu", "nnapi", "metal"))


def drops(job: Job) -> float:
    """NNAPI's int8 is of no use in one layout, and in the other not quite told from the bound."""
    return {"nnapi int8-qnnpack nhwc": 12.0, "nnapi int8-qnnpack nchw": 0.8}.get(label_of(job.variant), 0.2)


def by_accuracy(plan: Plan) -> Plan:
    objective = ObjectiveSpec(maximize="top1_percent", constraints=())
    return replace(plan, sweep=plan.sweep.model_copy(update={"objective": objective}))


def race(plan: Plan) -> Plan:
    """With a front, for three rounds."""
    changes = {
        "objective": ObjectiveSpec(constraints=(), front="artifact_mb"),
        "budget": MinutesBudget(device_minutes=35),
        "protocol": ProtocolSpec(rounds=3),
    }
    return replace(plan, sweep=plan.sweep.model_copy(update=changes))


def least(job: Job) -> float:
    return 0.0 if label_of(job.variant) == "nnapi fp32 nhwc" else 8.0


UNITS = tuple(replace(PHONE, device_id=f"unit-{letter}", name=f"adb:{letter}") for letter in "ab")


def by_turns(plan: Plan) -> Plan:
    """The first variant on each of two units, and each other one on one of them."""
    jobs = []
    for turn, unit in enumerate(UNITS):
        first, *rest = [job for job in plan.jobs if job.device_id == unit.device_id]
        jobs += [replace(job, link=first.key) for job in (first, *rest[turn :: len(UNITS)])]
    return replace(plan, jobs=tuple(jobs))


def raced(job: Job) -> Settled | None:
    """Settle a job: eliminated by a variant under a name that means to do harm, or out of time."""
    slower = job.variant.layout == "nchw"
    return Settled(
        job_key=job.key,
        budget="race",
        rounds=3,
        reason="slower" if slower else "out_of_time",
        message=f"{EVIL} ended it",
        by=f"digits · {EVIL}" if slower else "",
        ratio=2.3 if slower else None,
        ratio_low=2.017 if slower else None,
        error=0.02,
        device_minutes=35,
    )


def around(job: Job) -> float:
    """Two units: on one of them what is traced is a little slower."""
    ms = 9.0 if job.variant.layout == "nchw" else 3.0
    return ms * (1.04 if job.variant.capture == "trace" and job.device_id == "unit-a" else 1.0)


def uneven(job: Job, round_: int) -> float:
    """No two variants take turns alike, so that nothing is resolved."""
    return 1.0 + 0.2 * ((round_ + job.variant.optimize) % 3)


HARMFUL = replace(BOARD, device_id="board-2", model=EVIL)


def hostile(plan: Plan) -> Plan:
    """The same plan, the fastest variant under a name that means to do harm, and the slowest one checked by such."""
    finished = sorted((job for job in plan.jobs if by_axes(job)), key=lambda job: by_axes(job) or 0.0)
    evil = {
        finished[0].key: replace(finished[0], name=EVIL, variant=replace(finished[0].variant, capture=EVIL)),
        finished[-1].key: replace(finished[-1], name=f"{EVIL} checked", reference=f"reference:{EVIL}"),
    }
    return replace(plan, jobs=tuple(evil.get(job.key, job) for job in plan.jobs))


def by_hand(facts: DeviceFacts | None, **changes: object) -> Imported:
    """A figure of a tool that was run by hand on that device, or on one that no sweep has."""
    figure = imported_of(
        model="digits",
        variant="metal fp32",
        device=facts.device_class if facts else "iPhone X",
        device_id=facts.device_id if facts else "",
        tool="TestApp",
        mean_ms=0.767,
    )
    return replace(figure, **changes)


@pytest.fixture(scope="session")
def recorder() -> Recorder:
    """A workspace with several sweeps; `phones`, the one with two devices, is the latest."""
    return Recorder(Workspace.open(shared.made_once("it's a workspace", _record)))


def _record(folder: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        recorder = Recorder(Workspace.open(folder))
        shipped = recorder.record("shipped", by_axes, devices=(replace(BOARD, device_id="board-5"),), grid=WIDE)
        for job in shipped.jobs:
            _keep(recorder.workspace, job)
        recorder.record("broken", lambda job: None, devices=(replace(BOARD, device_id="board-0"),))
        evil = (by_hand(HARMFUL, variant=EVIL, log=f"{EVIL}.txt"), by_hand(None, device=EVIL, log_sha256="b" * 64))
        recorder.record("hostile", by_axes, devices=(HARMFUL,), grid=WIDE, edit=hostile, message=EVIL, imported=evil)
        recorder.record("checked", by_axes, devices=(HOST,), grid=EVERY_BACKEND, drop_points=drops)
        recorder.record(
            "by-accuracy", by_axes, devices=(HOST,), grid=EVERY_BACKEND, edit=by_accuracy, drop_points=least
        )
        recorder.record("only-checked", by_axes, devices=(HOST,), grid=GridSpec(backend=("nnapi",)))
        recorder.record("raced", around, devices=UNITS, grid=WIDE, settle=raced, edit=race)
        recorder.record("open", by_axes, devices=(replace(BOARD, device_id="board-4"),), grid=WIDE, pace=uneven)
        hand_run = (by_hand(PHONE), by_hand(PHONE, log_sha256="b" * 64, mean_ms=0.5, p50_ms=0.4, iterations=20))
        recorder.record("phones", by_axes, devices=(BOARD, PHONE), grid=WIDE, imported=(*hand_run, by_hand(None)))


@pytest.fixture(scope="session")
def evidence_store() -> Path:
    """A workspace without MLflow, whose blocks have conditions and whose devices have sentinels: `before` and `after`
    a day later with the same builds, `hostile`, and `broken` on a device of its own."""
    return shared.made_once("evidence of jobs", _record_evidence)


def _record_evidence(folder: Path) -> None:
    recorder = Recorder(Workspace.open(folder))
    day = {
        "sentinel_ms": lambda check, number: (4.0 if check < 2 else 4.6) + 0.01 * number,
        "grid": WIDE,
        "checks_every": 12,
    }
    units = (BOARD, PHONE)
    recorder.record("broken", lambda job: None, devices=(replace(BOARD, device_id="board-0"),), message=EVIL)
    recorder.record("hostile", by_axes, devices=(HARMFUL,), grid=WIDE, edit=hostile, message=EVIL)
    recorder.record("before", by_axes, devices=units, edit_block=observed(1_800_000_000), **day)
    recorder.record("after", later, devices=units, edit_block=observed(1_800_086_400), **day)


def slows_down(check: int, number: int) -> float:
    """A sentinel whose device changes its speed for good between two checks (ms)."""
    return (4.0 if check < 2 else 4.6) + 0.01 * number


def later(job: Job) -> float | None:
    """Time a job as `by_axes` does, and a traced one 30 % slower."""
    ms = by_axes(job)
    return None if ms is None else ms * (1.3 if job.variant.capture == "trace" else 1.0)


def observed(run: int) -> Callable[[Block, Job], Block]:
    """A phone that warms up, in a run of the driver with this start; samples and warm-ups are not all alike."""

    def edit(block: Block, job: Job) -> Block:
        warm = 30.0 + block.round % 7
        conditions = replace(
            block.conditions, temp_start_c=warm, temp_end_c=warm + 1.5, gate="ready", battery_percent=81.0
        )
        phone = job.device_id == PHONE.device_id
        ms = block.samples_ns[0] / 1e6
        return replace(
            block,
            session=run,
            samples_ns=tuple(
                ns + (ns // 5 if index % 37 == 0 else 97 * (index % 11)) for index, ns in enumerate(block.samples_ns)
            ),
            warmup_ns=tuple(int(1e6 * ms * (1 + 2 / (1 + index))) for index in range(8)),
            conditions=conditions if phone else block.conditions,
            labels=() if phone else block.labels,
        )

    return edit


@pytest.fixture(scope="session")
def workspace(recorder: Recorder) -> Path:
    return recorder.workspace.root


@pytest.fixture(scope="session")
def evil() -> str:
    return EVIL


@pytest.fixture
def recorder_in(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], Callable[[str], None]]:
    """Records small sweeps by name into a workspace of one's own."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)

    def into(root: Path) -> Callable[[str], None]:
        recorder = Recorder(Workspace.open(root))

        def record(name: str) -> None:
            recorder.record(name, by_axes)

        return record

    return into


@pytest.fixture
def shared_by_units(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A workspace with one sweep, whose variants two units shared."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    Recorder(Workspace.open(tmp_path)).record("shared", around, devices=UNITS, grid=WIDE, edit=by_turns)
    return tmp_path


class ShowPage(Protocol):
    """Runs a page of the dashboard on a workspace, by its name, with what its URL asks for."""

    def __call__(self, root: Path, name: str = ..., **parameters: str) -> AppTest: ...


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> ShowPage:
    """A page keeps what it has read of a sweep for the next test."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)

    def run(root: Path, name: str = "decide", **parameters: str) -> AppTest:
        monkeypatch.setattr("sys.argv", [str(APP), "--workspace", str(root)])
        shown = AppTest.from_file(str(APP), default_timeout=600)
        # AppTest chooses pages by their file, and these are functions.
        shown._page_hash = calc_hash(name)
        for parameter, value in parameters.items():
            shown.query_params[parameter] = value
        return shown.run()

    return run


def _identities(sweep: str) -> Identities:
    """Each sweep has weights of its own: the journal has one accuracy of a build, whoever measured it."""
    return identities_of(
        {
            "digits": ModelIdentity(source="torchvision:mobilenet_v2", weights_id=f"demo:{sweep}"),
            sentinel_rules.MODEL.name: ModelIdentity(source=sentinel_rules.MODEL.source, weights_id="random:0"),
        },
        references={"nnapi": "reference:nnapi@1", "metal": "reference:metal@1"},
    )


def _spec(name: str, grid: GridSpec | None, checks_every: int | None) -> SweepSpec:
    return SweepSpec(
        name=name,
        models=(ModelSpec(name="digits", source="mobilenet_v2", weights="demo"),),
        data=DataSpec(calibration=DigitsData(source="digits", images=100), evaluation=DigitsData(source="digits")),
        grids=(grid or GridSpec(),),
        budget="full",
        protocol=ProtocolSpec(sentinel_every=checks_every),
    )


def _supports(variant: Variant, facts: DeviceFacts) -> Skip | None:
    if variant.backend == "metal" and (variant.layout == "nhwc" or variant.precision == "int8"):
        return Skip("not_on_metal", "Metal takes fp32 in NCHW")
    odd = variant.precision == "int8" and variant.capture == "trace" and not variant.optimize
    return Skip("no_effect", "int8 traced and not optimized has no effect") if odd else None


def _block(job: Job, round_: int, ms: float) -> Block:
    conditions = Conditions(load_start=0.01)
    return RECORDS.block(job, round_, ms, device_seconds=50.0, engine_ran=job.variant.qengine, conditions=conditions)


def _accuracy(job: Job, executor: str, drop_or_bounds: float | Estimate) -> Accuracy:
    drop = (
        drop_or_bounds
        if isinstance(drop_or_bounds, Estimate)
        else Estimate(drop_or_bounds, drop_or_bounds - 0.46, drop_or_bounds + 0.46)
    )
    return RECORDS.accuracy(
        job,
        executor=executor,
        images=IMAGES,
        top1_percent=97.6 - drop.value,
        top5_percent=99.8,
        reference_top1_percent=97.6,
        sqnr_db=31.0,
        accuracy_drop_points=drop.value,
        accuracy_drop_low_points=drop.low,
        accuracy_drop_high_points=drop.high,
    )


MODEL = b"the model"
"""The content of every build's file."""


def _keep(workspace: Workspace, job: Job) -> None:
    """The build's files, as a sweep leaves them in the workspace."""
    folder = workspace.artifact(job.build_key)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / FILE_NAME).write_text(_manifest(job).model_dump_json())
    (folder / _manifest(job).file).write_bytes(MODEL)


def _manifest(job: Job) -> Manifest:
    tensor = TensorSpec(shape=(1, 3, 64, 64), dtype="float32")
    return RECORDS.manifest(
        job,
        model=job.model,
        weights_id="demo:0",
        file_bytes=700_000 if job.variant.precision == "int8" else 1_900_000,
        file_sha256=hashlib.sha256(MODEL).hexdigest(),
        input=tensor,
        output=tensor,
        fused=(),
    )


@pytest.fixture(autouse=True)
def _main_module_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """AppTest makes the app the `__main__` module; a process that another test starts would run it again."""
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
