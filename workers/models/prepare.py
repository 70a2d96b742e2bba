"""Prepares models and their data. Runs none of the user's code: `model_process` does, in a separate process."""

import hashlib
import io
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

import numpy as np

from sweeps.device_facts import canonical_key
from sweeps.errors import DataError, ModelError
from sweeps.ranking.reference_causes import Answers, Inputs
from sweeps.ranking.reference_doubts import Doubt, doubts
from sweeps.spec.folder_levels import evaluated_levels
from sweeps.spec.model_inputs import DataSpec, ModelSpec
from sweeps.whole_file import write_whole
from sweeps.workspace import Workspace
from workers.models import image_sets as datasets
from workers.models import model_process
from workers.models.dataset import Dataset
from workers.models.identity import sha256_of, source_id_of, weights_id_of
from workers.models.model_code import OwnCode, check_not_hidden, own_code
from workers.models.package import BuildInputs, Images, Logits, varies
from workers.models.prepared_model import PreparationProgress, PreparedModel

VERIFICATION_IMAGES = 256
VERIFICATION_IMAGES_UNLABELLED = 8


def prepare(
    model: ModelSpec,
    data: DataSpec,
    workspace: Workspace,
    versions: Mapping[str, str],
    progress: PreparationProgress,
    roots: Sequence[Path] = (),
) -> PreparedModel:
    """Load the model and its data, and compute the outputs of the fp32 eager model (once per workspace).

    Raises `ModelError` and `DataError`.
    """
    code = own_code(model.source, roots) if ":" in model.source else None
    if code is not None:
        check_not_hidden(model.source, code, roots)
    calibration_manifest, evaluation_manifest = datasets.manifests(data)
    calibration, evaluation = datasets.load(data, model.input_shape)
    known = workspace.references / f"{_reference_key(model, code, evaluation.images, evaluation_manifest.id)}.npy"
    logits = _read(known, len(evaluation))
    packed, computed = model_process.make(
        model, code, workspace, progress, evaluation.images if logits is None else None
    )
    if logits is None:
        assert computed is not None
        logits = computed
        buffer = io.BytesIO()
        np.save(buffer, logits, allow_pickle=False)
        known.parent.mkdir(parents=True, exist_ok=True)
        write_whole(known, buffer.getvalue(), durable=True)
    _check_reference(packed.name, logits, evaluation)
    labels = evaluation.labels
    count = VERIFICATION_IMAGES_UNLABELLED if labels is None else VERIFICATION_IMAGES
    return PreparedModel(
        build_inputs=BuildInputs(
            package=packed,
            calibration=calibration.images,
            calibration_id=calibration_manifest.id,
            no_calibration=calibration.unusable,
            verification=evaluation.images[:count],
            verification_labels=None if labels is None else labels[:count],
            verification_logits=logits[:count],
            versions=dict(versions),
        ),
        calibration_manifest=datasets.as_loaded(data.calibration, calibration_manifest, calibration),
        evaluation_manifest=datasets.as_loaded(data.evaluation, evaluation_manifest, evaluation),
        evaluation=evaluation,
        evaluation_logits=logits,
        trained=model.weights != "random",
        doubts=() if model.weights == "random" else _doubts(data, logits, evaluation),
    )


def _doubts(data: DataSpec, logits: Logits, evaluation: Dataset) -> tuple[Doubt, ...]:
    if evaluation.labels is None:
        return ()
    answers = Answers(
        labels=evaluation.labels.tolist(),
        predicted=logits.argmax(axis=1).tolist(),
        outputs=logits.shape[1],
        classes=evaluation.classes or (),
    )
    pixels = evaluation.images
    return doubts(answers, evaluated_levels(data), Inputs(low=float(pixels.min()), high=float(pixels.max())))


def _reference_key(model: ModelSpec, code: OwnCode | None, images: Images, evaluation_id: str) -> str:
    return canonical_key(
        {
            "weights": weights_id_of(model),
            "source": source_id_of(model, code),
            "arguments": dict(model.arguments),
            "shape": list(model.input_shape),
            "evaluation": evaluation_id,
            # The id of a downloaded set does not change when its files are replaced.
            "pixels": hashlib.sha256(np.ascontiguousarray(images).data).hexdigest(),
            "torch": version("torch"),
            # The id of random weights does not cover the code of `weights.settle`.
            "code": [sha256_of("images.py"), sha256_of("weights.py")],
        }
    )


def _read(path: Path, count: int) -> Logits | None:
    """Return the logits of an earlier run; `None` if there are none for `count` images."""
    if not path.exists():
        return None
    try:
        logits: Logits = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        path.unlink(missing_ok=True)  # damaged: compute it again
        return None
    return logits if len(logits) == count else None


def _check_reference(name: str, logits: Logits, evaluation: Dataset) -> None:
    classes = logits.shape[1]
    if evaluation.labels is not None and evaluation.labels.max() >= classes:
        raise DataError(
            f"the evaluation data has the class {evaluation.labels.max()}, {name} has only {classes} classes",
            "give data with the model's own classes, in their order (folders sorted by name)",
        )
    if not np.isfinite(logits).all():
        raise ModelError(f"{name} returns NaN or infinity for evaluation images", "check its weights")
    if len(logits) > 1 and not varies(logits):
        raise ModelError(
            f"{name} has the same output for every evaluation image, so nothing can be compared",
            "check its weights and the data's mean and std",
        )
