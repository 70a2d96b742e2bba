"""Makes a model: runs its code, loads, settles or trains its weights, computes the fp32 eager model's outputs.

The user's code runs here, so this module is called only in a separate process (`workers.models.model_process`).
"""

import io
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch

from sweeps.device_facts import canonical_key
from sweeps.errors import ModelError
from sweeps.spec.model_inputs import WEIGHTS, Argument, ModelSpec
from sweeps.whole_file import write_whole
from sweeps.workspace import Workspace
from workers.models import checkpoint, checkpoint_file, demo_training, weights
from workers.models import image_sets as datasets
from workers.models.eager_model import eager_logits, load_eager
from workers.models.identity import source_id_of, weights_id_of
from workers.models.model_code import OwnCode, construct, own_code
from workers.models.normal_form import overwrites_input
from workers.models.package import Images, Logits, ModelPackage
from workers.models.prepared_model import PreparationProgress
from workers.models.repeats import check_repeats

_INPUT_CONVENTION = {"transform_input": True}
"""torchvision's GoogLeNet and Inception weights were trained on another input range; this argument converts it."""
_AWAKE_S = 5.0


def package(
    model: ModelSpec, workspace: Workspace, progress: PreparationProgress, roots: Sequence[Path] = ()
) -> ModelPackage:
    """Return the model with its weights, ready to be sent to another machine; trained or downloaded if necessary.

    Raises `ModelError` if code or weights cannot be loaded, do not fit each other, or are not a classifier.
    """
    return packed(model, own_code(model.source, roots) if ":" in model.source else None, workspace, progress)


def packed(model: ModelSpec, code: OwnCode | None, workspace: Workspace, progress: PreparationProgress) -> ModelPackage:
    """Return the model's package as `package` does, from code that was found before."""
    source, weights_id = source_id_of(model, code), weights_id_of(model)
    files = code.files if code else {}
    arguments = _arguments(model)
    progress(model.name, None)
    network = _constructed(model, arguments, files)
    weights_text = ""
    match model.weights:
        case "pretrained":
            with _awake(lambda: progress(f"{model.name} (torchvision's weights)", None)):
                state = weights.download_pretrained(model.source)
            weights.fit(network, state, f"torchvision's {weights_id}")
        case "random" | "demo":
            identity = {
                "weights": weights_id,
                "source": source,
                "arguments": arguments,
                "shape": list(model.input_shape),
            }
            _settle_or_train(network, model, workspace, identity, progress)
        case path:
            weights_text = checkpoint.load(network, Path(path), model.weights_key)
    network.eval()
    weights.check(network, model.input_shape, model.name, random=model.weights == "random")
    check_repeats(network, model.input_shape, model.name)
    return ModelPackage(
        name=model.name,
        source=model.source,
        arguments=arguments,
        files=files,
        state=_serialized(network),
        weights_id=weights_id,
        weights_text=weights_text,
        model_source=source,
        input_shape=model.input_shape,
        overwrites_input=overwrites_input(network, model.input_shape),
    )


def constructed(model: ModelSpec, code: OwnCode | None) -> tuple[torch.nn.Module, str]:
    """Return the network with the weights of its checkpoint, and the changes made to load them, for people.

    Nothing is trained, settled or downloaded. Raises `ModelError`.
    """
    network = _constructed(model, _arguments(model), code.files if code else {})
    text = "" if model.weights in WEIGHTS else checkpoint.load(network, Path(model.weights), model.weights_key)
    return network.eval(), text


def _arguments(model: ModelSpec) -> dict[str, Argument]:
    own = model.weights == "pretrained" and model.source in ("googlenet", "inception_v3")
    return {**(_INPUT_CONVENTION if own else {}), **model.arguments}


@contextmanager
def _awake(tell: Callable[[], None]) -> Iterator[None]:
    """Call `tell` every 5 s until the block ends: a silent download would be taken for an endless loop."""
    ended = threading.Event()

    def repeat() -> None:
        while not ended.wait(_AWAKE_S):
            tell()

    tell()
    thread = threading.Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _constructed(model: ModelSpec, arguments: Mapping[str, Argument], files: Mapping[str, bytes]) -> torch.nn.Module:
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
            weights.fit(network, checkpoint_file.read(path), str(path))
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
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, _serialized(network), durable=True)


def _serialized(network: torch.nn.Module) -> bytes:
    buffer = io.BytesIO()
    torch.save(network.state_dict(), buffer)
    return buffer.getvalue()


def reference_logits(packed: ModelPackage, images: Images, progress: PreparationProgress) -> Logits:
    """Return the logits of the fp32 eager model for `images`."""
    title = f"{packed.name} (outputs of the fp32 eager model)"
    return eager_logits(load_eager(packed), images, packed.input_shape[0], lambda share: progress(title, share))
