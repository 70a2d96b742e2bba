"""From a sweep file to jobs and skipped combinations. Pure, deterministic; trains, downloads and builds nothing."""

import itertools
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace

from sweeps import sentinel
from sweeps.axes import free_axes, is_calibrated, resolve_variant
from sweeps.errors import SpecError
from sweeps.protocol import Protocol, protocol_of
from sweeps.records import SCHEMA_VERSION, DeviceFacts, Job, RunAxes, Skipped, Variant, canonical_key
from sweeps.spec import DigitsData, GridSpec, ModelSpec, SweepSpec

Supports = Callable[[Variant, DeviceFacts], str | None]

TOO_MANY = 10_000
"""More jobs than this are planned only when the user says so: half a day even at 5 s each."""

PROCESS_START_S = 2.5
"""A Python process that imports torch: 2.5 s measured on 2 shared cores (2026-11)."""
BUILD_S = 6.0
"""Load, lower, save, and verify in a fresh process, which alone costs a start: about 6 s for MobileNetV2 on 2 cores."""
INFERENCE_224_S = 0.010
"""MobileNetV2 on 1x3x224x224 takes 3.5 to 25 ms by variant (facts of 2026-11); scaled by the size of the input."""
DIGITS_IMAGES = 597
UNKNOWN_IMAGES = 1_000
"""Assumed for a folder or a data set that is not limited by `images`: listing it is not the plan's business."""

