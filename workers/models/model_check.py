"""Tries the models and images of a sweep before anything is built: each in a separate process, in seconds.

A model is loaded with its checkpoint and run on a few images. Every file of a folder is opened, and as many as there is
time for are decoded; of the others only the beginning and the end are read. Of a torchvision data set that is on the
disk, one image is opened. Nothing is trained, settled or downloaded.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from sweeps.errors import DataError, ModelError
from sweeps.label_kinds import original_doubted
from sweeps.ranking.reference_doubts import doubts, figure
from sweeps.spec.folder_levels import evaluated_levels
from sweeps.spec.model_inputs import WEIGHTS, DataSpec, DigitsData, FolderData, ModelSpec, TorchvisionData
from sweeps.workspace import Workspace
from workers.forks.fork_client import Forks
from workers.models import model_process
from workers.models.data_sources import evaluation_files, files_in
from workers.models.image_sets import check_channels
from workers.models.model_code import check_not_hidden, own_code
from workers.models.process_folder import folder_of_request
from workers.models.request_folder import Request, has_types, overwritten
from workers.models.sample_answers import sampled

SILENT_S = 60.0
"""The seconds without progress after which a model is taken for an endless loop, while a person waits."""
RUN_SILENT_S = 180.0
"""The same limit in a run, which nobody needs to watch, on a machine that may be busy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """The outcome of trying a model, a folder or a data set."""

    what: str
    """The name of a model, a folder or a data set."""
    problem: bool
    message: str
    next_step: str = ""
    code: str = ""
    """The kind of a line about the original's accuracy: `original` for its accuracy figure, or the trust label of a
    doubt; else empty."""
    figures: Mapping[str, float | str] = field(default_factory=dict)
    """The figures in `message`, if `code` is not empty."""

    @property
    def doubts_original(self) -> bool:
        """Tell whether the original is doubted, so that a bound on its accuracy means nothing."""
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
) -> Iterator[tuple[ModelSpec, int | ModelError, Trial]]:
    """Yield each model with its number of classes, or the error why it cannot be used, and a line about it. `below`:
    the folder for temporary files, instead of the system's. `data`: if given, a model with a checkpoint is also run on
    some of its labelled images, and further lines tell its accuracy and the doubts about it."""
    limits = replace(model_process.LIMITS, silent_s=silent_s)
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
                answer = model_process.ask("try_model", folder, model.source, limits=limits, forks=forks)
                if not has_types(answer, {"classes": int, "parameters": int, "weights_text": str}):
                    raise overwritten(model.source)
        except ModelError as error:
            yield model, error, Trial(what=model.name, problem=True, message=error.message, next_step=error.next_step)
            continue
        origin = f"weights: {model.weights}, which the run makes or downloads" if model.weights in WEIGHTS else "loads"
        origin = "; ".join(filter(None, (origin, answer["weights_text"])))
        message = f"{origin}; {answer['parameters']:,} parameters, {answer['classes']} classes"
        yield model, int(answer["classes"]), Trial(what=model.name, problem=False, message=message)
        if data is not None and "sample" in answer:
            for outcome in _original(model.name, answer["sample"], data):
                yield model, int(answer["classes"]), outcome


