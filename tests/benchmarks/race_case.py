"""Real sweeps over the builds of sweeps/specs/race.yaml on this machine's CPU. Each is measured anew.

The builds, and their accuracies, are made once; each sweep has a journal of its own, so that nothing measured before
decides in it. All run in one process that is a child of the benchmark's: what else the benchmark starts, a sweep sees
as other programs' load, as it would on a machine in use.
"""

import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Literal

from sweeps.batches import StoredBatch
from sweeps.device_facts import DeviceFacts
from sweeps.journal.journal import Journal
from sweeps.journal.result_row import row_of_job
from sweeps.planning.plan import Plan
from sweeps.protocol.clock import figure_ns
from sweeps.protocol.device_time import spent
from sweeps.ranking.rank import rank
from sweeps.records import Accuracy, Block, Failed, Measured
from sweeps.results import to_frame
from sweeps.spec.model_inputs import ModelSpec
from sweeps.spec.objective import ObjectiveSpec
from sweeps.spec.protocol import GateSpec, ProtocolSpec
from sweeps.spec.sweep import SweepSpec, load
from sweeps.stats import median
from sweeps.workspace import Workspace
from tests.at_once import AtOnce
from workers.artifacts import ArtifactStore
from workers.driver.driver_events import AttemptFailed, Building, MeasuredAlone, Measuring, Waiting
from workers.driver.sweep_driver import Driver
from workers.executors.inline import InlineExecutor
from workers.executors.interface import DeviceLane
from workers.measure.batch_request import BatchRequest
from workers.measure.device_runner import AnswerT, Request
from workers.models import prepare as models
from workers.models.prepared_model import PreparedModel
from workers.plan_inputs import plan_sweep

RACE = Path(__file__).resolve().parents[2] / "sweeps" / "specs" / "race.yaml"

Kind = Literal["rounds", "race", "race alone"]
"""A fixed number of rounds of every build in processes of its own; a race; a race without batches."""

# The sweep measures in any state, and waits for nobody: a core that is busy stays so.
_GATE = GateSpec(wait_seconds=60.0, load_wait_seconds=0.0)


def race_spec(seed: int) -> SweepSpec:
    """The race of the sweep file, for the fastest build whatever its accuracy. `seed`: of the order within rounds."""
    protocol = ProtocolSpec(seed=seed, sentinel_every=0, on_not_ready="mark", gate=_GATE)
    objective = ObjectiveSpec(minimize="latency_p50_ms", constraints=())
    return load(RACE).model_copy(update={"protocol": protocol, "objective": objective, "budget": "race"})


