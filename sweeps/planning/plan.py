"""The plan of a sweep: jobs and skipped combinations, expanded from the sweep file. Pure and deterministic; nothing is
trained, downloaded or built."""

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from sweeps.device_facts import DeviceFacts, pool_id
from sweeps.errors import SpecError
from sweeps.planning.axes import BUILD_AXES, RUN_AXES, choices, free_axes, resolve_variant
from sweeps.planning.budget import default_budget
from sweeps.planning.keys import Identities, build_key, job_key, runner_of
from sweeps.protocol import sentinel_rules
from sweeps.protocol.presets import Protocol, protocol_of
from sweeps.records import Job, Skipped
from sweeps.skip_kinds import Skip
from sweeps.spec import catalog
from sweeps.spec.label import label_of
from sweeps.spec.sweep import SweepSpec
from sweeps.variant import RunAxes, Variant

Supports = Callable[[Variant, DeviceFacts], Skip | None]


_WORDS_FOR_0 = {"calibration_images": "all", "opset": "auto"}
"""Words that sweep files may write for the value 0 of numeric axes."""

_FEWEST_SHARED = 2
"""Fewest rounds of a sweep whose units share the work: one block gives no confidence interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Jobs of one sweep in a fixed order, and its skipped combinations."""

    sweep: SweepSpec
    """The sweep with a budget, even if the sweep file gives none."""
    devices: tuple[DeviceFacts, ...]
    identities: Identities
    jobs: tuple[Job, ...]
    skipped: tuple[Skipped, ...]
    sentinels: tuple[Job, ...] = ()
    """Jobs of the timed devices' sentinels, if the protocol uses sentinels; they are not ranked."""
    budget_reason: str = ""
    """Text that says where the budget comes from; empty if the sweep file gives a budget or a preset."""
    rounds_on: tuple[tuple[str, int], ...] = ()
    """Device ids with their numbers of rounds, as in `Protocol.rounds_on`."""
    pooled: tuple[tuple[str, str], ...] = ()
    """With `share: class`, the pooled jobs: pairs of job key and pool key, for each job on a unit that shares its
    fingerprint with other units. The pool key identifies the variant, and is the same on all of these units."""

    @property
    def protocol(self) -> Protocol:
        return replace(protocol_of(self.sweep), rounds_on=self.rounds_on)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Combination:
    """One combination of a grid's axes with a device and a model. Equal combinations are the same job, even if they
    come from two unnamed grids."""

    facts: DeviceFacts
    model: str
    grid: str
    variant: Variant
    run: RunAxes
    reference: str = ""
    """Reference implementation that replaces the backend, so that nothing is timed; empty if the device itself runs the
    build."""

    @property
    def emulated(self) -> bool:
        return bool(self.reference)


