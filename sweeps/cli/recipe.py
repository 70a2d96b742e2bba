"""`edgesweep recipe`: runs PyTorch Mobile's performance recipe as a sweep with one named grid per step, and shows each
step's gain.

The steps are those of the recipe (https://docs.pytorch.org/tutorials/recipes/mobile_perf.html), but int8 comes after
the layout, so that the fp32 steps are adjacent.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from sweeps.cli.options import executor_option, json_option, print_json, workspace_option
from sweeps.cli.run import run_spec
from sweeps.device_facts import canonical_key
from sweeps.errors import SpecError
from sweeps.operations.sweep_plan import roots_of
from sweeps.ranking import waterfall
from sweeps.ranking.waterfall import RUNTIME
from sweeps.report.waterfall_text import render
from sweeps.spec import catalog
from sweeps.spec.model_inputs import Argument
from sweeps.spec.sweep import SweepSpec, load, validated_values
from sweeps.store.mlflow import Store
from sweeps.workspace import Workspace

_SCRIPT: dict[str, Any] = {
    "runtime": ["torchscript"],
    "backend": ["cpu"],
    "precision": ["fp32"],
    "layout": ["nchw"],
    "capture": ["script"],
    "format": ["pt"],
    "fuse": [False],
    "optimize": [False],
    "threads": [1],
    "reuse_input": [False],
}
_FUSE = {**_SCRIPT, "fuse": [True]}
_OPTIMIZE = {**_FUSE, "optimize": [True]}
_CHANNELS_LAST = {**_OPTIMIZE, "layout": ["nhwc"]}
_INT8 = {**_CHANNELS_LAST, "precision": ["int8"], "quantization": ["static_fx"], "qengine": ["auto"]}

STEPS: Mapping[str, Mapping[str, Any]] = {
    "1-eager": {**_SCRIPT, "runtime": ["eager"]},
    "2-script": _SCRIPT,
    "3-fuse": _FUSE,
    "4-optimize-for-mobile": _OPTIMIZE,
    "5-channels-last": _CHANNELS_LAST,
    "6-int8": _INT8,
    "7-input-reuse": {**_INT8, "reuse_input": [True]},
}
"""Grid of each step, in order. Each step adds one optimization to the previous step."""

_OTHERS: dict[str, Any] = {
    "backend": ["cpu"],
    "precision": ["fp32", "int8"],
    "quantization": ["static"],
    "threads": [1],
}
_LAYOUTS = ("nchw", "nhwc")
"""Layouts of a runtime whose entry lists none."""

_SYNTHETIC = {
    "calibration": {"source": "synthetic", "images": 32, "seed": 1},
    "evaluation": {"source": "synthetic", "images": 100, "seed": 2},
}


@click.command()
@click.argument("model")
@click.option("--weights", help="As in a sweep file: pretrained (the default), random, demo, or a checkpoint's path.")
@click.option("--input-shape", help="Batch, channels, height, width; 1,3,224,224 if left out.")
@click.option("--argument", "arguments", multiple=True, metavar="KEY=VALUE", help="An argument of the constructor.")
@click.option("--seed", type=click.IntRange(min=0), help="For random and demo weights.")
@click.option(
    "--preset", type=click.Choice(["quick", "recipe"]), help="Preset of the measurement protocol; by default quick."
)
@click.option("--rounds", type=click.IntRange(1, 100), help="New processes of each step: more give narrower intervals.")
@click.option("--runtimes", is_flag=True, help="Compare with the best of each other runtime, too.")
@click.option("--device", default="local", show_default=True, help="Where to measure.")
@workspace_option
@executor_option
@click.option("--retry-failed", is_flag=True, help="Try failed steps again.")
@json_option
def recipe(root: Path, executor: str, retry_failed: bool, as_json: bool, **options: Any) -> None:
    """Run PyTorch Mobile's performance recipe step by step: what does each step gain?

    \b
    MODEL is torchvision's name, module:function, or a sweep file (its models, data and protocol).
    The steps: eager, script, fuse, optimize_for_mobile, channels_last, int8, reuse of the input.
    Without a sweep file accuracy is agreement with the eager model on synthetic images
    (with demo weights: top-1 on digits). --runtimes needs the extra `runtimes`.
    After an interruption, run the same command again to continue.
    Example: edgesweep recipe mobilenet_v2 --weights random
    """
    spec, roots = recipe_spec(**options)
    workspace = Workspace.open(root)
    results = run_spec(spec, roots, workspace, executor, retry_failed)
    waterfalls = waterfall.waterfalls(results)
    document = waterfall.recipe_document(spec.name, waterfalls)
    file = workspace.root / "recipes" / f"{spec.name}.json"
    text = json.dumps(document, indent=2, allow_nan=False, ensure_ascii=False)
    file.parent.mkdir(exist_ok=True)
    file.write_text(text + "\n", encoding="utf-8")
    Store(workspace.tracking_uri, workspace.mlflow_artifacts).attach(spec.name, {"waterfall.json": text})
    if as_json:
        print_json(document)
        return
    for entry in waterfalls:
        click.echo(render(spec.name, entry) + "\n")
    click.echo(f"Stored as {file}", err=True)


def recipe_spec(
    model: str,
    *,
    weights: str | None,
    input_shape: str | None,
    arguments: Sequence[str],
    seed: int | None,
    preset: str | None,
    rounds: int | None,
    device: str,
    runtimes: bool = False,
) -> tuple[SweepSpec, tuple[Path, ...]]:
    """Return the recipe of `model` as a sweep, and the folders of the user's own modules. An option of `None` means its
    default.

    Raises `SpecError`.
    """
    protocol = {name: value for name, value in (("preset", preset), ("rounds", rounds)) if value is not None}
    grids = {**STEPS, **(_of_others() if runtimes else {})}
    document: dict[str, Any] = {"grids": [{"name": name, **axes} for name, axes in grids.items()], "devices": [device]}
    if Path(model).suffix in (".yaml", ".yml"):
        model_options = {"--weights": weights, "--input-shape": input_shape, "--argument": arguments, "--seed": seed}
        if wrong := [option for option, value in model_options.items() if value not in (None, ())]:
            raise SpecError(f"{', '.join(wrong)}: not allowed with a sweep file", f"write it into {model}")
        sweep = load(Path(model))
        file_values = sweep.model_dump(mode="json", include={"models", "data", "protocol", "objective"})
        document |= file_values | {"name": _name(sweep.name), "protocol": file_values["protocol"] | protocol}
        return _validated(document), roots_of(Path(model))
    network: dict[str, Any] = {"source": model, "arguments": dict(map(_argument, arguments))}
    network |= {name: value for name, value in (("weights", weights), ("seed", seed)) if value is not None}
    if input_shape is not None:
        network["input_shape"] = _shape(input_shape)
    # Networks with equal names but other sources or weights are different recipes.
    digest = canonical_key({"network": network, "weights": weights})[:6]
    document |= {"name": _name(f"{model.rpartition(':')[2]}-{digest}"), "models": [network], "protocol": protocol}
    if weights != "demo":
        # Synthetic images have no labels, so the accuracy drop cannot be constrained.
        document |= {"data": _SYNTHETIC, "objective": {"constraints": []}}
    return _validated(document), (Path.cwd(),)


def _of_others() -> dict[str, Mapping[str, Any]]:
    """Return one grid of CPU builds for each other runtime; the best build of each grid is compared with PyTorch
    Mobile's best step."""
    runtimes = [
        runtime for runtime in catalog.runtimes().values() if runtime.name != "torchscript" and runtime.backend("cpu")
    ]
    shipped = sorted((runtime for runtime in runtimes if not runtime.unshippable), key=lambda runtime: runtime.name)
    return {
        f"{RUNTIME}{runtime.name}": {
            "runtime": [runtime.name],
            "layout": list(runtime.values.get("layout", _LAYOUTS)),
            **_OTHERS,
        }
        for runtime in shipped
    }


def _validated(document: dict[str, Any]) -> SweepSpec:
    return validated_values(document, Path.cwd(), "correct the arguments; `edgesweep recipe --help` has an example")


def _name(model: str) -> str:
    return f"recipe-{model[-57:]}"


def _argument(text: str) -> tuple[str, Argument]:
    """Parse `key=value` into key and value; the value is read as JSON (10, 0.35, true) if possible, otherwise as
    text."""
    key, equals, value = text.partition("=")
    if not (key.isidentifier() and equals):
        raise SpecError(f"--argument {text!r} is not KEY=VALUE", "write for instance --argument num_classes=10")
    try:
        parsed = json.loads(value)
    except ValueError:
        return key, value
    return key, parsed if isinstance(parsed, bool | int | float | str | list) else value


def _shape(text: str) -> list[int]:
    try:
        return [int(word) for word in text.split(",")]
    except ValueError:
        raise SpecError(
            f"--input-shape {text!r} is not four whole numbers", "write for instance --input-shape 1,3,224,224"
        ) from None
