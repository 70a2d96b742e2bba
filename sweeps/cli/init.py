"""`edgesweep init`: loads a model and looks at its images, and then writes a sweep file for them."""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import click

from sweeps.cli.first_file import Answers, Folder, sweep_text
from sweeps.cli.options import models_option
from sweeps.errors import EdgeSweepError, SpecError, WorkspaceError
from sweeps.operations.sweep_plan import roots_of
from sweeps.spec.fields import module_source
from sweeps.spec.folder_levels import folder_warnings
from sweeps.spec.model_inputs import WEIGHTS, Argument, ModelSpec
from sweeps.spec.sweep import SweepSpec, json_schema, load
from sweeps.spec.yaml_source import parsed
from sweeps.text import plain
from sweeps.whole_file import whole_file
from sweeps.workspace import Workspace
from workers.first_look import FORKS, Model, look_at, needed_arguments
from workers.models.data_sources import files_in
from workers.models.images import InputShape
from workers.models.model_check import opened, try_models
from workers.models.model_code import own_code

SCHEMA = "sweep.schema.json"
_LOOK_S = 3.0
_SIZES = (224, 32, 64, 28, 96, 128, 160, 192, 256, 299, 384)
_LARGE_IMAGES = 160
_SPLITS = (("train", "training"), ("val", "valid", "validation", "test", "eval", "evaluation"))


def _shape(_context: click.Context, _option: click.Parameter, text: str | None) -> InputShape | None:
    if text is None:
        return None
    sizes = [int(word) for word in text.split(",") if word.strip().isdecimal()]
    if len(sizes) != 4 or len(text.split(",")) != 4:
        raise click.BadParameter(f"{text!r} is not batch,channels,height,width, such as 1,3,224,224")
    return sizes[0], sizes[1], sizes[2], sizes[3]


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path), default=Path("sweep.yaml"))
@click.option("--model", help="module:function of your own, or torchvision's name of a model.")
@click.option("--weights", help="The file of a checkpoint; or pretrained (torchvision's) or random.")
@click.option("--weights-key", help="Where in the checkpoint the weights are, if several fit, such as model_ema.")
@click.option(
    "--argument", "arguments", multiple=True, metavar="NAME=VALUE", help="For the function that makes the model."
)
@click.option("--images", help="Folder with one sub-folder of images per class, or with train and val of such.")
@click.option("--device", "devices", multiple=True, help='What measures: local, "adb:*", ssh:USER@BOARD, ...')
@click.option("--input-shape", callback=_shape, metavar="B,C,H,W", help="If left out: what the model takes.")
@click.option("--force", is_flag=True, help="Replace FILE.")
@models_option
def init(
    file: Path,
    model: str | None,
    weights: str | None,
    weights_key: str | None,
    arguments: tuple[str, ...],
    images: str | None,
    devices: tuple[str, ...],
    input_shape: InputShape | None,
    force: bool,
    models: tuple[Path, ...],
) -> None:
    """Write a sweep file for a model of your own, after a look at the model and its images.

    \b
    Asks for what is not given, where there is a terminal. Paths start in the folder that it is started in. The model is
    loaded in a process of its own.
    Example: edgesweep init --model my_net:make_net --argument classes=2 --weights my_net.pt --images photos
    """
    if file.exists() and not force:
        raise WorkspaceError(f"there is something at {file} already", "name another file, or add --force")
    home, roots = file.resolve().parent, roots_of(file, models)
    answers = replace(_answers(model, weights, arguments, images, devices, roots), weights_key=weights_key)
    if answers.weights not in WEIGHTS:
        answers = replace(answers, weights=_from(home, answers.weights))
    looked_at = _model_spec(answers, home, input_shape)
    folders, side = _folders(answers, home)
    look = look_at(looked_at, roots, [input_shape] if input_shape else _shapes(side))
    _tell(answers, look, folders)
    text = sweep_text(answers, look, folders)
    try:
        with whole_file(file) as part:
            part.write_text(text, encoding="utf-8")
            spec = load(part)  # every other command reads the file the same way
        is_new = _write_schema(file.with_name(SCHEMA), force=force)
    except OSError as error:
        raise WorkspaceError(f"{file} cannot be written: {error.strerror}", "name another file") from error
    _tell_original(spec, roots, home)
    click.echo(f"{file} is written, with {SCHEMA} for editors. Read it, then: edgesweep plan --check {file}")
    if not is_new:
        click.echo(f"{SCHEMA} was there and is another one: it stays. New: edgesweep schema > {SCHEMA}", err=True)


def _tell_original(spec: SweepSpec, roots: Sequence[Path], home: Path) -> None:
    """Print how accurate the model is on the images as the sweep file names them, and warnings about these images."""
    for warning in folder_warnings(spec.data):
        click.secho(plain(warning), fg="yellow")
    trained = [model for model in spec.models if model.weights not in WEIGHTS]
    for _, _, trial in try_models(trained, roots, Workspace(home), data=spec.data, forks=FORKS):
        if trial.code or trial.problem:
            click.secho(plain(trial.text), fg="red" if trial.problem else "yellow" if trial.doubts_original else None)


def _write_schema(file: Path, *, force: bool) -> bool:
    """Write the schema for editors; a different existing file is replaced only with `force`. Returns whether the file
    now has the schema. Raises `OSError`."""
    text = json.dumps(json_schema(), indent=2) + "\n"
    if file.exists() and not force:
        return file.read_bytes() == text.encode()
    file.write_text(text, encoding="utf-8")
    return True


