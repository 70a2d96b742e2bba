"""Models: what they are (torch-free, for plans), their weights made ready, and loading them on any machine."""

import hashlib
import io
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sweeps.errors import DataError, ModelError
from sweeps.planning.plan import ModelIdentity
from sweeps.records import canonical_key
from sweeps.spec.sweep import DataSpec, ModelSpec
from sweeps.workspace import Workspace
from workers.models import data as datasets
from workers.models.code import RECORDED_IDS, OwnCode, construct, own_code
from workers.models.package import BuildInputs, Images, Logits, ModelPackage

# A plan needs nothing but `identify`; torch takes seconds to import, so every function here imports it for itself.
if TYPE_CHECKING:
    import torch

Progress = Callable[[str, float | None], None]
"""What is being done, and the share of it that is done (0 to 1; `None` where it can not be told)."""

VERIFICATION_IMAGES = 256
VERIFICATION_IMAGES_UNLABELLED = 8

_INPUT_CONVENTION = {"transform_input": True}
"""torchvision's GoogLeNet and Inception weights were trained on inputs of another range; this argument converts."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PreparedModel:
    """What building and judging all variants of one model takes."""

    build_inputs: BuildInputs
    calibration_manifest: datasets.DataManifest
    evaluation_manifest: datasets.DataManifest
    evaluation: datasets.Dataset
    evaluation_logits: Logits
    """Of the fp32 eager model, (N, classes)."""


def identify(model: ModelSpec, roots: Sequence[Path] = ()) -> ModelIdentity:
    """Where the model's code and weights come from, for build keys. Loads, trains and downloads nothing.

    The user's own modules are looked for in `roots`, the current folder and `sys.path`. Raises `ModelError`.
    """
    code = own_code(model.source, roots) if ":" in model.source else None
    return ModelIdentity(source=_source_id(model, code), weights_id=_weights_id(model))


def package(model: ModelSpec, workspace: Workspace, progress: Progress, roots: Sequence[Path] = ()) -> ModelPackage:
    """The model with its weights, ready to cross to another machine; trained or downloaded where need be.

    Raises `ModelError` where code or weights can not be loaded, do not fit each other, or do not make a classifier.
    """
    from workers.models import weights

    code = own_code(model.source, roots) if ":" in model.source else None
    source, weights_id = _source_id(model, code), _weights_id(model)
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


def load_eager(package: ModelPackage) -> "torch.nn.Module":
    """The fp32 model with its weights, in eval mode, without gradients, on any machine.

    Raises `ModelError` where the model can not be built or the weights do not fit it.
    """
    import torch

    from workers.models import weights

    model = construct(package.source, package.arguments, package.files).float()
    state = torch.load(io.BytesIO(package.state), map_location="cpu", weights_only=True)
    weights.fit(model, state, f"the package of {package.name}")
    return model.requires_grad_(False).eval()


def eager_logits(
    module: "torch.nn.Module", images: Images, batch: int = 1, progress: Callable[[float], None] | None = None
) -> Logits:
    """(N, classes) float32: what `module` answers to (N, C, H, W), `batch` images at a time."""
    import torch

    from workers.models.one_thread import one_thread

    parts: list[Logits] = []
    with torch.no_grad(), one_thread():
        for start in range(0, len(images), batch):
            part = images[start : start + batch]
            # Filled up with its last image: some models take one batch size only.
            filled = np.concatenate([part, np.repeat(part[-1:], batch - len(part), axis=0)])
            parts.append(module(torch.from_numpy(filled)).float().numpy()[: len(part)])
            if progress is not None:
                progress((start + len(part)) / len(images))
    return np.concatenate(parts)


def prepare(
    model: ModelSpec,
    data: DataSpec,
    workspace: Workspace,
    versions: Mapping[str, str],
    progress: Progress,
    roots: Sequence[Path] = (),
) -> PreparedModel:
    """Load the model and its data, and compute the answers of the fp32 eager model (once per workspace).

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


def _source_id(model: ModelSpec, code: OwnCode | None) -> str:
    return f"torchvision:{model.source}" if code is None else f"{model.source}@{code.sha256}"


