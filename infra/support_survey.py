"""A survey that builds and verifies models with all combinations, and reports the outcomes.

Artifacts and failures are stored in the workspace at once: an interrupted survey continues, and a second one builds
nothing.
"""

import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

from support_table import Cell, Row, SupportTable, table_order

from sweeps.errors import DataError, ModelError
from sweeps.journal.journal import Journal
from sweeps.journal.outcomes import build_failure_keys
from sweeps.manifest import Manifest
from sweeps.planning.plan import Plan
from sweeps.records import Failed, Job, Skipped
from sweeps.spec.grid import GridSpec
from sweeps.spec.model_inputs import DataSpec, DigitsData, ModelSpec, SyntheticData
from sweeps.spec.sweep import SweepSpec
from workers.artifacts import TRANSIENT_KINDS, ArtifactStore
from workers.driver.builds import VERIFICATION_KINDS
from workers.driver.driver_events import AttemptFailed, Building, Preparing
from workers.executors.interface import BuildRequest, Executor
from workers.models.model_code import check_torchvision_name
from workers.models.prepared_model import PreparedModel
from workers.plan_inputs import plan_sweep

Weights = Literal["random", "demo", "pretrained"]
InputShape = tuple[int, int, int, int]

DIGITS_SHAPE = (1, 3, 64, 64)
DIGITS_IMAGES = 256
IMAGENET_SHAPE = (1, 3, 224, 224)
VERIFICATION_IMAGES = 8

