"""The command line. The one module of `sweeps` that imports upwards, inside its commands, so that each starts fast."""

import os
import sys
from pathlib import Path
from typing import Any

import click

from sweeps.cli.check import run_check
from sweeps.cli.compare import margin_option, run_compare
from sweeps.cli.devices import devices, virtual_phone
from sweeps.cli.imports import import_figures
from sweeps.cli.options import (
    Group,
    executor_option,
    json_option,
    sweep_argument,
    sweep_file_argument,
    workspace_option,
    yes_option,
)
from sweeps.cli.recipe import recipe_spec, run_recipe
from sweeps.cli.run import run_sweep
from sweeps.cli.session import load_sweep, make_plan, outcome_of, print_json, roots_of
from sweeps.cli.simulate import run_simulate
from sweeps.cli.support import run_support
from sweeps.text import plain
from sweeps.workspace import Workspace

SPECS = Path(__file__).parents[1] / "specs"


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="edgesweep", prog_name="edgesweep")
def main() -> None:
    """Which build of my model do I ship on which phone, and how sure are we?

    \b
    Example:
      edgesweep run sweep.yaml      build, measure, rank
      edgesweep rank                the ranking again
      edgesweep dashboard           the same in the browser
      edgesweep export              the winner's file, ready to ship
    """


main.add_command(devices)
main.add_command(virtual_phone)


@main.command()
@sweep_file_argument
@workspace_option
@yes_option
@json_option
def plan(sweep_file: Path, root: Path, yes: bool, as_json: bool) -> None:
    """Print every job and every skipped combination; run nothing.

    \b
    Example: edgesweep plan sweep.yaml
    """
    from sweeps.journal.journal import Journal
    from sweeps.planning.size import estimate_seconds
    from sweeps.protocol.presets import protocol_of
    from sweeps.records import Failed
    from sweeps.report.plan import plan_document, print_plan
    from workers.artifacts import ArtifactStore

    spec = load_sweep(sweep_file, yes)
    workspace = Workspace(root)
    planned = make_plan(spec, roots_of(sweep_file), workspace)
    protocol = protocol_of(spec)
    store = ArtifactStore(workspace.artifacts)
    built = {key for key in {job.build_key for job in planned.jobs} if store.look(key) is not None}
    states = {job.key: "built" if job.build_key in built else "to build" for job in planned.jobs}
    if workspace.journal.exists():
        with Journal.open(workspace.journal, read_only=True) as journal:
            ended = {job.key: outcome_of(journal, planned, job) for job in planned.jobs}
        states |= {
            key: "failed" if isinstance(outcome, Failed) else "done" for key, outcome in ended.items() if outcome
        }
    finished = {key for key, state in states.items() if state in ("done", "failed")}
    seconds = estimate_seconds(planned, protocol, finished, built)
    if as_json:
        print_json(plan_document(planned, states, seconds))
    else:
        print_plan(planned, states, seconds)


@main.command()
@sweep_file_argument
@workspace_option
@executor_option
@yes_option
@click.option(
    "--retry-failed", is_flag=True, help="Try failed jobs again, and measure again what a trust label disqualified."
)
@click.option(
    "--settle",
    type=click.IntRange(1, 1_000),
    metavar="ROUNDS",
    help="Then measure so many rounds more of what is tied in the first place, and of nothing else.",
)
@json_option
def run(
    sweep_file: Path, root: Path, executor: str, yes: bool, retry_failed: bool, settle: int | None, as_json: bool
) -> None:
    """Build, measure and rank. Interrupted, the same command goes on where it was.

    \b
    Ctrl-C once finishes what runs and stops; twice stops at once.
    Exit code: 0 something was measured (also where nothing may win), 1 nothing was, 2 a bad sweep file, 130 stopped.
    Example: edgesweep run sweep.yaml --workspace results
    """
    run_sweep(sweep_file, root, executor, yes, retry_failed, as_json, settle or 0)


