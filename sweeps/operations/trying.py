"""Tries the models and images of a run before its first build."""

from collections.abc import Callable, Sequence
from pathlib import Path

from sweeps.errors import DataError, ModelError
from sweeps.launching.live import LiveFile
from sweeps.report.progress import RunProgress
from sweeps.spec.inputs import DataSpec, ModelSpec
from sweeps.workspace import Workspace
from workers.models.trial import RUN_SILENT_S, Tried, together, try_evaluation, try_models

RUN_IMAGES_S = 2.0
"""For decoding: what is whole at both ends is decoded once more before its first use."""


def unusable(
    models: Sequence[ModelSpec],
    data: DataSpec,
    roots: Sequence[Path],
    workspace: Workspace,
    progress: RunProgress,
    live: LiveFile,
    stop: Callable[[], bool],
) -> dict[str, ModelError | DataError]:
    """Why models cannot be used, by name; each is told of. `stop`: asked between two of them, and then the others are
    not tried."""
    found: dict[str, ModelError | DataError] = {}
    classes: dict[str, int] = {}
    for model in models:
        if stop():
            break
        _tell(model.name, progress, live)
        for _, answer, _ in try_models([model], roots, workspace, RUN_SILENT_S, workspace.temporary):
            if isinstance(answer, ModelError):
                found[model.name] = answer
            else:
                classes[model.name] = answer
    if classes and not stop():
        _tell("the evaluation images", progress, live)
        evaluated, tried = try_evaluation(data, RUN_IMAGES_S, workspace.temporary)
        if problems := [one for one in tried if one.problem]:
            found |= dict.fromkeys(classes, _as_error(problems))
        else:
            fitting = list(together(classes, evaluated))
            found |= {one.what: _as_error([one]) for one in fitting if one.problem}
            untrained = {model.name for model in models if model.weights == "random"}
            for one in fitting:
                if not one.problem and one.what not in untrained:
                    progress.note(one.text)
    for name, error in found.items():
        progress.note(f"{name} cannot be used: {error.one_line}")
    return found


def _tell(what: str, progress: RunProgress, live: LiveFile) -> None:
    progress.step(f"Trying {what}", 0, None, "")
    live.step(f"trying {what}")


def _as_error(problems: Sequence[Tried]) -> DataError:
    first, *others = problems
    return DataError(first.message + (f"; {len(others)} more cannot be used" if others else ""), first.next_step)
