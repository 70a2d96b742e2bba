"""The size of a sweep before it is expanded, and a rough estimate of its remaining time. Pure."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from sweeps.errors import SpecError
from sweeps.planning.axes import RUN_AXES, choices
from sweeps.planning.plan import Plan
from sweeps.protocol.presets import Protocol, resolve
from sweeps.records import Job
from sweeps.results import ResultRow
from sweeps.spec import catalog
from sweeps.spec.grid import GridSpec
from sweeps.spec.model_inputs import HELD_OUT_DIGITS, DigitsData
from sweeps.spec.sweep import SweepSpec

TOO_MANY = 10_000
"""More jobs than this need the user's consent: at 5 s each they take half a day."""

MOST = 200_000
"""More jobs than this are never planned: at 5 s each they take eleven days, and the plan alone takes minutes."""

PROCESS_START_S = 2.5
"""Start of a Python process that imports torch: 2.5 s measured on 2 shared cores (2026-11)."""
BUILD_S = 6.0
"""Build of a model (load, lower, save, verify in a new process): about 6 s for MobileNetV2 on 2 cores, including the
start of the process."""
INFERENCE_224_S = 0.010
"""One inference of an input of 1x3x224x224: MobileNetV2 takes 3.5 to 25 ms by variant (facts of 2026-11). Estimates
scale it by the size of the input."""
UNKNOWN_IMAGES = 1_000
"""Number of images assumed for a folder or data set without a limit in `images`, which the plan does not list."""


def count(spec: SweepSpec) -> int:
    """Return an upper bound of the number of jobs and skipped combinations per device, without expanding the sweep."""
    return len(spec.models) * sum(_cells(grid) for grid in spec.grids)


def check_size(spec: SweepSpec, devices: int, yes: bool) -> None:
    """Refuse a sweep of more than `TOO_MANY` jobs before anything is expanded, unless the user said `--yes`, and one
    of more than `MOST` in any case.

    Raises `SpecError` with the number of jobs.
    """
    jobs = count(spec) * devices
    limit = MOST if yes else TOO_MANY
    if jobs > limit:
        cells = ", ".join(f"grids[{i}]: {_cells(grid):,}" for i, grid in enumerate(spec.grids))
        raise SpecError(
            f"{spec.name} has {jobs:,} jobs, more than {limit:,} "
            f"(models: {len(spec.models)}, devices: {devices}, combinations in {cells})",
            "shorten the axes" + ("" if jobs > MOST else ", or confirm with --yes"),
        )


@dataclass(frozen=True, slots=True)
class Estimate:
    """Rough estimate of the time that is left of a plan, in seconds."""

    builds_s: float
    devices_s: Mapping[str, float]
    """Time of each device's blocks and accuracy passes, by device id."""
    seconds: float
    """Time until all work is done, with builds and devices in the order of a run."""


def estimate(
    plan: Plan,
    protocol: Protocol,
    done: Collection[str],
    builds_done: Collection[str],
    tried: Collection[tuple[str, str]] = (),
) -> Estimate:
    """Return a rough estimate of a plan's remaining time, in seconds.

    `done`: keys of finished jobs. `builds_done`: keys of finished builds. `tried`: builds that were evaluated on a
    device (build key, device id), in addition to those of `done`. Training, downloads and waits for a cool device are
    not included, because the plan does not know them.
    """
    pending = [job for job in plan.jobs if job.key not in done]
    evaluated = {*tried, *((job.build_key, job.device_id) for job in plan.jobs if job.key in done)}
    on_device: dict[str, float] = dict.fromkeys((facts.device_id for facts in plan.devices), 0.0)
    builds: dict[str, set[str]] = {device_id: set() for device_id in on_device}
    for job in pending:
        seconds = 0.0 if job.emulated else protocol.on(job.device_id).rounds * block_seconds(plan, protocol, job)
        if (job.build_key, job.device_id) not in evaluated:
            evaluated.add((job.build_key, job.device_id))
            seconds += evaluation_seconds(plan, job)
        on_device[job.device_id] += seconds
        if job.build_key not in builds_done:
            builds[job.device_id].add(job.build_key)
    builds_s = len(set().union(*builds.values())) * BUILD_S
    return Estimate(builds_s, on_device, _until_the_end(plan, on_device, builds, builds_s))