@main.command()
@workspace_option
@executor_option
@json_option
def demo(root: Path, executor: str, as_json: bool) -> None:
    """Train MobileNetV2 on handwritten digits, build its variants, measure them on this CPU, rank them.

    \b
    Needs no network. Example: edgesweep demo
    """
    run_sweep(SPECS / "demo.yaml", root, executor, yes=False, retry_failed=False, as_json=as_json)
    if not as_json:
        click.echo("\nLook at it in the browser:  edgesweep dashboard   (or: make dashboard)", err=True)
        click.echo("Sweep your own model:       see README.md, or edgesweep run --help", err=True)


@main.command()
@click.argument("model")
@click.option("--weights", help="As in a sweep file: pretrained (the default), random, demo, or a checkpoint's path.")
@click.option("--input-shape", help="Batch, channels, height, width; 1,3,224,224 if left out.")
@click.option("--argument", "arguments", multiple=True, metavar="KEY=VALUE", help="An argument of the constructor.")
@click.option("--seed", type=click.IntRange(min=0), help="For random and demo weights.")
@click.option(
    "--preset", type=click.Choice(["quick", "recipe"]), help="Of the measurement protocol; quick if left out."
)
@click.option("--rounds", type=click.IntRange(1, 100), help="Fresh processes of each step: more make intervals narrow.")
@click.option("--device", default="local", show_default=True, help="Where to measure.")
@workspace_option
@executor_option
@click.option("--retry-failed", is_flag=True, help="Try failed steps again.")
@json_option
def recipe(
    model: str,
    weights: str | None,
    input_shape: str | None,
    arguments: tuple[str, ...],
    seed: int | None,
    preset: str | None,
    rounds: int | None,
    device: str,
    root: Path,
    executor: str,
    retry_failed: bool,
    as_json: bool,
) -> None:
    """Run PyTorch Mobile's performance recipe step by step: what does each step gain?

    \b
    MODEL is torchvision's name, module:function, or a sweep file (its models, data and protocol).
    The steps: eager, script, fuse, optimize_for_mobile, channels_last, int8, reuse of the input.
    Without a sweep file accuracy is agreement with the eager model on synthetic images
    (with demo weights: top-1 on digits). Interrupted, the same command goes on where it was.
    Example: edgesweep recipe mobilenet_v2 --weights random
    """
    spec, roots = recipe_spec(
        model,
        weights=weights,
        input_shape=input_shape,
        arguments=arguments,
        seed=seed,
        preset=preset,
        rounds=rounds,
        device=device,
    )
    run_recipe(spec, roots, root, executor, retry_failed, as_json)


@main.command()
@sweep_argument
@workspace_option
@json_option
def status(sweep: str | None, root: Path, as_json: bool) -> None:
    """How far a sweep is (the latest one, if none is named), and what failed.

    \b
    Example: edgesweep status
    """
    from sweeps.cli.which_sweep import open_journal, sweep_name
    from sweeps.journal.status import read_status
    from sweeps.report.plan import print_status

    with open_journal(Workspace(root)) as journal:
        current = read_status(journal, sweep_name(journal, sweep))
    if as_json:
        print_json(current.document())
    else:
        print_status(current)


@main.command()
@sweep_argument
@workspace_option
@click.option("--device", help="Only this device (its id, or a part of its name).")
@json_option
def rank(sweep: str | None, root: Path, device: str | None, as_json: bool) -> None:
    """Rank the variants of a sweep (the latest one, if none is named) per device.

    \b
    Example: edgesweep rank --device local --json
    """
    from sweeps.cli.which_sweep import results_of
    from sweeps.ranking import rank as ranking
    from sweeps.report.ranking import print_ranking
    from sweeps.store.mlflow import load_imported

    workspace = Workspace(root)
    results = results_of(workspace, sweep)
    imported = load_imported(workspace.tracking_uri, results.name)
    ranked = ranking.rank(results.frame, results.spec.objective, results.name, device, imported)
    if as_json:
        print_json(ranking.to_json(ranked))
    else:
        print_ranking(ranked)