SYNTHETIC = DataSpec(
    calibration=SyntheticData(source="synthetic", images=32),
    evaluation=SyntheticData(source="synthetic", images=VERIFICATION_IMAGES),
)
"""Synthetic data, for models whose weights were not trained on the digits."""
DIGITS = DataSpec(
    calibration=DigitsData(source="digits", images=100), evaluation=DigitsData(source="digits", images=DIGITS_IMAGES)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A model of the survey, with the data to calibrate and verify its builds."""

    model: ModelSpec
    data: DataSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class _Listed:
    """The settings of a model in `LISTED`."""

    weights: Weights = "random"
    digits_arguments: tuple[tuple[str, Any], ...] = ()
    """The arguments with which the model trains on the digits."""
    takes_image_size: bool = False


LISTED: Mapping[str, _Listed] = {
    "mobilenet_v2": _Listed(weights="demo", digits_arguments=(("width_mult", 0.35),)),
    "mobilenet_v3_small": _Listed(weights="demo"),
    "mobilenet_v3_large": _Listed(),
    "resnet18": _Listed(),
    "resnet50": _Listed(),
    "shufflenet_v2_x1_0": _Listed(weights="demo"),
    "squeezenet1_1": _Listed(),
    "efficientnet_b0": _Listed(),
    "googlenet": _Listed(),
    "mnasnet1_0": _Listed(),
    "regnet_y_400mf": _Listed(),
    "convnext_tiny": _Listed(),
    "vit_b_16": _Listed(takes_image_size=True),
    "workers.small_vit:small_vit": _Listed(weights="demo", takes_image_size=True),
}
"""The models of the full table. Weights that train in half a minute are trained: they show more about int8."""


def subject(source: str, weights: Weights | None = None, input_shape: InputShape | None = None) -> Subject:
    """Return a model of the list, another model of torchvision, or a `module:function`, with its data. Raises
    `ModelError`."""
    if source not in LISTED and ":" not in source:
        check_torchvision_name(source)
    listed = LISTED.get(source, _Listed())
    chosen = weights or listed.weights
    if chosen == "pretrained" and ":" in source:
        raise ModelError(
            f"{source} has no pretrained weights", "name a sweep file that gives its checkpoint, or --weights random"
        )
    digits = chosen == "demo"
    shape = input_shape or (DIGITS_SHAPE if digits else IMAGENET_SHAPE)
    arguments: dict[str, Any] = {"num_classes": 10, **dict(listed.digits_arguments)} if digits else {}
    if listed.takes_image_size:
        arguments["image_size"] = shape[2]
    model = ModelSpec(source=source, arguments=arguments, weights=chosen, input_shape=shape)
    return Subject(model=model, data=DIGITS if digits else SYNTHETIC)


@dataclass(frozen=True, slots=True)
class _Planned:
    """A model with its cells. `unusable`: the failure, if its code or weights are missing; then nothing is built."""

    subject: Subject
    plan: Plan
    unusable: Failed | None


class Survey:
    """A survey of some models. `run()` does the missing builds and yields events; `table()` returns the result."""

    def __init__(
        self,
        subjects: Sequence[Subject],
        cells: tuple[GridSpec, ...],
        folder: Path,
        roots: Sequence[Path],
        journal: Journal,
        *,
        retry_failed: bool = False,
    ) -> None:
        """Plan the survey; load and build nothing. Raises `DataError` and `DeviceError`."""
        self._journal = journal
        self._store = ArtifactStore(folder / "artifacts")
        self._planned = [_plan(entry, cells, folder, roots) for entry in subjects]
        self._outcomes: dict[str, Manifest | Failed] = {}
        """The outcomes of builds, by build key."""
        for planned in self._planned:
            self._outcomes |= dict(self._known(planned, retry_failed))

    def pending(self) -> int:
        """Return the number of builds that are still missing."""
        return sum(len(self._missing(planned)) for planned in self._planned)

    @property
    def plans(self) -> tuple[Plan, ...]:
        return tuple(planned.plan for planned in self._planned)

    def run(
        self,
        executor: Executor,
        prepare: Callable[[ModelSpec, DataSpec, Mapping[str, str]], PreparedModel],
        stop: Callable[[], bool],
    ) -> Iterator[Preparing | Building | AttemptFailed]:
        """Do the missing builds, and yield events; end early when `stop()` returns true. A model that cannot be used
        gets a row of failures."""
        done, total = 0, self.pending()
        for planned in self._planned:
            missing = self._missing(planned)
            if not missing:
                continue
            if stop():
                return
            model = planned.subject.model
            yield Preparing(model.name)
            try:
                prepared = prepare(model, planned.subject.data, planned.plan.identities.versions)
            except (ModelError, DataError) as error:
                failed = Failed(stage="load", kind="not_loadable", message=error.message)
                self._outcomes |= dict.fromkeys(missing, failed)
                done += len(missing)
                yield AttemptFailed(model.name, failed, final=True)
                continue
            requests = [BuildRequest(key, job.variant, prepared.build_inputs) for key, job in missing.items()]
            running: dict[str, str] = {}
            yield Building(done, total, ())
            for request, outcome in executor.build(requests, stop):
                key = request.build_key
                if outcome is None:
                    running[key] = missing[key].name
                else:
                    name = running.pop(key)
                    done += 1
                    if isinstance(outcome, Failed):
                        self._note_failure(missing[key], outcome, planned.plan.identities.evaluation_id)
                        yield AttemptFailed(name, outcome, final=True)
                    else:
                        self._outcomes[key] = manifest = self._store.unpack(outcome)
                        self._journal.artifacts.add(manifest)
                yield Building(done, total, tuple(running.values()))

    def table(self) -> SupportTable:
        """Return the table of all models. Call it only after a complete `run()`: no cell may be pending."""
        plan = self._planned[0].plan
        facts = plan.devices[0]
        return SupportTable(
            date=datetime.now(UTC).date().isoformat(),
            machine=f"{facts.device_class}, {facts.cores} cores, {facts.os_build}",
            versions={
                "edgesweep": metadata.version("edgesweep"),
                **_versions(plan),
                "python": platform.python_version(),
            },
            references=plan.identities.references,
            rows=tuple(self._row(planned) for planned in self._planned),
        )

    def _row(self, planned: _Planned) -> Row:
        cells = [Cell(variant=skipped.variant, outcome=skipped) for skipped in planned.plan.skipped]
        cells += [
            Cell(variant=job.variant, outcome=planned.unusable or self._outcomes[job.build_key])
            for job in planned.plan.jobs
        ]
        model = planned.subject.model
        arguments = ", ".join(f"{name}={value}" for name, value in model.arguments.items())
        return Row(
            model=model.name,
            source=f"{model.source}({arguments})",
            weights=model.weights,
            input_shape=model.input_shape,
            cells=tuple(sorted(cells, key=lambda cell: table_order(cell.variant))),
        )

    def _missing(self, planned: _Planned) -> dict[str, Job]:
        """Return the jobs without an outcome, by build key."""
        jobs = () if planned.unusable else planned.plan.jobs
        return {job.build_key: job for job in jobs if job.build_key not in self._outcomes}

    def _known(self, planned: _Planned, retry_failed: bool) -> Iterator[tuple[str, Manifest | Failed]]:
        """Yield the known outcomes of builds, from earlier surveys and sweeps of this workspace, by build key."""
        for job in planned.plan.jobs if planned.unusable is None else ():
            if (manifest := self._store.find(job.build_key)) is not None:
                yield job.build_key, manifest
                continue
            for key in build_failure_keys(job, planned.plan.identities.evaluation_id):
                if not retry_failed and (failures := self._journal.attempts.failures(key)):
                    yield job.build_key, failures[-1]

    def _note_failure(self, job: Job, failed: Failed, evaluation_id: str) -> None:
        self._outcomes[job.build_key] = failed
        # The next survey retries temporary failures. Failures on evaluation images hold only for these images.
        if failed.kind not in TRANSIENT_KINDS:
            on_images = failed.kind in VERIFICATION_KINDS
            self._journal.attempts.add_failure(build_failure_keys(job, evaluation_id)[on_images], failed)


def _versions(plan: Plan) -> dict[str, str]:
    """Return the versions of the libraries of all runtimes in a plan, and of each runtime's builder."""
    planned: tuple[Job | Skipped, ...] = (*plan.jobs, *plan.skipped)
    own = [plan.identities.own_versions[name] for name in dict.fromkeys(entry.variant.runtime for entry in planned)]
    libraries = {
        package: version for own_versions in own for package, version in own_versions.items() if package != "builder"
    }
    return libraries | dict(f"builder {own_versions['builder']}".rsplit(" ", 1) for own_versions in own)


def _plan(entry: Subject, cells: tuple[GridSpec, ...], folder: Path, roots: Sequence[Path]) -> _Planned:
    spec = SweepSpec(name="support", models=(entry.model,), data=entry.data, grids=cells, budget="full")
    try:
        return _Planned(entry, plan_sweep(spec, folder, roots, only_builds=True), None)
    except ModelError as error:
        # The plan of any model has the same cells; nothing is built from this one.
        any_model = ModelSpec(source="mobilenet_v2", name=entry.model.name, weights="random")
        plan = plan_sweep(spec.model_copy(update={"models": (any_model,)}), folder, roots, only_builds=True)
        return _Planned(entry, plan, Failed(stage="load", kind="not_loadable", message=error.message))
