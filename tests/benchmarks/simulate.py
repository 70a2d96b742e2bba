"""`python tests/benchmarks/simulate.py [SWEEP_FILE]`: what a protocol would cost and find, on simulated phones.

Nothing is built or measured. `--help` has the options; infra/protocol-evidence.md shows the tables.
"""

import math
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

import click

from sweeps.cli.main import Program
from sweeps.cli.options import EXIT_INTERRUPTED, json_option, print_json
from sweeps.errors import EdgeSweepError, SpecError, did_you_mean
from sweeps.operations.sweep_plan import load_sweep, make_plan, roots_of
from sweeps.planning.budget import default_budget
from sweeps.protocol.presets import PRESETS, Protocol, protocol_of
from sweeps.report.progress import RunProgress
from sweeps.spec.protocol import MinutesBudget
from sweeps.spec.sweep import SweepSpec
from sweeps.stats import NEGLIGIBLE
from sweeps.workspace import Workspace
from tests.benchmarks import simulated_sweep, simulation_report
from tests.benchmarks.noise_forms import NOISE_FORMS
from tests.benchmarks.recorded_phone import RecordedPhone, read_trace
from tests.benchmarks.simulated_sweep import FIXED_REST, Method, SimulatedSweep, latencies_ms
from tests.benchmarks.simulation_report import Figures, PhoneFigures, Simulation
from workers.devices.fake.phones import PHONES as NAMED_PHONES
from workers.devices.fake.phones import Phone

PHONES = ("steady", "noisy", "spiky", "hot", "holdout_daemons")
"""Quiet, noisy, with spikes, too hot for a long run, and one that no method was tuned on."""

VARIANTS = 24
_MOST_VARIANTS = 1_000

SimulationProgress = Callable[[int, int, str], None]
"""Called with the number of finished sweeps, the total, and what runs now."""


@click.command(cls=Program)
@click.argument("sweep_file", required=False, type=click.Path(dir_okay=False, path_type=Path))
@click.option("--phone", "phones", multiple=True, metavar="NAME", help="Only this phone; may be repeated.")
@click.option(
    "--traces",
    multiple=True,
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Only a phone with the noise recorded in FILE; may be repeated, also with --phone.",
)
@click.option(
    "--variants",
    type=click.IntRange(1, 1_000),
    help="Number of variants; by default the sweep file's jobs of one model on a device, or 24.",
)
@click.option(
    "--base-ms",
    type=click.FloatRange(0.01, 60_000),
    default=10.0,
    show_default=True,
    help="The variants' median latency, ms.",
)
@click.option(
    "--sigma",
    type=click.FloatRange(0, 2),
    default=0.35,
    show_default=True,
    help="Standard deviation of the logarithms of the variants' latencies.",
)
@click.option(
    "--seeds",
    type=click.IntRange(1, 10_000),
    default=50,
    show_default=True,
    help="Sweeps of each method on each phone.",
)
@json_option
def simulate(
    sweep_file: Path | None,
    phones: tuple[str, ...],
    traces: tuple[Path, ...],
    variants: int | None,
    base_ms: float,
    sigma: float,
    seeds: int,
    as_json: bool,
) -> None:
    """Simulate what a protocol would cost and find, on simulated phones. Builds and measures nothing.

    \b
    Compares SWEEP_FILE's protocol and budget with the presets full and race, and with a common practice:
    180 s of sleep, 20 samples, their mean. Every figure is simulated; none comes from a real phone.
    Example: python tests/benchmarks/simulate.py sweep.yaml --phone hot --seeds 20
    """
    for option, value in (("--base-ms", base_ms), ("--sigma", sigma)):
        if math.isnan(value):  # click's range check accepts it
            raise SpecError(f"{option} is not a number", "leave it out, or give a number")
    methods = standard_methods()
    recordings = [RecordedPhone(name=str(path), trace=read_trace(path)) for path in traces]
    with RunProgress() as progress:
        if sweep_file is not None:
            spec = load_sweep(sweep_file, yes=True)
            if variants is None:
                progress.preparing(f"the plan of {spec.name}", None)
                variants = _jobs(spec, sweep_file, progress.note)
            methods = [_of_sweep(spec, variants, progress.note), *methods]
        try:
            result = simulation(
                phones or (() if recordings else PHONES),
                methods,
                recordings=recordings,
                variants=variants or VARIANTS,
                base_ms=base_ms,
                sigma=sigma,
                seeds=seeds,
                progress=lambda done, total, running: progress.step("Simulating", done, total, running),
            )
        except KeyboardInterrupt:
            progress.note("Stopped before the simulation was complete.")
            sys.exit(EXIT_INTERRUPTED)
    if as_json:
        print_json(simulation_report.document(result))
    else:
        simulation_report.print_simulation(result)