@main.command()
@sweep_argument
@workspace_option
@click.option("--device", help="The winner of this device (its id, or a part of its name).")
@click.option("--model", help="The winner of this model, where the sweep has several.")
@click.option("--variant", help="This job (its name in the ranking) instead of the winner.")
@click.option("--output", type=click.Path(file_okay=False, path_type=Path), default=Path("shipped"), show_default=True)
@json_option
def export(
    sweep: str | None,
    root: Path,
    device: str | None,
    model: str | None,
    variant: str | None,
    output: Path,
    as_json: bool,
) -> None:
    """Copy the winner's artifact and a manifest with the figures to expect of it.

    \b
    Example: edgesweep export --output app/src/main/assets
    """
    from sweeps.cli.which_sweep import results_of
    from sweeps.manifest import FILE_NAME
    from sweeps.ranking import rank as ranking
    from sweeps.ranking.export import export_candidate

    workspace = Workspace(root)
    results = results_of(workspace, sweep)
    ranked = ranking.rank(results.frame, results.spec.objective, results.name, device)
    shipped = export_candidate(ranked, results.frame, workspace, model=model, job=variant, output=output)
    if as_json:
        click.echo(shipped.model_dump_json(indent=2))
    else:
        size_mb = shipped.artifact.file_bytes / 1e6
        click.echo(f"{output / shipped.artifact.file}  {size_mb:.2f} MB  {plain(shipped.expected.job)}")
        timed = "" if shipped.expected.timed else f"; not timed, checked by {plain(shipped.expected.executor)}"
        click.echo(f"{output / FILE_NAME}  expected figures and conditions{timed}")


@main.command()
@click.argument("a")
@click.argument("b")
@margin_option
@workspace_option
@json_option
def compare(a: str, b: str, margin_percent: float, root: Path, as_json: bool) -> None:
    """Is B slower than A? Each a sweep, SWEEP:JOB NAME, or the manifest.json of an export.

    \b
    Only what both measured under like conditions is compared; what differs is named.
    Exit code: 0 all is the same or faster, 3 something is slower, 4 something of A could not be compared,
    5 something is unresolved: the rounds neither show it slower nor the same (1 or 2: an error).
    Example: edgesweep compare before after
             edgesweep compare shipped/manifest.json "nightly:mobilenet_v2 · cpu fp32 nchw script"
    """
    run_compare(a, b, margin_percent, root, as_json)


@main.command()
@click.argument("manifest", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--device", default="local", show_default=True, help="Where to measure.")
@click.option("--rounds", type=click.IntRange(2, 100), help="Fresh processes; as many as then (3 to 10) if left out.")
@margin_option
@workspace_option
@json_option
def check(manifest: Path, device: str, rounds: int | None, margin_percent: float, root: Path, as_json: bool) -> None:
    """Measure an exported winner again: does it still hold what its manifest says?

    \b
    The file beside the manifest is checked by its hash first. Accuracy is not measured again.
    Exit code: 0 it holds: not resolved as slower, and at worst by less than --margin, 3 it is slower,
    4 not comparable, 5 unresolved: the rounds show neither (1 or 2: an error).
    Example: edgesweep check shipped/manifest.json --rounds 5
    """
    run_check(manifest, device, rounds, margin_percent, root, as_json)


@main.command()
@click.argument("models", nargs=-1, metavar="[MODEL]...")
@click.option(
    "--backend",
    "backends",
    multiple=True,
    type=click.Choice(["cpu", "nnapi", "metal"]),
    help="Only this one; may be given again.",
)
@click.option(
    "--precision",
    "precisions",
    multiple=True,
    type=click.Choice(["fp32", "int8"]),
    help="Only this one; may be given again.",
)
@click.option("--input-shape", help="Batch, channels, height, width; 1,3,224,224 if left out (demo: 1,3,64,64).")
@click.option(
    "--weights",
    type=click.Choice(["random", "demo", "pretrained"]),
    help="random (settled), demo (trained on digits), pretrained; what suits each model if left out.",
)
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="Write the table there as Markdown.")
@workspace_option
@executor_option
@click.option("--retry-failed", is_flag=True, help="Try failed builds again.")
@json_option
def support(
    models: tuple[str, ...],
    backends: tuple[str, ...],
    precisions: tuple[str, ...],
    input_shape: str | None,
    weights: Any,
    output: Path | None,
    root: Path,
    executor: str,
    retry_failed: bool,
    as_json: bool,
) -> None:
    """Build and verify models in every way that there is; print what works, and why the rest does not.

    \b
    MODEL is torchvision's name, module:function, or a sweep file (its models and data); all of the list if left out.
    Nothing is timed. Interrupted, the same command goes on where it was; a second one builds nothing.
    Example: edgesweep support mobilenet_v3_small --weights demo --backend nnapi
    """
    run_support(
        models,
        root,
        executor,
        backends=backends,
        precisions=precisions,
        input_shape=input_shape,
        weights=weights,
        retry_failed=retry_failed,
        output=output,
        as_json=as_json,
    )


