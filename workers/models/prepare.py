"""Prepares models: loads, initialises or trains weights, loads data, and computes the fp32 eager model's outputs."""

import hashlib
import io
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch

from sweeps.device_facts import canonical_key
from sweeps.errors import DataError, ModelError
from sweeps.spec.inputs import DataSpec, ModelSpec
from sweeps.workspace import Workspace
from workers.models import data as datasets
from workers.models import demo_training, weights
from workers.models.code import construct, own_code
from workers.models.dataset import Dataset
from workers.models.eager import eager_logits, load_eager
from workers.models.identity import sha256_of, source_id_of, weights_id_of
from workers.models.package import BuildInputs, Images, Logits, ModelPackage
from workers.models.prepared import PreparedModel

PreparationProgress = Callable[[str, float | None], None]
"""Called with the present step and its finished share (0 to 1; `None` if unknown)."""

VERIFICATION_IMAGES = 256
VERIFICATION_IMAGES_UNLABELLED = 8

_INPUT_CONVENTION = {"transform_input": True}
"""torchvision's GoogLeNet and Inception weights were trained on another input range; this argument converts it."""


def package(
    model: ModelSpec, workspace: Workspace, progress: PreparationProgress, roots: Sequence[Path] = ()
) -> ModelPackage:
    """The model with its weights, ready to be sent to another machine; trained or downloaded if necessary.

    Raises `ModelError` if code or weights cannot be loaded, do not fit each other, or are not a classifier.
    """
    code = own_code(model.source, roots) if ":" in model.source else None
    source, weights_id = source_id_of(model, code), weights_id_of(model)
    files = code.files if code else {}
    arguments = dict(model.arguments)
    if model.weights == "pretrained" and model.source in ("googlenet", "inception_v3"):
        arguments = {**_INPUT_CONVENTION, **arguments}
    progress(model.name, None)
    network = _constructed(model, arguments, files)
    match model.weights:
        case "pretrained":
            weights.fit(network, weights.download_pretrained(model.source), f"torchvision's {weights_id}")
        case "random" | "demo":
            identity = {
                "weights": weights_id,
                "source": source,
                "arguments": arguments,
                "shape": list(model.input_shape),
            }
            _settle_or_train(network, model, workspace, identity, progress)
        case path:
            weights.fit(network, weights.read_checkpoint(Path(path)), path)
    network.eval()
    weights.check(network, model.input_shape, model.name, random=model.weights == "random")
    return ModelPackage(
        name=model.name,
        source=model.source,
        arguments=arguments,
        files=files,
        state=_serialized(network),
        weights_id=weights_id,
        model_source=source,
        input_shape=model.input_shape,
    )


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
    packed = package(model, workspace, progress, roots)
    calibration_manifest, evaluation_manifest = datasets.manifests(data)
    calibration, evaluation = datasets.load(data, model.input_shape)
    logits = _reference_logits(packed, evaluation.images, evaluation_manifest.id, workspace, progress)
    _check_reference(packed, logits, evaluation)
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
    )


def _constructed(
    model: ModelSpec, arguments: Mapping[str, str | int | float | bool], files: Mapping[str, bytes]
) -> torch.nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(model.seed)
        return construct(model.source, arguments, files).float()


def _settle_or_train(
    network: torch.nn.Module,
    model: ModelSpec,
    workspace: Workspace,
    identity: Mapping[str, object],
    progress: PreparationProgress,
) -> None:
    path = workspace.weights / f"{canonical_key({**identity, 'torch': torch.__version__})}.pt"
    if path.exists():
        try:
            weights.fit(network, weights.read_checkpoint(path), str(path))
        except ModelError:
            path.unlink()  # damaged: create it again
        else:
            return
    if model.weights == "random":
        weights.settle(network, model.input_shape, model.seed)
    else:
        classes = weights.check(network.eval(), model.input_shape, model.name, random=False)
        training, held_out = datasets.digits_for_training(model.input_shape)
        if classes != len(training.classes or ()):
            raise ModelError(
                f"{model.name} has {classes} classes, the demo's digits have 10",
                "give arguments: {num_classes: 10}",
            )
        title = f"{model.name} (training on digits)"
        demo_training.train(network, training, held_out, model.seed, lambda share: progress(title, share))
    _write_whole(path, _serialized(network))


def _serialized(network: torch.nn.Module) -> bytes:
    buffer = io.BytesIO()
    torch.save(network.state_dict(), buffer)
    return buffer.getvalue()


def _reference_logits(
    packed: ModelPackage, images: Images, evaluation_id: str, workspace: Workspace, progress: PreparationProgress
) -> Logits:
    key = canonical_key(
        {
            "weights": packed.weights_id,
            "source": packed.model_source,
            "arguments": dict(packed.arguments),
            "shape": list(packed.input_shape),
            "evaluation": evaluation_id,
            # The id of a downloaded set does not change when its files are replaced.
            "pixels": hashlib.sha256(np.ascontiguousarray(images).data).hexdigest(),
            "torch": torch.__version__,
            # The id of random weights does not cover the code of `weights.settle`.
            "code": [sha256_of("images.py"), sha256_of("weights.py")],
        }
    )
    path = workspace.references / f"{key}.npy"
    if path.exists():
        try:
            logits: Logits = np.load(path, allow_pickle=False)
        except (OSError, ValueError):
            path.unlink()  # damaged: compute it again
        else:
            if len(logits) == len(images):
                return logits
    title = f"{packed.name} (outputs of the fp32 eager model)"
    logits = eager_logits(load_eager(packed), images, packed.input_shape[0], lambda share: progress(title, share))
    buffer = io.BytesIO()
    np.save(buffer, logits, allow_pickle=False)
    _write_whole(path, buffer.getvalue())
    return logits


def _check_reference(packed: ModelPackage, logits: Logits, evaluation: Dataset) -> None:
    classes = logits.shape[1]
    if evaluation.labels is not None and evaluation.labels.max() >= classes:
        raise DataError(
            f"the evaluation data has the class {evaluation.labels.max()}, {packed.name} has only {classes} classes",
            "give data with the model's own classes, in their order (folders sorted by name)",
        )
    if not np.isfinite(logits).all():
        raise ModelError(f"{packed.name} returns NaN or infinity for evaluation images", "check its weights")
    if len(logits) > 1 and not weights.varies(torch.from_numpy(logits)):
        raise ModelError(
            f"{packed.name} has the same output for every evaluation image, so nothing can be compared",
            "check its weights and the data's mean and std",
        )


def _write_whole(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".part-", delete=False) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    Path(file.name).replace(path)
