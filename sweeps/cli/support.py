"""`edgesweep support`: what of the whole grid works for which model, built and verified on this machine.

Like `sweeps.cli.main`, which it is a part of, it imports upwards, inside its functions.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sweeps.cli.session import EXIT_INTERRUPTED, CtrlC, open_executor, print_json, roots_of, show
from sweeps.errors import SpecError
from sweeps.workspace import Workspace

if TYPE_CHECKING:
    from sweeps.spec.sweep import DataSpec, ModelSpec
    from workers.models.prepare import PreparedModel
    from workers.support import InputShape, Subject, Survey, Weights

_SWEEP_FILES = (".yaml", ".yml")


def run_support(
    named: Sequence[str],
    root: Path,
    executor: str,
    *,
    backends: Sequence[str] = (),
    precisions: Sequence[str] = (),
    input_shape: str | None = None,
    weights: "Weights | None" = None,
    retry_failed: bool = False,
    output: Path | None = None,
    as_json: bool = False,
) -> None:
    """`named`: models (all of the list where there are none), or one sweep file whose models and data are meant.

    Raises `SpecError`, `ModelError`, `DataError`.
    """
    from sweeps.journal.journal import Journal
    from sweeps.report import support as support_table
    from workers import support

    subjects, roots = _subjects(named, input_shape, weights)
    workspace = Workspace.open(root)
    with workspace.lock(), Journal.open(workspace.journal) as journal:
        cells = support.grids(backends, precisions)
        survey = support.Survey(subjects, cells, workspace.root, roots, journal, retry_failed=retry_failed)
        models = ", ".join(one.model.name for one in subjects)
        click.echo(f"{survey.pending()} builds to make of {models}", err=True)
        stopped = survey.pending() > 0 and _build(survey, workspace, roots, executor)
    if stopped:
        click.echo("Stopped. Nothing is lost: the same command goes on from here.", err=True)
        sys.exit(EXIT_INTERRUPTED)
    table = survey.table()
    if output is not None:
        output.parent.mkdir(parents=True, exist_ok=True)
        command = " ".join(["edgesweep", *sys.argv[1:]])
        output.write_text(support_table.markdown(table, command), encoding="utf-8")
        click.echo(str(output), err=True)
    if as_json:
        print_json(support_table.document(table))
    elif output is None:
        click.echo(support_table.terminal_text(table))


def _build(survey: "Survey", workspace: Workspace, roots: tuple[Path, ...], executor_name: str) -> bool:
    """Build what is pending. Returns whether it was stopped before the end."""
    from sweeps.report.progress import RunProgress
    from workers.models import prepare as models

    with (
        RunProgress() as progress,
        open_executor(executor_name, workspace, survey.plans[0]) as executor,
        # After the executor: Ray's start sets signal handlers of its own.
        CtrlC(progress.note) as stop,
    ):

        def prepare(model: "ModelSpec", data: "DataSpec", versions: Mapping[str, str]) -> "PreparedModel":
            return models.prepare(model, data, workspace, versions, progress.preparing, roots)

        for event in survey.run(executor, prepare, stop):
            show(event, progress)
        return stop()


def _subjects(
    named: Sequence[str], input_shape: str | None, weights: "Weights | None"
) -> "tuple[list[Subject], tuple[Path, ...]]":
    """What is asked for, and where the user's own modules are looked for."""
    from sweeps.spec.sweep import load
    from workers.support import LISTED, Subject

    files = [name for name in named if name.endswith(_SWEEP_FILES)]
    if files and (len(named) > 1 or input_shape or weights):
        raise SpecError(
            f"{files[0]} is a sweep file: its models have their weights and shapes from there",
            "name it alone, without --weights and --input-shape",
        )
    if files:
        spec = load(Path(files[0]))
        return [Subject(model=model, data=spec.data) for model in spec.models], roots_of(Path(files[0]))
    shape = None if input_shape is None else _shape(input_shape)
    subjects = [_subject(source, weights, shape) for source in dict.fromkeys(named or LISTED)]
    names = [one.model.name for one in subjects]
    if twice := {name for name in names if names.count(name) > 1}:
        raise SpecError(
            f"two models are called {', '.join(sorted(twice))}", "put them into a sweep file, with names of their own"
        )
    return subjects, ()


def _subject(source: str, weights: "Weights | None", shape: "InputShape | None") -> "Subject":
    from pydantic import ValidationError

    from workers.support import subject

    try:
        return subject(source, weights, shape)
    except ValidationError as error:
        raise SpecError(
            f"{source!r} can not be a model: {error.errors()[0]['msg']}",
            "give torchvision's name, module:function, or a sweep file",
        ) from error


def _shape(text: str) -> "InputShape":
    words = text.split(",")
    if len(words) != 4 or not all(word.isdecimal() and 0 < int(word) <= 65_536 for word in words):
        raise SpecError(
            f"--input-shape {text!r} is not four whole numbers", "write for instance --input-shape 1,3,224,224"
        )
    batch, channels, height, width = map(int, words)
    return batch, channels, height, width