@main.command()
@click.argument("sweep_file", required=False, type=click.Path(dir_okay=False, path_type=Path))
@click.option("--phone", "phones", multiple=True, metavar="NAME", help="Only this one; may be given again.")
@click.option(
    "--variants",
    type=click.IntRange(1, 1_000),
    help="As many as the sweep file has jobs of one model on a device, or 24, if left out.",
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
    help="How far they lie apart: the standard deviation of their latencies' logarithms.",
)
@click.option(
    "--seeds", type=click.IntRange(1, 10_000), default=50, show_default=True, help="Sweeps of each kind on each phone."
)
@json_option
def simulate(
    sweep_file: Path | None,
    phones: tuple[str, ...],
    variants: int | None,
    base_ms: float,
    sigma: float,
    seeds: int,
    as_json: bool,
) -> None:
    """What a protocol would cost and find, on simulated phones. Builds and measures nothing.

    \b
    SWEEP_FILE's protocol and budget stand beside the presets full and race, and beside what others do:
    180 s of sleep, 20 samples, their mean. Every figure is simulated, and none is one of a real phone.
    Example: edgesweep simulate sweep.yaml --phone hot --seeds 20
    """
    run_simulate(sweep_file, phones, variants, base_ms=base_ms, sigma=sigma, seeds=seeds, as_json=as_json)


@main.command()
@workspace_option
@json_option
def doctor(root: Path, as_json: bool) -> None:
    """What this machine can build and measure, and what to install for the rest.

    \b
    Example: edgesweep doctor
    """
    from sweeps.report.devices import print_checks
    from workers.doctor import examine

    checks = examine(root)
    if as_json:
        print_json({"checks": [check.document() for check in checks]})
    else:
        print_checks([(check.name, check.ok, check.found, check.fix) for check in checks])
    if any(check.needed and not check.ok for check in checks):
        sys.exit(1)


@main.command()
@workspace_option
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(1, 65535), default=8501, show_default=True)
def dashboard(root: Path, host: str, port: int) -> None:
    """Review results in the browser. Listens on this machine only, unless told otherwise.

    \b
    Example: edgesweep dashboard --port 8600
    """
    from dashboard.launch import command

    argv = command(root, host=host, port=port)
    click.echo(f"EdgeSweep listens on http://{host}:{port}  (Ctrl-C ends it)", err=True)
    os.execv(argv[0], argv)  # noqa: S606  # an argument list of our own; the dashboard takes this process' place


@main.command()
def schema() -> None:
    """Print the JSON Schema of sweep files, so that an editor completes and checks them.

    \b
    Example: edgesweep schema > sweep.schema.json
    """
    from sweeps.spec.sweep import json_schema

    print_json(json_schema())


main.add_command(import_figures)
