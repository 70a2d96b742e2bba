"""`python infra/write_support.py [MODEL]...`: which variants work for which model, built and verified on this machine.

`--output` writes a page such as infra/support.md, whose third line has its command.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import click
import support_text
from pydantic import ValidationError
from support_cells import grids, known_backends, known_runtimes
from support_survey import LISTED, InputShape, Subject, Survey, Weights, subject

from sweeps.cli.main import Program
from sweeps.cli.options import EXIT_INTERRUPTED, executor_option, json_option, print_json, workspace_option
from sweeps.cli.session import CtrlC
from sweeps.errors import SpecError
from sweeps.journal.journal import Journal
from sweeps.operations.event_output import show
from sweeps.operations.executor_choice import open_executor
from sweeps.operations.sweep_plan import roots_of
from sweeps.report.progress import RunProgress
from sweeps.spec import catalog
from sweeps.spec.model_inputs import DataSpec, ModelSpec
from sweeps.spec.sweep import load
from sweeps.workspace import Workspace
from workers.models.prepare import prepare as prepare_model
from workers.models.prepared_model import PreparedModel

_SWEEP_FILES = (".yaml", ".yml")


@click.command(cls=Program)
@click.argument("models", nargs=-1, metavar="[MODEL]...")
@click.option(
    "--backend",
    "backends",
    multiple=True,
    type=click.Choice(known_backends()),
    help="Only this one; may be repeated.",
)
@click.option(
    "--runtime",
    "runtimes",
    multiple=True,
    type=click.Choice(known_runtimes()),
    help="torchscript if left out; may be repeated.",
)
@click.option(
    "--precision",
    "precisions",
    multiple=True,
    type=click.Choice(catalog.values("precision")),
    help="Only this one; may be repeated.",
)
@click.option("--input-shape", help="Batch, channels, height, width; 1,3,224,224 if left out (demo: 1,3,64,64).")
@click.option(
    "--weights",
    type=click.Choice(["random", "demo", "pretrained"]),
    help="random (settled), demo (trained on digits) or pretrained; the default depends on the model.",
)
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="Write the table there as Markdown.")
@workspace_option
@executor_option
@click.option("--retry-failed", is_flag=True, help="Try failed builds again.")
@json_option
def write_support(
    models: tuple[str, ...],
    backends: tuple[str, ...],
    runtimes: tuple[str, ...],
    precisions: tuple[str, ...],
    input_shape: str | None,
    weights: Weights | None,
    output: Path | None,
    root: Path,
    executor: str,
    retry_failed: bool,
    as_json: bool,
) -> None:
    """Build and verify models with all combinations; print what works, and why the rest does not.

    \b
    MODEL is torchvision's name, module:function, or a sweep file (its models and data); by default a list of models.
    Nothing is timed. After an interruption, run the same command again to continue. Nothing is built twice.
    Example: python infra/write_support.py mobilenet_v3_small --weights demo --backend nnapi
    """
    subjects, roots = _subjects(models, input_shape, weights)
    workspace = Workspace.open(root)
    if not (cells := grids(backends, precisions, runtimes)):
        raise SpecError("no runtime has a build like that", "leave out --backend or --precision, or name --runtime")
    with workspace.lock(), Journal.open(workspace.journal) as journal:
        survey = Survey(subjects, cells, workspace.root, roots, journal, retry_failed=retry_failed)
        named = ", ".join(entry.model.name for entry in subjects)
        click.echo(f"{survey.pending()} builds to make of {named}", err=True)
        stopped = survey.pending() > 0 and _build(survey, workspace, roots, executor)
    if stopped:
        click.echo("Stopped. Nothing is lost: run the same command again to continue.", err=True)
        sys.exit(EXIT_INTERRUPTED)
    table = survey.table()
    if output is not None:
        output.parent.mkdir(parents=True, exist_ok=True)
        command = " ".join(["python infra/write_support.py", *sys.argv[1:]])
        output.write_text(support_text.markdown(table, command), encoding="utf-8")
        click.echo(str(output), err=True)
    if as_json:
        print_json(support_text.document(table))
    elif output is None:
        click.echo(support_text.terminal_text(table))


def _build(survey: Survey, workspace: Workspace, roots: tuple[Path, ...], executor_name: str) -> bool:
    """Run the pending builds. Returns whether it was stopped before the end."""
    with (
        RunProgress() as progress,
        open_executor(executor_name, workspace, survey.plans[0]) as executor,
        # The handler comes after the executor: Ray's start sets its own signal handlers.
        CtrlC(progress.note) as stop,
    ):

        def prepare(model: ModelSpec, data: DataSpec, versions: Mapping[str, str]) -> PreparedModel:
            return prepare_model(model, data, workspace, versions, progress.preparing, roots)

        for event in survey.run(executor, prepare, stop):
            show(event, progress)
        return stop()


def _subjects(
    named: Sequence[str], input_shape: str | None, weights: Weights | None
) -> tuple[list[Subject], tuple[Path, ...]]:
    """Return the requested models, and the folders to search for the user's own modules."""
    files = [name for name in named if name.endswith(_SWEEP_FILES)]
    if files and (len(named) > 1 or input_shape or weights):
        raise SpecError(
            f"{files[0]} is a sweep file, which defines the weights and shapes of its models",
            "give only the sweep file, without --weights and --input-shape",
        )
    if files:
        spec = load(Path(files[0]))
        return [Subject(model=model, data=spec.data) for model in spec.models], roots_of(Path(files[0]))
    shape = None if input_shape is None else _shape(input_shape)
    subjects = [_subject(source, weights, shape) for source in dict.fromkeys(named or LISTED)]
    names = [entry.model.name for entry in subjects]
    if twice := {name for name in names if names.count(name) > 1}:
        raise SpecError(
            f"two models are called {', '.join(sorted(twice))}", "put them into a sweep file, with names of their own"
        )
    return subjects, ()


def _subject(source: str, weights: Weights | None, shape: InputShape | None) -> Subject:
    try:
        return subject(source, weights, shape)
    except ValidationError as error:
        raise SpecError(
            f"{source!r} cannot be a model: {error.errors()[0]['msg']}",
            "give torchvision's name, module:function, or a sweep file",
        ) from error


def _shape(text: str) -> InputShape:
    words = text.split(",")
    if len(words) != 4 or not all(word.isdecimal() and 0 < int(word) <= 65_536 for word in words):
        raise SpecError(
            f"--input-shape {text!r} is not four whole numbers", "write for instance --input-shape 1,3,224,224"
        )
    batch, channels, height, width = map(int, words)
    return batch, channels, height, width


if __name__ == "__main__":
    write_support()