def standard_methods() -> list[Method]:
    return [*(Method(name=name, protocol=PRESETS[name]) for name in ("full", "race")), FIXED_REST]


def simulation(
    phones: Sequence[str],
    methods: Sequence[Method],
    *,
    recordings: Sequence[Phone] = (),
    variants: int,
    base_ms: float,
    sigma: float,
    seeds: int,
    progress: SimulationProgress,
) -> Simulation:
    """Simulate every method on every phone, over the seeds from 0 on, with the same variants for all methods.
    `recordings`: phones with recorded noise, beside those by name.

    Raises `SpecError` for a phone that does not exist.
    """
    chosen = [*(_phone(name) for name in dict.fromkeys(phones)), *recordings]
    rows = []
    total = len(chosen) * len(methods) * seeds
    for number, phone in enumerate(chosen):
        figures = []
        for place, method in enumerate(methods):
            sweeps = []
            for seed in range(seeds):
                progress((number * len(methods) + place) * seeds + seed, total, f"{method.name} on {phone.name}")
                true_ms = latencies_ms(variants, base_ms, sigma, seed)
                sweeps.append(
                    simulated_sweep.simulate(
                        phone, true_ms, method.protocol, seed=seed, rest=method.rest, plain=method.plain
                    )
                )
            figures.append(_figures(method, sweeps))
        rows.append(PhoneFigures(phone=phone.name, about=_about_phone(phone), methods=tuple(figures)))
    progress(total, total, "")
    return Simulation(
        variants=variants,
        base_ms=base_ms,
        sigma=sigma,
        seeds=seeds,
        methods={method.name: _about_method(method) for method in methods},
        phones=tuple(rows),
    )


def _figures(method: Method, sweeps: Sequence[SimulatedSweep]) -> Figures:
    races = method.protocol.budget == "race"
    covered = [job.covered for sweep in sweeps for job in sweep.jobs.values() if job.covered is not None]
    lost = sum(sweep.best in {elimination.key for elimination in sweep.eliminations} for sweep in sweeps)
    return Figures(
        method=method.name,
        sweeps=len(sweeps),
        device_minutes=median(sweep.device_s for sweep in sweeps) / 60,
        measuring_percent=100 * sum(sweep.timed_s for sweep in sweeps) / sum(sweep.device_s for sweep in sweeps),
        samples=round(median(sweep.samples for sweep in sweeps)),
        best_named=sum(sweep.regret <= NEGLIGIBLE for sweep in sweeps),
        best_eliminated=lost if races else None,
        intervals=len(covered),
        intervals_with_truth=sum(covered),
        blocks=sum(sweep.blocks for sweep in sweeps),
        marked_blocks=sum(sweep.marked_blocks for sweep in sweeps),
        throttled_blocks=sum(sweep.throttled_blocks for sweep in sweeps),
        throttled_unmarked_blocks=sum(sweep.throttled_unmarked_blocks for sweep in sweeps),
        undecided=sum(not sweep.decided for sweep in sweeps) if races else None,
    )


def _phone(name: str) -> Phone:
    phones = NAMED_PHONES | NOISE_FORMS
    if name not in phones:
        raise SpecError(
            f"there is no simulated phone called {name!r}{did_you_mean(name.removeprefix('fake:'), phones)}",
            f"use one of: {', '.join(NAMED_PHONES)}",
        )
    return phones[name]


def _of_sweep(spec: SweepSpec, variants: int, note: Callable[[str], None]) -> Method:
    """With the budget of a new sweep, where the file gives none."""
    chosen, reason = default_budget(spec, {("", ""): variants})
    if reason:
        note(f"budget: {chosen.budget} ({reason})")
    return Method(name="this sweep file", protocol=protocol_of(chosen))


