"""The trial of a run's models and images before the first build."""

from collections.abc import Callable, Sequence
from pathlib import Path

from sweeps.errors import DataError, ModelError
from sweeps.launching.live_report import LiveFile
from sweeps.report.progress import RunProgress
from sweeps.spec.model_inputs import DataSpec, ModelSpec
from sweeps.workspace import Workspace
from workers.models.model_check import RUN_SILENT_S, Trial, together, try_evaluation, try_models

RUN_IMAGES_S = 2.0
"""Time limit for decoding images in the trial, in seconds. Images beyond it are only checked for a whole beginning and
end; each image is decoded again before its first use."""


def unusable(
    models: Sequence[ModelSpec],
    data: DataSpec,
    roots: Sequence[Path],
    workspace: Workspace,
    progress: RunProgress,
    live: LiveFile,
    stop: Callable[[], bool],
) -> dict[str, ModelError | DataError]:
    """Try the models and the evaluation images; return the errors of models that cannot be used, by model name. Each
    error is also shown. `stop`: called before each model; once it returns true, no further model is tried."""
    errors: dict[str, ModelError | DataError] = {}
    classes: dict[str, int] = {}
    for model in models:
        if stop():
            break
        _tell(model.name, progress, live)
        for _, answer, _ in try_models([model], roots, workspace, RUN_SILENT_S, workspace.temporary):
            if isinstance(answer, ModelError):
                errors[model.name] = answer
            else:
                classes[model.name] = answer
    if classes and not stop():
        _tell("the evaluation images", progress, live)
        evaluated, trials = try_evaluation(data, RUN_IMAGES_S, workspace.temporary)
        if problems := [trial for trial in trials if trial.problem]:
            errors |= dict.fromkeys(classes, _as_error(problems))
        else:
            fitting = list(together(classes, evaluated))
            errors |= {trial.what: _as_error([trial]) for trial in fitting if trial.problem}
            untrained = {model.name for model in models if model.weights == "random"}
            for trial in fitting:
                if not trial.problem and trial.what not in untrained:
                    progress.note(trial.text)
    for name, error in errors.items():
        progress.note(f"{name} cannot be used: {error.one_line}")
    return errors


def _tell(subject: str, progress: RunProgress, live: LiveFile) -> None:
    progress.step(f"Trying {subject}", 0, None, "")
    live.step(f"trying {subject}")


def _as_error(problems: Sequence[Trial]) -> DataError:
    first, *rest = problems
    return DataError(first.message + (f"; {len(rest)} more cannot be used" if rest else ""), first.next_step)