def _until_the_end(
    plan: Plan, on_device: Mapping[str, float], builds: Mapping[str, set[str]], builds_s: float
) -> float:
    """Return the time in seconds until the last job ends. Builds are made one at a time, first those of the device with
    the most work. A device measures when its builds are done; a device that is a part of this computer waits for all
    builds; this computer itself measures last, after all others."""
    last = {facts.device_id for facts in plan.devices if catalog.is_host(facts.name)}
    late = {facts.device_id for facts in plan.devices if catalog.is_here(facts)}
    end_s = builds_s + max((on_device[device_id] for device_id in late - last), default=0.0)
    built: set[str] = set()
    for device_id in sorted(on_device.keys() - late, key=lambda device_id: -on_device[device_id]):
        built |= builds[device_id]
        end_s = max(end_s, len(built) * BUILD_S + on_device[device_id])
    return end_s + max((on_device[device_id] for device_id in last), default=0.0)


def block_seconds(plan: Plan, protocol: Protocol, job: Job) -> float:
    """Return a rough estimate of the seconds of one block in a separate process."""
    return _block_seconds(plan.sweep, protocol, job.model)


def _block_seconds(spec: SweepSpec, protocol: Protocol, model: str) -> float:
    protocol = protocol.in_own_process
    inference_s = _inference_seconds(spec, model)
    warmup_s = max(protocol.warmup_seconds, protocol.warmup_iterations * inference_s)
    block_s = min(protocol.max_seconds, max(protocol.min_seconds, protocol.iterations * inference_s))
    return PROCESS_START_S + warmup_s + block_s


def evaluation_seconds(plan: Plan, job: Job) -> float:
    """Return a rough estimate of the seconds of one accuracy pass."""
    return _evaluation_seconds(plan.sweep, job.model)


def seconds_anew(spec: SweepSpec, rows: Sequence[ResultRow]) -> float:
    """Return a rough estimate of the seconds of the builds, blocks and accuracy passes of these jobs of one device, if
    none of them is done yet."""
    protocol = resolve(spec.protocol, spec.budget or "full")
    in_file = {model.name for model in spec.models}
    rows = [row for row in rows if row.model in in_file]  # a table of results may be of an earlier file
    models = {row.build_key: row.model for row in rows}
    blocks_s = protocol.rounds * sum(_block_seconds(spec, protocol, row.model) for row in rows)
    return blocks_s + sum(BUILD_S + _evaluation_seconds(spec, model) for model in models.values())


def _evaluation_seconds(spec: SweepSpec, model: str) -> float:
    return PROCESS_START_S + _evaluation_images(spec) * _inference_seconds(spec, model)


def _inference_seconds(spec: SweepSpec, name: str) -> float:
    [shape] = {model.input_shape for model in spec.models if model.name == name}
    return INFERENCE_224_S * math.prod(shape) / (3 * 224 * 224)


def _cells(grid: GridSpec) -> int:
    """Return an upper bound of the number of one grid's combinations: an axis counts only for runtimes, backends and
    precisions that allow a choice."""
    runs = math.prod(len(getattr(grid, axis)) for axis in RUN_AXES)
    return runs * sum(math.prod(map(len, part)) for part in choices(grid))


def _evaluation_images(spec: SweepSpec) -> int:
    source = spec.data.evaluation
    most = HELD_OUT_DIGITS if isinstance(source, DigitsData) else UNKNOWN_IMAGES
    if source.images is None:
        return most
    return min(source.images, most) if isinstance(source, DigitsData) else source.images
