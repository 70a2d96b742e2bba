"""Tries the models and images of a sweep before anything is built: each in a process of its own, in seconds.

A model is loaded with its checkpoint and answers a few images. Of a folder every file is opened, and as many as there
is time for are decoded; the others are looked at from both ends. Of a data set of torchvision that is on the disk, one
image is opened. Nothing is trained, settled or downloaded.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from sweeps.errors import DataError, ModelError
from sweeps.ranking.reference_doubts import doubts, figure
from sweeps.spec.folder_levels import evaluated_levels
from sweeps.spec.inputs import WEIGHTS, DataSpec, DigitsData, FolderData, ModelSpec, TorchvisionData
from sweeps.trust import original_doubted
from sweeps.workspace import Workspace
from workers.forks.client import Forks
from workers.models import apart
from workers.models.code import check_not_hidden, own_code
from workers.models.data import check_channels
from workers.models.data_sources import evaluation_files, files_in
from workers.models.request_folder import Request, has_types, overwritten
from workers.models.room import folder_of_request
from workers.models.sampled import sampled

SILENT_S = 60.0
"""For a person who waits: a model that tells nothing for so long is taken for an endless loop."""
RUN_SILENT_S = 180.0
"""In a run, which need not be watched, on a machine that may be busy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """What was tried, and how that went."""

    what: str
    """A model's name, a folder or a data set."""
    problem: bool
    message: str
    next_step: str = ""
    code: str = ""
    """Of what was said about the original's accuracy: `original`, its figure, or the trust label of what speaks against
    it."""
    figures: Mapping[str, float | str] = field(default_factory=dict)
    """Those of the message, if `code` is not empty."""

    @property
    def doubts_original(self) -> bool:
        """Whether no constraint on accuracy is kept with it."""
        return bool(original_doubted((self.code,)))

    @property
    def text(self) -> str:
        """One line for people."""
        return f"{self.what}: {self.message}" + (f" ({self.next_step})" if self.next_step else "")


def try_models(
    models: Sequence[ModelSpec],
    roots: Sequence[Path],
    workspace: Workspace,
    silent_s: float | None = SILENT_S,
    below: Path | None = None,
    data: DataSpec | None = None,
    forks: Forks | None = None,
) -> Iterator[tuple[ModelSpec, int | ModelError, Tried]]:
    """Each model with its number of classes, or why it cannot be used. `below`: for temporary files, instead of the
    system's folder. `data`: then a model with a checkpoint answers some of its images that have labels, and what that
    tells of it follows, in further lines."""
    limits = replace(apart.LIMITS, silent_s=silent_s)
    for model in models:
        try:
            code = own_code(model.source, roots) if ":" in model.source else None
            if code is not None:
                check_not_hidden(model.source, code, roots)
            with folder_of_request(below) as folder:
                request = Request(folder)
                request.write(model, code, workspace)
                if data is not None and model.weights not in WEIGHTS:
                    request.ask({"data": data.model_dump(mode="json")})
                found = apart.asked("try_model", folder, model.source, limits=limits, forks=forks)
                if not has_types(found, {"classes": int, "parameters": int, "weights_text": str}):
                    raise overwritten(model.source)
        except ModelError as error:
            yield model, error, Tried(what=model.name, problem=True, message=error.message, next_step=error.next_step)
            continue
        origin = f"weights: {model.weights}, which the run makes or downloads" if model.weights in WEIGHTS else "loads"
        origin = "; ".join(filter(None, (origin, found["weights_text"])))
        message = f"{origin}; {found['parameters']:,} parameters, {found['classes']} classes"
        yield model, int(found["classes"]), Tried(what=model.name, problem=False, message=message)
        if data is not None and "sample" in found:
            for tried in _original(model.name, found["sample"], data):
                yield model, int(found["classes"]), tried