def expand(spec: SweepSpec, devices: Sequence[DeviceFacts], supports: Supports, identities: Identities) -> Plan:
    """Return the plan of all combinations of all grids on all devices, in the order of devices, models, grids and axes.

    `supports` is called with resolved variants, and returns why a device cannot run one. If the sweep has no budget, it
    gets that of a new sweep. Raises `SpecError` if the protocol contradicts itself, or has too few rounds for units
    that share the work.
    """
    units = tuple({facts.device_id: facts for facts in devices}.values())
    combinations = list(dict.fromkeys(_combinations(spec, units, identities)))
    devices_in_names = _device_words(units)
    names = _names(combinations, devices_in_names)
    models = {model.name: model for model in spec.models}
    skips = [
        _not_of_runtime(combination)
        or _no_engine(combination)
        or _no_such_cores(combination)
        or supports(combination.variant, combination.facts)
        for combination in combinations
    ]
    timed = (
        combination
        for combination, skip in zip(combinations, skips, strict=True)
        if skip is None and not combination.emulated
    )
    # The budget is decided before any key is computed, because keys contain the preset.
    spec, budget_reason = default_budget(
        spec, Counter((combination.model, combination.facts.device_id) for combination in timed)
    )
    protocol = protocol_of(spec)
    if spec.share is not None and protocol.rounds < _FEWEST_SHARED:
        raise SpecError(
            "share: class compares units by repeated rounds, and protocol.rounds is 1",
            f"give {_FEWEST_SHARED} rounds or more",
        )
    alike = Counter(facts.fingerprint for facts in units)
    pooled: list[tuple[str, str]] = []
    counts: Counter[str] = Counter()
    jobs: list[Job] = []
    skipped: list[Skipped] = []
    for combination, name, skip in zip(combinations, names, skips, strict=True):
        device_id = combination.facts.device_id
        if skip is not None:
            skipped.append(
                Skipped(
                    name=name,
                    model=combination.model,
                    grid=combination.grid,
                    variant=combination.variant,
                    run=combination.run,
                    device_id=device_id,
                    kind=skip.kind,
                    reason=skip.reason,
                    device_word=devices_in_names[device_id],
                )
            )
            continue
        key = build_key(models[combination.model], combination.variant, identities)
        runner, reference = runner_of(combination.facts, combination.variant, identities), combination.reference
        first_key = job_key(key, combination.facts, combination.run, protocol, runner, reference, replicate=0)
        replicate = counts[first_key]
        counts[first_key] += 1
        own_key = job_key(key, combination.facts, combination.run, protocol, runner, reference, replicate=replicate)
        if spec.share is not None and alike[combination.facts.fingerprint] > 1:
            any_unit = replace(combination.facts, device_id=pool_id(combination.facts.fingerprint))
            pooled.append(
                (own_key, job_key(key, any_unit, combination.run, protocol, runner, reference, replicate=replicate))
            )
        jobs.append(
            Job(
                key=own_key,
                build_key=key,
                name=name,
                model=combination.model,
                grid=combination.grid,
                variant=combination.variant,
                run=combination.run,
                device_id=device_id,
                reference=reference,
                device_word=devices_in_names[device_id],
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
        budget_reason=budget_reason,
        pooled=tuple(pooled),
    )


def _sentinels(
    jobs: Sequence[Job], devices: Sequence[DeviceFacts], protocol: Protocol, identities: Identities
) -> dict[str, Job]:
    """Return the sentinel's job of each timed device, by device id; empty if the protocol has no sentinel."""
    if not protocol.sentinel_every:
        return {}
    timed = {job.device_id for job in jobs if not job.emulated}
    sentinels: dict[str, Job] = {}
    for facts in devices:
        if facts.device_id in timed:
            combination = _Combination(
                facts=facts, model=sentinel_rules.MODEL.name, grid="", variant=sentinel_rules.VARIANT, run=RunAxes()
            )
            key = build_key(sentinel_rules.MODEL, combination.variant, identities)
            runner = runner_of(facts, combination.variant, identities)
            sentinels[facts.device_id] = Job(
                key=job_key(key, combination.facts, combination.run, protocol, runner, "", replicate=0),
                build_key=key,
                name=f"{combination.model} · {facts.name}",
                model=combination.model,
                grid="",
                variant=combination.variant,
                run=combination.run,
                device_id=facts.device_id,
            )
    return sentinels


def _combinations(spec: SweepSpec, devices: Sequence[DeviceFacts], identities: Identities) -> Iterator[_Combination]:
    for facts, model, grid in itertools.product(devices, spec.models, spec.grids):
        runs = [getattr(grid, axis) for axis in RUN_AXES]
        for part in choices(grid):
            for chosen in itertools.product(*part):
                axes = dict(zip(BUILD_AXES, chosen, strict=True))
                axes |= {axis: 0 for axis, word in _WORDS_FOR_0.items() if axes[axis] == word}
                variant = resolve_variant(Variant(**axes), facts.abi, facts.cpu_features)
                reference = identities.reference(variant) if variant.backend in facts.emulates else ""
                for run in itertools.product(*runs):
                    combination = _Combination(
                        facts=facts,
                        model=model.name,
                        grid=grid.name,
                        variant=variant,
                        run=RunAxes(**dict(zip(RUN_AXES, run, strict=True))),
                        reference=reference,
                    )
                    if combination.emulated:
                        # Run axes do not affect a job that is not timed.
                        yield replace(combination, run=RunAxes())
                        break
                    yield combination


def _not_of_runtime(combination: _Combination) -> Skip | None:
    variant = combination.variant
    free = free_axes(variant.runtime, variant.backend, variant.precision, variant.quantization)
    reason = catalog.not_of_runtime(asdict(variant), free)
    return None if reason is None else Skip("not_of_runtime", reason)


def _no_engine(combination: _Combination) -> Skip | None:
    if combination.variant.qengine != "auto":
        return None
    return Skip(
        "no_quantized_engine", f"no quantized engine is known for the ABI {combination.facts.abi}; name one in qengine"
    )


def _no_such_cores(combination: _Combination) -> Skip | None:
    if combination.run.cpus not in ("big", "little") or len(combination.facts.core_clusters) > 1:
        return None
    return Skip(
        "no_such_cores",
        f"{combination.facts.name} is not known to have big and little cores; write all, or the numbers of CPUs",
    )


def _device_words(devices: Sequence[DeviceFacts]) -> dict[str, str]:
    """Return, by device id, the word that distinguishes the device in job names; empty if there is only one device."""
    # Two units may have the same name, but not the same id.
    called = Counter(facts.name for facts in devices)
    return {
        facts.device_id: "" if len(devices) == 1 else facts.name if called[facts.name] == 1 else facts.device_id
        for facts in devices
    }


def _names(combinations: Sequence[_Combination], device_words: Mapping[str, str]) -> list[str]:
    """Return a unique name for each combination. Run axes (of timed jobs) and devices are part of the names only if
    they differ between combinations."""
    runs = [combination.run for combination in combinations if not combination.emulated]
    several_threads = len({run.threads for run in runs}) > 1
    several_cpus = len({run.cpus for run in runs}) > 1
    several_inputs = len({run.reuse_input for run in runs}) > 1
    names = []
    for combination in combinations:
        words = [combination.model, label_of(combination.variant)]
        if several_threads and not combination.emulated:
            words.append(f"{combination.run.threads} thread" + "s" * (combination.run.threads > 1))
        if several_cpus and not combination.emulated:
            words.append(
                f"{combination.run.cpus} cpus" if combination.run.cpus.isalpha() else f"cpus {combination.run.cpus}"
            )
        if several_inputs and not combination.emulated:
            words.append("reused input" if combination.run.reuse_input else "fresh input")
        if combination.grid:
            words.append(combination.grid)
        words += filter(None, [device_words[combination.facts.device_id]])
        names.append(" · ".join(words))
    return names