def _jobs(spec: SweepSpec, sweep_file: Path, note: Callable[[str], None]) -> int:
    """The largest number of jobs of one model that the sweep file times on one device.

    Models do not compete: each has its own rounds and its own winner.
    """
    with tempfile.TemporaryDirectory() as folder:
        try:
            planned = make_plan(spec, roots_of(sweep_file), Workspace(Path(folder)))
        except EdgeSweepError as error:
            note(f"The number of jobs of {spec.name} is unknown here ({error.message}): {VARIANTS} variants are used.")
            return VARIANTS
    timed = Counter((job.device_id, job.model) for job in planned.jobs if not job.emulated)
    if not timed:
        note(f"{spec.name} times nothing on the devices that are here: {VARIANTS} variants are used.")
        return VARIANTS
    (_, model), jobs = max(timed.items(), key=lambda entry: entry[1])
    if jobs > _MOST_VARIANTS:
        raise SpecError(
            f"{spec.name} has {jobs:,} jobs of one model on one device, too many to simulate quickly",
            f"set the number of variants to simulate: --variants {_MOST_VARIANTS}",
        )
    models = len({name for _, name in timed})
    if models > 1:
        note(
            f"{spec.name} has {models} models, and each is measured and decided for itself: the figures are those of "
            f"one, {model} with {jobs} variants; the others add theirs"
            f"{', and share the minutes of the device' if isinstance(spec.budget, MinutesBudget) else ''}."
        )
    return jobs


def _about_method(method: Method) -> str:
    protocol = method.protocol
    rounds = (
        f"{protocol.rounds}"
        if protocol.last_round == protocol.rounds
        else f"{protocol.rounds} to {protocol.last_round}"
    )
    words = [f"{rounds} round{'s' * (protocol.last_round > 1)} of {_block(protocol)}"]
    if isinstance(method.rest, float):
        words.append(f"{method.rest:g} s of sleep before each")
    elif protocol.gate is not None:
        words.append(f"each begins at a battery of at most {protocol.gate.max_battery_temp_c:g} °C")
    else:
        words.append("no gate")
    if method.plain:
        words.append("their mean; the thermal status is ignored")
    elif protocol.budget == "race":
        words.append("batches first; variants leave as soon as they cannot win")
    elif protocol.last_round > protocol.rounds:
        words.append("variants leave when they are stable")
    if protocol.device_minutes is not None:
        words.append(f"no round begins after {protocol.device_minutes:g} min")
    return "; ".join(words)


def _block(protocol: Protocol) -> str:
    iterations = f"{protocol.iterations} sample{'s' * (protocol.iterations > 1)}"
    seconds = protocol.in_own_process.min_seconds
    return f"{iterations} and {seconds:g} s at least" if seconds else iterations


def _about_phone(phone: Phone) -> str:
    if isinstance(phone, RecordedPhone):
        trace = phone.trace
        spread = f"{100 * trace.spread:.1f} %"
        return f"recorded, {len(trace.processes)} processes of {trace.samples:,} samples in all vary by {spread}"
    words = [f"samples vary by {100 * phone.sample_cv:g} %", f"processes by {100 * phone.process_cv:g} %"]
    if phone.wild_share:
        words.append(f"those of {100 * phone.wild_share:g} % of variants {phone.wild_factor:g} times as much")
    if phone.ar1:
        words.append(f"neighbouring samples correlate by {phone.ar1:g}")
    if phone.tail_degrees is not None:
        words.append("heavy tails")
    if phone.spike_share:
        words.append(f"{100 * phone.spike_share:g} % of spikes")
    if phone.little_share:
        words.append(
            f"{100 * phone.little_share:g} % of processes on little cores, {phone.little_slower:g} times as slow"
        )
    if phone.daemon_every_s:
        words.append(f"a daemon every {phone.daemon_every_s:g} s for {phone.daemon_s:g} s")
    if phone.heating_c_per_s:
        words.append(f"warms by {phone.heating_c_per_s:g} °C a second")
    if phone.ambient_c + phone.heating_c_per_s * phone.cooling_s >= phone.throttles_at_c:
        words.append(f"throttles from {phone.throttles_at_c:g} °C on")
    if phone.has_fixed_performance:
        words.append("has the fixed-performance mode")
    return ", ".join(words)


if __name__ == "__main__":
    simulate()