def _original(name: str, told: Any, data: DataSpec) -> Iterator[Tried]:
    """The original's figure, and what speaks against it."""
    try:
        sample = sampled(told)
    except (KeyError, TypeError, ValueError, OverflowError):
        return  # the user's code wrote into the answer
    top1 = figure(sample.answers)
    yield Tried(
        what=name, problem=False, message=f"the original has {top1.text}", code="original", figures=asdict(top1)
    )
    for doubt in doubts(sample.answers, evaluated_levels(data), sample.inputs):
        yield Tried(
            what=name,
            problem=False,
            message=doubt.message,
            next_step=doubt.next_step,
            code=doubt.code,
            figures=doubt.figures,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluated:
    """What accuracy is computed on."""

    what: str
    """For people: `the evaluation folder`. Empty if there are no labels."""
    classes: int | None
    """`None` if that is not known: it cannot be used, is not downloaded yet, or has no labels."""


def try_folders(data: DataSpec, seconds: float) -> Iterator[tuple[Path, int, Tried]]:
    """Each folder with the number of its classes; several lines if several files cannot be used."""
    folders = {one.path for one in (data.calibration, data.evaluation) if isinstance(one, FolderData)}
    for root in sorted(folders):
        try:
            files, classes = files_in(root)
        except DataError as error:
            yield root, 0, Tried(what=str(root), problem=True, message=error.message, next_step=error.next_step)
            continue
        for tried in _try_files(root, files, len(classes), seconds):
            yield root, len(classes), tried


def try_evaluation(data: DataSpec, seconds: float, below: Path | None = None) -> tuple[Evaluated, tuple[Tried, ...]]:
    """Only what accuracy is computed on: images that calibration needs are missed by some builds alone. `below`: as in
    `try_models`."""
    match data.evaluation:
        case FolderData(path=root):
            try:
                files, classes = evaluation_files(data.calibration, data.evaluation)
            except DataError as error:
                tried = Tried(what=str(root), problem=True, message=error.message, next_step=error.next_step)
                return Evaluated(what="", classes=None), (tried,)
            found = Evaluated(what="the evaluation folder", classes=classes)
            return found, tuple(_try_files(root, files, classes, seconds, below))
        case DigitsData():
            return Evaluated(what="the digits data", classes=10), ()
        case TorchvisionData():
            classes_or_none, tried = _try_set(data.evaluation, held_out=True, below=below)
            return Evaluated(what=data.evaluation.dataset, classes=classes_or_none), (tried,)
    return Evaluated(what="", classes=None), ()


def _try_files(
    root: Path, files: Sequence[Path], classes: int, seconds: float, below: Path | None = None
) -> Iterator[Tried]:
    try:
        found = opened(root, files, seconds, below=below)
    except ModelError as error:
        yield Tried(what=str(root), problem=True, message=error.message, next_step=error.next_step)
        return
    for one in found["problems"]:
        yield Tried(what=str(root), problem=True, **one)
    if not found["problems"]:
        message = f"{len(files)} images in {classes} classes can be opened, {found['whole']} were decoded"
        yield Tried(what=str(root), problem=False, message=message)


def _try_set(source: TorchvisionData, *, held_out: bool, below: Path | None = None) -> tuple[int | None, Tried]:
    what = f"{source.dataset}, {'evaluation' if held_out else 'calibration'}"
    try:
        with folder_of_request(below) as folder:
            asked = {"dataset": source.dataset, "root": str(source.root), "held_out": held_out}
            Request(folder).ask(asked)
            found = apart.asked("try_set", folder, source.dataset)
    except (DataError, ModelError) as error:
        return None, Tried(what=what, problem=True, message=error.message, next_step=error.next_step)
    message = "not in its folder yet, or not whole: the run downloads it"
    if found["images"]:
        message = f"{found['images']:,} images, the first can be opened"
    return found["classes"], Tried(what=what, problem=False, message=message)


def opened(
    root: Path, files: Sequence[Path], seconds: float, forks: Forks | None = None, below: Path | None = None
) -> dict[str, Any]:
    """Opens all files, and decodes those that there is time for. Raises `ModelError` if that ends badly."""
    with folder_of_request(below) as folder:
        Request(folder).ask({"files": [str(file) for file in files], "seconds": seconds})
        return apart.asked(apart.TRY_IMAGES, folder, str(root), forks=forks)


def try_all(
    models: Sequence[ModelSpec], data: DataSpec, roots: Sequence[Path], workspace: Workspace, seconds: float
) -> Iterator[Tried]:
    """Models, then images, then whether they belong together."""
    classes: dict[str, int] = {}
    for model, found, tried in try_models(models, roots, workspace, data=data):
        yield tried
        if isinstance(found, int):
            classes[model.name] = found
        yield from _try_channels(model, data)
    folders: dict[Path, int] = {}
    for root, count, tried in try_folders(data, seconds):
        yield tried
        folders[root] = count
    if isinstance(data.calibration, TorchvisionData):
        yield _try_set(data.calibration, held_out=False)[1]
    if isinstance(data.evaluation, FolderData):
        evaluated = Evaluated(what="the evaluation folder", classes=folders[data.evaluation.path] or None)
    else:
        evaluated, more = try_evaluation(data, seconds)
        yield from more
    yield from together(classes, evaluated)


def _try_channels(model: ModelSpec, data: DataSpec) -> Iterator[Tried]:
    try:
        check_channels(data, model.input_shape[1])
    except DataError as error:
        yield Tried(what=model.name, problem=True, message=error.message, next_step=error.next_step)


def together(classes: Mapping[str, int], evaluated: Evaluated) -> Iterator[Tried]:
    """Whether models belong to the data: `classes` by the model's name."""
    there = evaluated.classes
    if there is None:
        return
    for name, count in classes.items():
        if there > count:
            yield Tried(
                what=name,
                problem=True,
                message=f"it answers {count} classes, {evaluated.what} has {there}",
                next_step="give data with the model's own classes, in their order (folders sorted by name)",
            )
        elif there < count:
            yield Tried(
                what=name,
                problem=False,
                message=f"it answers {count} classes, {evaluated.what} has {there}: these (of a folder: "
                f"sorted by name) must be the first {there} of the model's classes",
            )