def rounds_spec(rounds: int) -> SweepSpec:
    """The same builds in so many rounds, with the blocks of the race."""
    race = race_spec(0)
    block = {"warmup_seconds": 0.2, "iterations": 5, "min_seconds": 0.2}
    protocol = ProtocolSpec(preset="quick", rounds=rounds, on_not_ready="mark", gate=_GATE, **block)
    return race.model_copy(update={"protocol": protocol, "budget": "full"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RealSweep:
    """The measurements of one sweep; builds by their names."""

    named: str
    """The build that `rank` names; empty if none."""
    decided: bool
    """The race was decided; `True` where there is none."""
    wall_s: float
    """The time of the whole run, with waiting and looking at the device; without planning."""
    blocks: Mapping[str, tuple[Block, ...]]
    """In processes of their own, the confirming ones too."""
    batches: tuple[StoredBatch, ...]
    untimed: frozenset[str]
    """Builds that are the same program as another one, which was timed for both."""
    names: Mapping[str, str]
    """The names of the builds, by job key. A race's keys are not those of rounds, whose preset is another."""

    @property
    def device_s(self) -> float:
        """The time of all processes, from their starts to their ends, without waiting and pushing."""
        cost = spent([block for blocks in self.blocks.values() for block in blocks], batches=self.batches)
        return cost.measuring_s - cost.pushing_s

    @property
    def p50_ms(self) -> dict[str, float]:
        """The median of the medians of each build with a block of its own."""
        return {
            name: median([figure_ns(block.samples_ns) / 1e6 for block in blocks])
            for name, blocks in self.blocks.items()
            if blocks
        }

    def document(self, best_ms: Mapping[str, float]) -> dict[str, object]:
        """For JSON. `best_ms`: the quiet latencies."""
        return {
            "named": self.named,
            "over_best": over_best(self.named, best_ms),
            "decided": self.decided,
            "device_s": round(self.device_s, 3),
            "wall_s": round(self.wall_s, 3),
            "batches": [len(batch.items) for batch in self.batches],
            "blocks": sum(map(len, self.blocks.values())),
            "same_program": sorted(self.untimed),
        }


def over_best(named: str, quiet_ms: Mapping[str, float]) -> float | None:
    """Return how much slower the named build is than the best: 0.05 is 5 %. `None` if none was named."""
    return quiet_ms[named] / min(quiet_ms.values()) - 1 if named else None


class Sweeps:
    """The process that measures, as the benchmark sees it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def measure(self, kind: Kind, number: int) -> RealSweep:
        """`number`: of rounds, else the seed. Raises what the sweep raised."""
        self._connection.send((kind, number))
        answer: RealSweep | Exception = self._connection.recv()
        if isinstance(answer, Exception):
            raise answer
        return answer


@contextmanager
def measuring_process(folder: Path) -> Iterator[Sweeps]:
    """`folder`: a workspace for the builds; those in it are used. The process ends with what it measures."""
    context = get_context("spawn")
    own_end, other_end = context.Pipe()
    process = context.Process(target=_serve, args=(other_end, folder))
    process.start()
    other_end.close()
    try:
        yield Sweeps(own_end)
    finally:
        own_end.close()
        process.terminate()
        process.join()


def _serve(connection: Connection, folder: Path) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the benchmark ends this process
    local = _Local(folder)
    with suppress(EOFError, ConnectionError):
        while True:
            kind, number = connection.recv()
            try:
                connection.send(local.measure(kind, number))
            except Exception as error:  # noqa: BLE001  # `Sweeps.measure` raises it
                connection.send(error)


class _Local:
    """A workspace without MLflow."""

    def __init__(self, folder: Path) -> None:
        self._workspace = Workspace.open(folder)
        self._prepared: dict[str, PreparedModel] = {}
        self._accuracies: dict[tuple[str, str], Accuracy] = {}

    def measure(self, kind: Kind, number: int) -> RealSweep:
        spec = rounds_spec(number) if kind == "rounds" else race_spec(number)
        plan = plan_sweep(spec, self._workspace.root)
        executor = (_WithoutBatches if kind == "race alone" else InlineExecutor)(self._workspace.root)
        with (
            tempfile.TemporaryDirectory(prefix="edgesweep-bench-") as folder,
            Journal.open(Path(folder) / "journal.sqlite") as journal,
        ):
            for accuracy in self._accuracies.values():
                journal.attempts.add_accuracy(accuracy)
            driver = Driver(
                plan,
                journal,
                ArtifactStore(self._workspace.artifacts),
                executor,
                prepare=lambda model: self._prepare(model, plan),
                publishing=AtOnce(lambda: None),
                stop=lambda: False,
            )
            began = time.monotonic()
            try:
                for event in driver.run():
                    _show(event)
            finally:
                executor.close()
            took_s = time.monotonic() - began
            return self._read(journal, plan, took_s)

    def _prepare(self, model: ModelSpec, plan: Plan) -> PreparedModel:
        if model.name not in self._prepared:
            say(f"  preparing {model.name}")
            versions = plan.identities.versions
            prepared = models.prepare(model, plan.sweep.data, self._workspace, versions, lambda *_: None)
            self._prepared[model.name] = prepared
        return self._prepared[model.name]

    def _read(self, journal: Journal, plan: Plan, took_s: float) -> RealSweep:
        sweep, rows = plan.sweep, []
        blocks: dict[str, tuple[Block, ...]] = {}
        for job in plan.jobs:
            planned = journal.jobs.planned(sweep.name, job.key)
            outcome = journal.outcomes.of_job(planned)
            if outcome is None:
                raise RuntimeError(f"{job.name} was not measured to its end")
            blocks[job.name] = journal.attempts.blocks(job.key) if isinstance(outcome, Measured) else ()
            settled = journal.attempts.settled(job.key, planned.protocol)
            manifest = journal.artifacts.latest(job.build_key)
            rows.append(row_of_job(sweep.name, planned, outcome, blocks[job.name], manifest, settled))
            if isinstance(outcome, Measured) and outcome.accuracy is not None:
                self._accuracies[job.build_key, job.variant.qengine] = outcome.accuracy
        (device,) = rank(to_frame(rows), sweep.objective, sweep.name).devices
        return RealSweep(
            named="" if device.winner is None else device.winner.name,
            decided=all(row.settled is None or row.settled.reason != "undecided" for row in rows),
            wall_s=took_s,
            blocks=blocks,
            untimed=frozenset(
                row.name for row in rows if row.settled is not None and row.settled.reason == "same_program"
            ),
            batches=tuple(journal.batches.of_jobs([job.key for job in plan.jobs])),
            names={job.key: job.name for job in plan.jobs},
        )


class _WithoutBatches(InlineExecutor):
    """Builds and measures as on a device whose runner times one artifact a process."""

    def lane(self, facts: DeviceFacts) -> DeviceLane:
        return _AloneLane(super().lane(facts))


class _AloneLane:
    """A lane that refuses batches."""

    def __init__(self, lane: DeviceLane) -> None:
        self._lane = lane
        self.rest, self.close = lane.rest, lane.close

    def ask(self, request: Request[AnswerT]) -> AnswerT | Failed:
        if isinstance(request, BatchRequest):
            return Failed(stage="run", kind="no_batches", message="in this race every process times one build")
        return self._lane.ask(request)


def _show(event: object) -> None:
    match event:
        case Building(done, total, ()) if done:
            say(f"  {done} of {total} built")
        case Waiting(_, lacking, waited):
            say(f"  waiting ({waited:.0f} s): {'; '.join(lacking)}")
        case Measuring(_, done, total, running, _) if done and done % 60 == 0 and running:
            say(f"  {done} of {total} measured")
        case AttemptFailed(name, failed, _):
            say(f"  {name}: {failed.kind}: {failed.message}")
        case MeasuredAlone(names, failed) if failed.kind != "no_batches":
            say(f"  {', '.join(names)}: measured alone, {failed.kind}: {failed.message}")


def say(text: str) -> None:
    """Progress, for people."""
    print(text, file=sys.stderr, flush=True)
