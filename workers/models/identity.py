"""A model's identity in keys: the origin of its code and weights. Torch-free, except for pretrained weights."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from sweeps.device_facts import canonical_key
from sweeps.errors import ModelError
from sweeps.planning.keys import ModelIdentity
from sweeps.spec.model_inputs import ModelSpec
from workers.models import image_sets as datasets
from workers.models.model_code import RECORDED_IDS, OwnCode, check_torchvision_name, own_code


def identify(model: ModelSpec, roots: Sequence[Path] = ()) -> ModelIdentity:
    """Return the origin of the model's code and weights, for build keys. Loads, trains and downloads nothing.

    The user's own modules are searched in `roots`, the current folder and `sys.path`. Raises `ModelError`.
    """
    code = own_code(model.source, roots) if ":" in model.source else None
    if code is None:
        check_torchvision_name(model.source)
    return ModelIdentity(source=source_id_of(model, code), weights_id=weights_id_of(model))


def source_id_of(model: ModelSpec, code: OwnCode | None) -> str:
    return f"torchvision:{model.source}" if code is None else f"{model.source}@{code.sha256}"


def weights_id_of(model: ModelSpec) -> str:
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
                    digest = hashlib.file_digest(file, "sha256").hexdigest()
            except OSError as error:
                raise ModelError(
                    f"the checkpoint {path} cannot be read: {error.strerror}", "correct weights: in the sweep file"
                ) from error
            return digest if model.weights_key is None else f"{digest}#{model.weights_key}"


def sha256_of(module: str) -> str:
    return hashlib.sha256(Path(__file__).with_name(module).read_bytes()).hexdigest()


def _pretrained_id(source: str) -> str:
    """Return the name of torchvision's newest weights for a model, for example `MobileNet_V2_Weights.IMAGENET1K_V2`.
    Only torchvision itself knows it."""
    import torchvision

    if ":" in source:
        raise ModelError(f"{source} has no pretrained weights", "give weights: path, or weights: random")
    try:
        return str(torchvision.models.get_model_weights(source).DEFAULT)
    except ValueError:
        raise ModelError(f"torchvision has no weights of {source}", "give weights: path, or weights: random") from None