def _weights_id(model: ModelSpec) -> str:
    match model.weights:
        case "random":
            return f"random:{model.seed}"
        case "demo":
            made_from = {
                "trainer": RECORDED_IDS["workers.models.demo_training"],
                "images": datasets.digits_training_id(),
                "seed": model.seed,
            }
            return f"demo:{canonical_key(made_from)}"
        case "pretrained":
            return _pretrained_id(model.source)
        case path:
            try:
                with Path(path).open("rb") as file:
                    return hashlib.file_digest(file, "sha256").hexdigest()
            except OSError as error:
                raise ModelError(
                    f"the checkpoint {path} can not be read: {error.strerror}", "correct weights: in the sweep file"
                ) from error


def _sha256_of(module: str) -> str:
    return hashlib.sha256(Path(__file__).with_name(module).read_bytes()).hexdigest()


def _pretrained_id(source: str) -> str:
    """`MobileNet_V2_Weights.IMAGENET1K_V2`. The one identity that needs torchvision, which knows the newest name."""
    import torchvision

    if ":" in source:
        raise ModelError(f"{source} has no pretrained weights", "give weights: path, or weights: random")
    try:
        return str(torchvision.models.get_model_weights(source).DEFAULT)
    except ValueError:
        construct(source, {}, {})  # raises with the names that come close
        raise ModelError(f"torchvision has no weights of {source}", "give weights: path, or weights: random") from None


def _constructed(
    model: ModelSpec, arguments: Mapping[str, str | int | float | bool], files: Mapping[str, bytes]
) -> "torch.nn.Module":
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(model.seed)
        return construct(model.source, arguments, files).float()


def _settle_or_train(
    network: "torch.nn.Module",
    model: ModelSpec,
    workspace: Workspace,
    identity: Mapping[str, object],
    progress: Progress,
) -> None:
    import torch

    from workers.models import demo_training, weights

    path = workspace.weights / f"{canonical_key({**identity, 'torch': torch.__version__})}.pt"
    if path.exists():
        try:
            weights.fit(network, weights.read_checkpoint(path), str(path))
        except ModelError:
            path.unlink()  # damaged: made anew
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


def _serialized(network: "torch.nn.Module") -> bytes:
    import torch

    buffer = io.BytesIO()
    torch.save(network.state_dict(), buffer)
    return buffer.getvalue()


def _reference_logits(
    packed: ModelPackage, images: Images, evaluation_id: str, workspace: Workspace, progress: Progress
) -> Logits:
    import torch

    key = canonical_key(
        {
            "weights": packed.weights_id,
            "source": packed.model_source,
            "arguments": dict(packed.arguments),
            "shape": list(packed.input_shape),
            "evaluation": evaluation_id,
            # The id of a downloaded set does not tell when its files were replaced.
            "pixels": hashlib.sha256(np.ascontiguousarray(images).data).hexdigest(),
            "torch": torch.__version__,
            # The id of random weights does not tell what settled them.
            "code": [_sha256_of("images.py"), _sha256_of("weights.py")],
        }
    )
    path = workspace.references / f"{key}.npy"
    if path.exists():
        try:
            logits: Logits = np.load(path, allow_pickle=False)
        except (OSError, ValueError):
            path.unlink()  # damaged: computed anew
        else:
            if len(logits) == len(images):
                return logits
    title = f"{packed.name} (answers of the fp32 eager model)"
    logits = eager_logits(load_eager(packed), images, packed.input_shape[0], lambda share: progress(title, share))
    buffer = io.BytesIO()
    np.save(buffer, logits, allow_pickle=False)
    _write_whole(path, buffer.getvalue())
    return logits


def _check_reference(packed: ModelPackage, logits: Logits, evaluation: datasets.Dataset) -> None:
    import torch

    from workers.models import weights

    classes = logits.shape[1]
    if evaluation.labels is not None and evaluation.labels.max() >= classes:
        raise DataError(
            f"the evaluation data has the class {evaluation.labels.max()}, {packed.name} has only {classes} classes",
            "give data with the model's own classes, in their order (folders sorted by name)",
        )
    if not np.isfinite(logits).all():
        raise ModelError(f"{packed.name} answers the evaluation images with NaN or infinity", "check its weights")
    if len(logits) > 1 and not weights.varies(torch.from_numpy(logits)):
        raise ModelError(
            f"{packed.name} gives every evaluation image the same answer, so nothing can be compared",
            "check its weights and the data's mean and std",
        )


def _write_whole(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".part-", delete=False) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    Path(file.name).replace(path)
