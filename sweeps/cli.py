"""The command line. The one module of `sweeps` that imports upwards, inside its commands, so that each starts fast."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sweeps.errors import EdgeSweepError, StoreError, WorkspaceError
from sweeps.recipe_command import recipe_spec, run_recipe
from sweeps.run_command import EXIT_INTERRUPTED, load_sweep, make_plan, outcome_of, print_json, roots_of, run_sweep
from sweeps.support_command import run_support
from sweeps.text import plain
from sweeps.workspace import Workspace

if TYPE_CHECKING:
    from sweeps.journal import Journal
    from sweeps.store import SweepResults

SPECS = Path(__file__).parent / "specs"


class _Group(click.Group):
    """Prints an expected error as one red line and its next step; a traceback is for bugs only."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except EdgeSweepError as error:
            click.secho(f"edgesweep: {plain(error.message)}", fg="red", err=True)
            if error.next_step:
                click.echo(f"  next: {plain(error.next_step)}", err=True)
            ctx.exit(error.exit_code)
        except KeyboardInterrupt:
            click.echo("Stopped at once. What was measured is kept: the same command goes on from there.", err=True)
            ctx.exit(EXIT_INTERRUPTED)


workspace_option = click.option(
    "--workspace",
    "root",
    type=click.Path(file_okay=False, path_type=Path),
    callback=lambda _context, _option, root: root.expanduser().resolve(),
    default=Path("edgesweep-data"),
    envvar="EDGESWEEP_WORKSPACE",
    show_default=True,
    help="Folder of results, artifacts and logs (or EDGESWEEP_WORKSPACE).",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout.")
sweep_file_argument = click.argument("sweep_file", type=click.Path(dir_okay=False, path_type=Path))
yes_option = click.option("--yes", is_flag=True, help="Allow more than 10,000 jobs.")
executor_option = click.option(
    "--executor",
    type=click.Choice(["ray", "inline"]),
    default="ray",
    show_default=True,
    help="Where builds and measurements run; inline needs no Ray.",
)
sweep_argument = click.argument("sweep", required=False)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
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
    from sweeps import terminal
    from sweeps.journal import Journal
    from sweeps.plan import estimate_seconds
    from sweeps.protocol import resolve
    from sweeps.records import Failed
    from workers.build import ArtifactStore

    spec = load_sweep(sweep_file, yes)
    workspace = Workspace(root)
    planned = make_plan(spec, roots_of(sweep_file), workspace)
    protocol = resolve(spec.protocol)
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
        print_json(terminal.plan_document(planned, states, seconds))
    else:
        terminal.print_plan(planned, states, seconds)


@main.command()
@sweep_file_argument
@workspace_option
@executor_option
@yes_option
@click.option("--retry-failed", is_flag=True, help="Try failed jobs again.")
@json_option
def run(sweep_file: Path, root: Path, executor: str, yes: bool, retry_failed: bool, as_json: bool) -> None:
    """Build, measure and rank. Interrupted, the same command goes on where it was.

    \b
    Ctrl-C once finishes what runs and stops; twice stops at once.
    Example: edgesweep run sweep.yaml --workspace results
    """
    run_sweep(sweep_file, root, executor, yes, retry_failed, as_json)


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
    from sweeps import terminal
    from sweeps.status import read_status

    workspace = Workspace(root)
    with _open_journal(workspace) as journal:
        current = read_status(journal, _sweep_name(journal, sweep))
    if as_json:
        print_json(current.document())
    else:
        terminal.print_status(current)


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
    from sweeps import rank as ranking
    from sweeps import terminal

    results = _results(Workspace(root), sweep)
    ranked = ranking.rank(results.frame, results.spec.objective, results.name, device)
    if as_json:
        print_json(ranking.to_json(ranked))
    else:
        terminal.print_ranking(ranked)


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
    from sweeps import rank as ranking
    from sweeps.export import export_candidate
    from sweeps.manifest import FILE_NAME

    workspace = Workspace(root)
    results = _results(workspace, sweep)
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
@workspace_option
@json_option
def devices(root: Path, as_json: bool) -> None:
    """List the devices that can measure here, with the facts that results depend on.

    \b
    Example: edgesweep devices --json
    """
    from sweeps import terminal
    from workers.devices import registry

    workspace = Workspace.open(root)
    found = [registry.connect(name, workspace.root).facts() for name in registry.DEVICES]
    if as_json:
        print_json({"devices": [terminal.facts_document(facts) for facts in found]})
    else:
        terminal.print_devices(found)


@main.command()
@workspace_option
@json_option
def doctor(root: Path, as_json: bool) -> None:
    """What this machine can build and measure, and what to install for the rest.

    \b
    Example: edgesweep doctor
    """
    from sweeps import terminal
    from workers.doctor import examine

    checks = examine(root)
    if as_json:
        print_json({"checks": [check.document() for check in checks]})
    else:
        terminal.print_checks([(check.name, check.ok, check.found, check.fix) for check in checks])
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
    from sweeps.spec import json_schema

    print_json(json_schema())


def _open_journal(workspace: Workspace) -> "Journal":
    from sweeps.journal import Journal

    if not workspace.journal.exists():
        raise WorkspaceError(f"no sweep was run in {workspace.root}", "run one: edgesweep run sweep.yaml")
    return Journal.open(workspace.journal, read_only=True)


def _sweep_name(journal: "Journal", sweep: str | None) -> str:
    name = sweep or journal.latest_sweep()
    if name is None or name not in {info.name for info in journal.sweeps()}:
        known = ", ".join(info.name for info in journal.sweeps()) or "none"
        raise StoreError(f"there is no sweep called {name!r} in this workspace", f"known sweeps: {known}")
    return name


def _results(workspace: Workspace, sweep: str | None) -> "SweepResults":
    from sweeps.journal import Journal
    from sweeps.store import load

    if sweep is None and workspace.journal.exists():
        # The latest sweep of this workspace, also where MLflow is shared with others.
        with Journal.open(workspace.journal, read_only=True) as journal:
            sweep = journal.latest_sweep()
    return load(workspace.tracking_uri, sweep)