def _original(name: str, answer: Any, data: DataSpec) -> Iterator[Trial]:
    """Yield the original's accuracy figure, and the doubts about it."""
    try:
        sample = sampled(answer)
    except (KeyError, TypeError, ValueError, OverflowError):
        return  # the user's code wrote into the answer
    top1 = figure(sample.answers)
    yield Trial(
        what=name, problem=False, message=f"the original has {top1.text}", code="original", figures=asdict(top1)
    )
    for doubt in doubts(sample.answers, evaluated_levels(data), sample.inputs):
        yield Trial(
            what=name,
            problem=False,
            message=doubt.message,
            next_step=doubt.next_step,
            code=doubt.code,
            figures=doubt.figures,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluated:
    """The images that accuracy is computed on."""

    what: str
    """The name for people, such as `the evaluation folder`. Empty if there are no labels."""
    classes: int | None
    """The number of classes; `None` if it is not known: the data cannot be used, is not downloaded yet, or has no
    labels."""


def try_folders(data: DataSpec, seconds: float) -> Iterator[tuple[Path, int, Trial]]:
    """Yield each folder with the number of its classes and a line about it; several lines if several files cannot be
    used."""
    folders = {source.path for source in (data.calibration, data.evaluation) if isinstance(source, FolderData)}
    for root in sorted(folders):
        try:
            files, classes = files_in(root)
        except DataError as error:
            yield root, 0, Trial(what=str(root), problem=True, message=error.message, next_step=error.next_step)
            continue
        for outcome in _try_files(root, files, len(classes), seconds):
            yield root, len(classes), outcome


def try_evaluation(data: DataSpec, seconds: float, below: Path | None = None) -> tuple[Evaluated, tuple[Trial, ...]]:
    """Try only the evaluation images: without calibration images, only some builds fail. `below`: as in
    `try_models`."""
    match data.evaluation:
        case FolderData(path=root):
            try:
                files, classes = evaluation_files(data.calibration, data.evaluation)
            except DataError as error:
                outcome = Trial(what=str(root), problem=True, message=error.message, next_step=error.next_step)
                return Evaluated(what="", classes=None), (outcome,)
            evaluated = Evaluated(what="the evaluation folder", classes=classes)
            return evaluated, tuple(_try_files(root, files, classes, seconds, below))
        case DigitsData():
            return Evaluated(what="the digits data", classes=10), ()
        case TorchvisionData():
            classes_or_none, outcome = _try_set(data.evaluation, held_out=True, below=below)
            return Evaluated(what=data.evaluation.dataset, classes=classes_or_none), (outcome,)
    return Evaluated(what="", classes=None), ()


def _try_files(
    root: Path, files: Sequence[Path], classes: int, seconds: float, below: Path | None = None
) -> Iterator[Trial]:
    try:
        answer = opened(root, files, seconds, below=below)
    except ModelError as error:
        yield Trial(what=str(root), problem=True, message=error.message, next_step=error.next_step)
        return
    for problem in answer["problems"]:
        yield Trial(what=str(root), problem=True, **problem)
    if not answer["problems"]:
        message = f"{len(files)} images in {classes} classes can be opened, {answer['whole']} were decoded"
        yield Trial(what=str(root), problem=False, message=message)


def _try_set(source: TorchvisionData, *, held_out: bool, below: Path | None = None) -> tuple[int | None, Trial]:
    name = f"{source.dataset}, {'evaluation' if held_out else 'calibration'}"
    try:
        with folder_of_request(below) as folder:
            inputs = {"dataset": source.dataset, "root": str(source.root), "held_out": held_out}
            Request(folder).ask(inputs)
            answer = model_process.ask("try_set", folder, source.dataset)
    except (DataError, ModelError) as error:
        return None, Trial(what=name, problem=True, message=error.message, next_step=error.next_step)
    message = "not in its folder yet, or not whole: the run downloads it"
    if answer["images"]:
        message = f"{answer['images']:,} images, the first can be opened"
    return answer["classes"], Trial(what=name, problem=False, message=message)


def opened(
    root: Path, files: Sequence[Path], seconds: float, forks: Forks | None = None, below: Path | None = None
) -> dict[str, Any]:
    """Open all files in a separate process, and decode as many as there is time for; return its answer. Raises
    `ModelError` if the process fails."""
    with folder_of_request(below) as folder:
        Request(folder).ask({"files": [str(file) for file in files], "seconds": seconds})
        return model_process.ask(model_process.TRY_IMAGES, folder, str(root), forks=forks)


def try_all(
    models: Sequence[ModelSpec], data: DataSpec, roots: Sequence[Path], workspace: Workspace, seconds: float
) -> Iterator[Trial]:
    """Yield lines about the models, then about the images, then about models and images that do not belong together."""
    classes: dict[str, int] = {}
    for model, count_or_error, outcome in try_models(models, roots, workspace, data=data):
        yield outcome
        if isinstance(count_or_error, int):
            classes[model.name] = count_or_error
        yield from _try_channels(model, data)
    folders: dict[Path, int] = {}
    for root, count, outcome in try_folders(data, seconds):
        yield outcome
        folders[root] = count
    if isinstance(data.calibration, TorchvisionData):
        yield _try_set(data.calibration, held_out=False)[1]
    if isinstance(data.evaluation, FolderData):
        evaluated = Evaluated(what="the evaluation folder", classes=folders[data.evaluation.path] or None)
    else:
        evaluated, more = try_evaluation(data, seconds)
        yield from more
    yield from together(classes, evaluated)


def _try_channels(model: ModelSpec, data: DataSpec) -> Iterator[Trial]:
    try:
        check_channels(data, model.input_shape[1])
    except DataError as error:
        yield Trial(what=model.name, problem=True, message=error.message, next_step=error.next_step)


def together(classes: Mapping[str, int], evaluated: Evaluated) -> Iterator[Trial]:
    """Yield a line for each model that has another number of classes than the data. `classes`: the numbers by the
    model's name."""
    evaluated_classes = evaluated.classes
    if evaluated_classes is None:
        return
    for name, count in classes.items():
        if evaluated_classes > count:
            yield Trial(
                what=name,
                problem=True,
                message=f"it answers {count} classes, {evaluated.what} has {evaluated_classes}",
                next_step="give data with the model's own classes, in their order (folders sorted by name)",
            )
        elif evaluated_classes < count:
            yield Trial(
                what=name,
                problem=False,
                message=f"it answers {count} classes, {evaluated.what} has {evaluated_classes}: these (of a folder: "
                f"sorted by name) must be the first {evaluated_classes} of the model's classes",
            )