def _answers(
    model: str | None,
    weights: str | None,
    arguments: Sequence[str],
    images: str | None,
    devices: Sequence[str],
    roots: Sequence[Path],
) -> Answers:
    """Return the user's answers: the given options, and prompts for the others if there is a terminal. Raises
    `EdgeSweepError` if the model is missing and there is no terminal."""
    ask = sys.stdin.isatty() and sys.stdout.isatty()
    if not model and not ask:
        raise EdgeSweepError("no model is named, and there is no terminal to ask on", "give --model module:function")
    model = module_source(model or click.prompt("Model: module:function of your own, or torchvision's name"))
    argument_values = dict(map(_argument, arguments))
    if ask and ":" in model:
        argument_values |= _ask_arguments(model, argument_values, roots)
    usual = "random" if ":" in model else "pretrained"
    if weights is None:
        weights = click.prompt("Weights: the file of a checkpoint, or", default=usual) if ask else usual
    if images is None and ask:
        images = click.prompt(
            "Folder of images, one sub-folder per class (empty: none)", default="", show_default=False
        )
    if not devices:
        devices = click.prompt("Devices", default="local").split() if ask else ("local",)
    return Answers(
        model=model,
        weights=weights,
        arguments=argument_values,
        images=images or "",
        devices=tuple(devices),
    )


def _ask_arguments(model: str, argument_values: Mapping[str, Argument], roots: Sequence[Path]) -> dict[str, Argument]:
    """Prompt for the arguments that the model's function needs besides `argument_values`, and return the answers.
    Raises `ModelError`."""
    needed = needed_arguments(model, own_code(model, roots))
    function = model.rpartition(":")[2]
    answers = {
        name: click.prompt(f"Argument {name} of {function} (empty: none)", default="", show_default=False)
        for name in needed
        if name not in argument_values
    }
    return dict(_argument(f"{name}={value}") for name, value in answers.items() if value)


def _argument(text: str) -> tuple[str, Argument]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise EdgeSweepError(f"{text!r} is not NAME=VALUE", "write for instance --argument classes=10")
    # The value is parsed as in a sweep file.
    read = parsed(f"{{value: {value}}}", Path("argument")).data["value"] if value else ""
    return name, read if isinstance(read, str | int | float | bool | list) else value


def _model_spec(answers: Answers, home: Path, input_shape: InputShape | None) -> ModelSpec:
    weights = answers.weights if answers.weights in WEIGHTS else str(home / answers.weights)
    if answers.weights not in WEIGHTS and not Path(weights).is_file():
        raise EdgeSweepError(f"there is no file {weights}", "give --weights FILE, pretrained or random")
    if answers.weights in WEIGHTS and answers.weights_key is not None:
        raise EdgeSweepError(f"--weights-key is for a checkpoint, not for {answers.weights} weights", "leave it out")
    try:
        return ModelSpec(
            source=answers.model,
            weights=weights,
            weights_key=answers.weights_key,
            arguments=dict(answers.arguments),
            input_shape=input_shape or (1, 3, _SIZES[0], _SIZES[0]),
        )
    except ValueError as error:
        step = "give --model module:function, or torchvision's name such as mobilenet_v2"
        raise SpecError(_first(error), step) from error


def _first(error: ValueError) -> str:
    listed = getattr(error, "errors", None)
    return str(listed()[0]["msg"]) if listed is not None else str(error)


def _folders(answers: Answers, home: Path) -> tuple[tuple[Folder, ...], int]:
    """Return the folders of images (one, or two for calibration and evaluation), and the side of the images in pixels;
    0 without images."""
    if not answers.images:
        return (), 0
    root = Path(answers.images).expanduser().resolve()
    splits = [next((name for name in names if (root / name).is_dir()), None) for names in _SPLITS]
    paths = [root / name for name in splits if name] if all(splits) else [root]
    folders, sides = [], []
    for path in paths:
        files, classes = files_in(path)
        look = opened(path, files, _LOOK_S, FORKS)
        problems = tuple(problem["message"] for problem in look["problems"])
        size = tuple(look["one_size"])
        folders.append(Folder(path=_from(home, path), images=len(files), classes=classes, size=size, problems=problems))
        sides.append(int(look["side"]))
    return tuple(folders), min(sides)


def _from(home: Path, path: str | Path) -> str:
    """Return a path as it is written in a sweep file in `home`: relative if it lies below `home`."""
    full = Path(path).expanduser().resolve()
    return full.relative_to(home).as_posix() if full.is_relative_to(home) else str(full)


def _shapes(side: int) -> list[InputShape]:
    """Return the input shapes to try on the model: first the usual size, or for small images the nearest size below
    theirs."""
    near = [size for size in sorted(_SIZES, reverse=True) if size <= side] if 0 < side < _LARGE_IMAGES else []
    return [(1, 3, size, size) for size in dict.fromkeys([*near[:1], *_SIZES])]


def _tell(answers: Answers, look: Model, folders: Sequence[Folder]) -> None:
    size = "x".join(map(str, look.input_shape))
    click.echo(plain(f"{answers.model}: input {size}, {look.classes} classes, {look.parameters:,} parameters"))
    if look.weights_text:
        click.echo(plain(f"  {look.weights_text}"))
    for way, closed in (("scripting", look.script), ("tracing", look.trace), ("fusing and static int8", look.graph)):
        click.echo(plain(f"  {way}: {f'no: {closed}' if closed else 'yes'}"))
    for folder in folders:
        click.echo(plain(f"{folder.path}: {folder.images} images in {len(folder.classes)} classes"))
        for problem in folder.problems:
            click.secho(plain(f"  {problem}"), fg="red")
    if folders and len(folders[-1].classes) != look.classes:
        class_count = len(folders[-1].classes)
        click.secho(f"the model answers {look.classes} classes, the folder has {class_count}", fg="red")