_BUILD_AXES = tuple(axis.name for axis in fields(Variant) if axis.name in GridSpec.model_fields)
_RUN_AXES = tuple(axis.name for axis in fields(RunAxes))


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelIdentity:
    """What a build key knows of a model: all of it known before the model is loaded."""

    source: str
    """`torchvision:mobilenet_v2`, or `module:function@<sha256 of its source files>`."""
    weights_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Identities:
    """Everything outside the sweep file that the keys depend on, handed in by the caller."""

    models: Mapping[str, ModelIdentity]
    """By the model's name in the sweep file."""
    calibration_id: str
    """sha256 of the calibration manifest."""
    evaluation_id: str
    versions: Mapping[str, str]
    """Of every library and of the builder: `torch`, `torchvision`, `builder`."""
    builders: Mapping[str, str] = field(default_factory=dict)
    """Per runtime, its own builder's version, where `versions` has that of another one."""
    runners: Mapping[str, str]
    """Per runtime, the runner and its version; a device that another one was brought to says so in its facts."""
    references: Mapping[str, str] = field(default_factory=dict)
    """Per backend that a host can check without the silicon: `reference:<backend>@<version>`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The jobs of one sweep in a fixed order, and what was skipped."""

    sweep: SweepSpec
    devices: tuple[DeviceFacts, ...]
    identities: Identities
    jobs: tuple[Job, ...]
    skipped: tuple[Skipped, ...]
    sentinels: tuple[Job, ...] = ()
    """One for each device that is timed, where the protocol asks for it: in no ranking."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Combination:
    """One cell of one grid. Two equal ones are the same job, also from two grids without a name."""

    facts: DeviceFacts
    model: str
    grid: str
    variant: Variant
    run: RunAxes

    @property
    def emulated(self) -> bool:
        return self.variant.backend in self.facts.emulates


def expand(spec: SweepSpec, devices: Sequence[DeviceFacts], supports: Supports, identities: Identities) -> Plan:
    """All combinations of all grids on all devices, in the order of devices, models, grids and axes.

    `supports` sees variants with their engine resolved. Raises `SpecError` where the protocol contradicts itself.
    """
    units = tuple({facts.device_id: facts for facts in devices}.values())
    combinations = list(dict.fromkeys(_combinations(spec, units)))
    names = _names(combinations)
    models = {model.name: model for model in spec.models}
    protocol = protocol_of(spec)
    seen: Counter[str] = Counter()
    jobs: list[Job] = []
    skipped: list[Skipped] = []
    for one, name in zip(combinations, names, strict=True):
        device_id = one.facts.device_id
        reason = _no_engine(one) or _no_such_cores(one) or supports(one.variant, one.facts)
        if reason:
            skipped.append(
                Skipped(
                    name=name,
                    model=one.model,
                    grid=one.grid,
                    variant=one.variant,
                    run=one.run,
                    device_id=device_id,
                    reason=reason,
                )
            )
            continue
        build_key = _build_key(models[one.model], one.variant, identities)
        runner = _runner(one.facts, one.variant.runtime, identities)
        reference = identities.references[one.variant.backend] if one.emulated else ""
        first_key = _job_key(build_key, one, protocol, runner, reference, replicate=0)
        replicate = seen[first_key]
        seen[first_key] += 1
        jobs.append(
            Job(
                key=_job_key(build_key, one, protocol, runner, reference, replicate=replicate),
                build_key=build_key,
                name=name,
                model=one.model,
                grid=one.grid,
                variant=one.variant,
                run=one.run,
                device_id=device_id,
                reference=reference,
            )
        )
    sentinels = _sentinels(jobs, units, protocol, identities)
    return Plan(
        sweep=spec,
        devices=units,
        identities=identities,
        jobs=tuple(
            replace(job, sentinel=sentinels[job.device_id].key)
            if job.device_id in sentinels and not job.emulated
            else job
            for job in jobs
        ),
        skipped=tuple(skipped),
        sentinels=tuple(sentinels.values()),
    )


def count(spec: SweepSpec) -> int:
    """How many jobs and skipped combinations one device gets at most. Expands nothing."""
    return len(spec.models) * sum(_cells(grid) for grid in spec.grids)


def check_size(spec: SweepSpec, devices: int, yes: bool) -> None:
    """Refuse a sweep of more than `TOO_MANY` jobs before anything is expanded, unless the user said `--yes`.

    Raises `SpecError` with the figure.
    """
    jobs = count(spec) * devices
    if jobs > TOO_MANY and not yes:
        cells = ", ".join(f"grids[{i}]: {_cells(grid):,}" for i, grid in enumerate(spec.grids))
        raise SpecError(
            f"{spec.name} has {jobs:,} jobs, more than {TOO_MANY:,} "
            f"(models: {len(spec.models)}, devices: {devices}, combinations in {cells})",
            "shorten the axes, or give --yes if you mean it",
        )


def estimate_seconds(plan: Plan, protocol: Protocol, done: Collection[str], builds_done: Collection[str]) -> float:
    """Roughly how long what is left takes: builds one after the other, then all devices side by side.

    `done` holds keys of jobs, `builds_done` build keys. Training, downloads and waiting for a cool device are not in
    it, because the plan knows nothing of them.
    """
    pending = [job for job in plan.jobs if job.key not in done]
    evaluated = {(job.build_key, job.device_id) for job in plan.jobs if job.key in done}
    models = {model.name: model for model in plan.sweep.models}
    builds = {job.build_key for job in pending} - set(builds_done)
    on_device: dict[str, float] = dict.fromkeys((facts.device_id for facts in plan.devices), 0.0)
    for job in pending:
        inference_s = INFERENCE_224_S * math.prod(models[job.model].input_shape) / (3 * 224 * 224)
        warmup_s = max(protocol.warmup_seconds, protocol.warmup_iterations * inference_s)
        block_s = min(protocol.max_seconds, max(protocol.min_seconds, protocol.iterations * inference_s))
        seconds = 0.0 if job.emulated else protocol.rounds * (PROCESS_START_S + warmup_s + block_s)
        if (job.build_key, job.device_id) not in evaluated:
            evaluated.add((job.build_key, job.device_id))
            seconds += PROCESS_START_S + _evaluation_images(plan.sweep) * inference_s
        on_device[job.device_id] += seconds
    return len(builds) * BUILD_S + max(on_device.values(), default=0.0)


def _runner(facts: DeviceFacts, runtime: str, identities: Identities) -> str:
    return dict(facts.runners).get(runtime, identities.runners[runtime])


def _sentinels(
    jobs: Sequence[Job], devices: Sequence[DeviceFacts], protocol: Protocol, identities: Identities
) -> dict[str, Job]:
    """By device; none where the protocol has no sentinel."""
    if not protocol.sentinel_every:
        return {}
    timed = {job.device_id for job in jobs if not job.emulated}
    found: dict[str, Job] = {}
    for facts in devices:
        if facts.device_id in timed:
            one = _Combination(facts=facts, model=sentinel.MODEL.name, grid="", variant=sentinel.VARIANT, run=RunAxes())
            build_key = _build_key(sentinel.MODEL, one.variant, identities)
            runner = _runner(facts, one.variant.runtime, identities)
            found[facts.device_id] = Job(
                key=_job_key(build_key, one, protocol, runner, "", replicate=0),
                build_key=build_key,
                name=f"{one.model} · {facts.name}",
                model=one.model,
                grid="",
                variant=one.variant,
                run=one.run,
                device_id=facts.device_id,
            )
    return found


def _combinations(spec: SweepSpec, devices: Sequence[DeviceFacts]) -> Iterator[_Combination]:
    for facts, model, grid in itertools.product(devices, spec.models, spec.grids):
        for values in itertools.product(*(getattr(grid, axis) for axis in (*_BUILD_AXES, *_RUN_AXES))):
            axes = dict(zip((*_BUILD_AXES, *_RUN_AXES), values, strict=True))
            if axes["calibration_images"] == "all":
                axes["calibration_images"] = 0
            chosen = Variant(**{axis: axes[axis] for axis in _BUILD_AXES})
            variant = resolve_variant(chosen, facts.abi, facts.cpu_features)
            one = _Combination(
                facts=facts,
                model=model.name,
                grid=grid.name,
                variant=variant,
                run=RunAxes(**{axis: axes[axis] for axis in _RUN_AXES}),
            )
            # What is not timed does not depend on how it runs.
            yield replace(one, run=RunAxes()) if one.emulated else one


def _no_engine(one: _Combination) -> str | None:
    if one.variant.qengine != "auto":
        return None
    return f"no quantized engine is known for the ABI {one.facts.abi}; name one in qengine"


def _no_such_cores(one: _Combination) -> str | None:
    if one.run.cpus not in ("big", "little") or len(one.facts.core_clusters) > 1:
        return None
    return f"{one.facts.name} is not known to have big and little cores; write all, or the numbers of CPUs"


def _names(combinations: Sequence[_Combination]) -> list[str]:
    """A name for each, unique because whatever differs is in it: run axes (of what is timed) and devices where there
    are several."""
    runs = [one.run for one in combinations if not one.emulated]
    several_threads = len({run.threads for run in runs}) > 1
    several_cpus = len({run.cpus for run in runs}) > 1
    several_inputs = len({run.reuse_input for run in runs}) > 1
    several_devices = len({one.facts.device_id for one in combinations}) > 1
    # Two units may carry one name; their ids differ.
    labels = Counter(facts.name for facts in {one.facts.device_id: one.facts for one in combinations}.values())
    names = []
    for one in combinations:
        words = [one.model, one.variant.label]
        if several_threads and not one.emulated:
            words.append(f"{one.run.threads} thread" + "s" * (one.run.threads > 1))
        if several_cpus and not one.emulated:
            words.append(f"{one.run.cpus} cpus" if one.run.cpus.isalpha() else f"cpus {one.run.cpus}")
        if several_inputs and not one.emulated:
            words.append("reused input" if one.run.reuse_input else "fresh input")
        if one.grid:
            words.append(one.grid)
        if several_devices:
            words.append(one.facts.name if labels[one.facts.name] == 1 else one.facts.device_id)
        names.append(" · ".join(words))
    return names


def _build_key(model: ModelSpec, variant: Variant, identities: Identities) -> str:
    identity = identities.models[model.name]
    return canonical_key(
        {
            "model_source": identity.source,
            "arguments": model.arguments,
            "weights_id": identity.weights_id,
            "input_shape": list(model.input_shape),
            "variant": variant.axes(),
            "calibration_id": identities.calibration_id if is_calibrated(variant) else None,
            "versions": {**identities.versions, **_builder(variant.runtime, identities)},
        }
    )


def _builder(runtime: str, identities: Identities) -> dict[str, str]:
    return {"builder": identities.builders[runtime]} if runtime in identities.builders else {}


def _job_key(
    build_key: str, one: _Combination, protocol: Protocol, runner: str, reference: str, *, replicate: int
) -> str:
    """`replicate` counts identical jobs under different names, so that a variant entered twice is measured twice;
    the names themselves are not in the key, so that renaming a grid measures nothing again. The reference is in the
    keys of those that it checks, so that what failed under one version gets another chance under the next."""
    return canonical_key(
        ({"reference": reference} if reference else {})
        | {
            "build_key": build_key,
            "device_id": one.facts.device_id,
            "fingerprint": one.facts.fingerprint,
            "run": asdict(one.run),
            "protocol": protocol.comparable(),
            "runner": runner,
            "schema_version": SCHEMA_VERSION,
            "replicate": replicate,
        }
    )


def _cells(grid: GridSpec) -> int:
    """Combinations of one grid at most: an axis counts only where its backend and precision leave a choice."""
    runs = math.prod(len(getattr(grid, axis)) for axis in _RUN_AXES)
    builds = 0
    for backend, precision in itertools.product(grid.backend, grid.precision):
        for quantization in grid.quantization if precision == "int8" else ("none",):
            swept = free_axes(backend, precision, quantization) - {"backend", "precision", "quantization"}
            builds += math.prod(len(getattr(grid, axis)) for axis in swept)
    return runs * builds


def _evaluation_images(spec: SweepSpec) -> int:
    source = spec.data.evaluation
    most = DIGITS_IMAGES if isinstance(source, DigitsData) else UNKNOWN_IMAGES
    if source.images is None:
        return most
    return min(source.images, most) if isinstance(source, DigitsData) else source.images
