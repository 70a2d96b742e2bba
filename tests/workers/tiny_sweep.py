"""A sweep of the tiny network that a test drives to its end, with real builds and real processes."""

import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import torch

from sweeps.journal.journal import Journal
from sweeps.planning.plan import Plan
from sweeps.protocol.sentinel_rules import data_for
from sweeps.quarantine import QuarantineBook
from sweeps.spec.grid import GridSpec
from sweeps.spec.model_inputs import DataSpec, ModelSpec, SyntheticData
from sweeps.spec.protocol import ProtocolSpec
from sweeps.spec.sweep import SweepSpec
from sweeps.workspace import Workspace
from tests import gallery
from tests.at_once import AtOnce
from tests.faults import seen
from tests.workers.tiny_model import SOURCE
from workers.artifacts import ArtifactStore
from workers.driver.driver_events import AttemptFailed, Away, Event, Recovering, TrackingDown, Waiting
from workers.driver.ladder import AWAY_WAIT, AwayWait
from workers.driver.publisher_interface import Publishing
from workers.driver.sweep_driver import Driver
from workers.executors.inline import InlineExecutor
from workers.models import prepare as models
from workers.plan_inputs import plan_sweep

# Nothing is waited for: other tests keep this machine busy.
PROTOCOL = ProtocolSpec(preset="quick", rounds=2, warmup_seconds=0.01, min_seconds=0.02, iterations=3, gate="none")
Prepare = Callable[[ModelSpec], models.PreparedModel]


def _watched(events: Iterable[Event]) -> Iterator[Event]:
    """Notes when a fault is told of."""
    for event in events:
        if isinstance(event, AttemptFailed | Away | Waiting | Recovering | TrackingDown):
            seen.told()
        yield event


def _nothing() -> None:
    """Publish to nowhere."""


class Sweep:
    """A sweep of the tiny network in a folder of its own."""

    def __init__(self, home: Path, *grids: GridSpec, **changes: object) -> None:
        """`changes` to the sweep file."""
        self.home = home
        (home / "tiny_net.py").write_bytes(SOURCE)
        scope: dict[str, Callable[[], torch.nn.Module]] = {}
        exec(SOURCE, scope)
        torch.manual_seed(0)
        state = io.BytesIO()
        torch.save(scope["make"]().state_dict(), state)
        (home / "tiny.pt").write_bytes(state.getvalue())
        synthetic = SyntheticData(source="synthetic", images=8)
        tiny = ModelSpec(source="tiny_net:make", weights=str(home / "tiny.pt"), input_shape=(1, 3, 16, 16), name="tiny")
        content = {
            "name": "tiny",
            "models": (tiny,),
            "data": DataSpec(calibration=synthetic, evaluation=synthetic.model_copy(update={"seed": 1})),
            "grids": grids,
            "protocol": PROTOCOL,
        }
        self.spec = SweepSpec(**content | changes)
        self.workspace = Workspace.open(home / "workspace")
        self.plan: Plan = plan_sweep(self.spec, self.workspace.root, (home,))

    def prepare(self, model: ModelSpec) -> models.PreparedModel:
        versions = self.plan.identities.versions
        return models.prepare(
            model, data_for(model, self.spec.data), self.workspace, versions, lambda *_: None, (self.home,)
        )

    def run(
        self,
        journal: Journal,
        stop: Callable[[], bool] = lambda: False,
        publish: Callable[[], object] = _nothing,
        prepare: Prepare | None = None,
        executor: InlineExecutor | None = None,
        more: Mapping[str, int] | None = None,
        away_wait: AwayWait = AWAY_WAIT,
        batches_decide: Mapping[str, float] = MappingProxyType({}),
        publishing: Publishing | None = None,
        book: QuarantineBook | None = None,
    ) -> list[Event]:
        """`publishing`: instead of calling `publish`."""
        executor = executor or InlineExecutor(self.workspace.root)
        store = ArtifactStore(self.workspace.artifacts)
        try:
            driver = Driver(
                self.plan,
                journal,
                store,
                executor,
                prepare or self.prepare,
                publishing or AtOnce(publish),
                stop,
                more,
                away_wait,
                batches_decide,
                book,
            )
            return list(_watched(driver.run()))
        finally:
            executor.close()


class BuiltSweep(Sweep):
    """With nothing left to build, or to evaluate on this computer, that another test of this run has built or
    evaluated."""

    def run(self, journal: Journal, *words: object, **named: object) -> list[Event]:
        keys = [job.build_key for job in (*self.plan.jobs, *self.plan.sentinels)]
        gallery.bring(self.workspace, keys)
        with gallery.remembering():
            events = super().run(journal, *words, **named)
        gallery.keep(self.workspace, keys)
        return events
