"""The sweep file: what is accepted, and what is refused with which words."""

import json
import re
import time
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

import sweeps
from sweeps.errors import SpecError
from sweeps.metrics import METRICS
from sweeps.protocol.presets import PRESETS
from sweeps.spec import catalog
from sweeps.spec.grid import GridSpec
from sweeps.spec.model_inputs import DataSpec, DigitsData, FolderData, ModelSpec, TorchvisionData
from sweeps.spec.objective import ConstraintSpec, ObjectiveSpec
from sweeps.spec.protocol import GateSpec, ProtocolSpec
from sweeps.spec.sweep import SweepSpec, json_schema, load
from sweeps.spec.yaml_source import MAX_BYTES, read_yaml

SPECS = sorted((Path(sweeps.__file__).parent / "specs").glob("*.yaml"))

SMALL = """\
name: small
models:
  - source: mobilenet_v2
    weights: random
grids:
  - precision: [fp32]
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "sweep.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def refused(folder: Path, text: str) -> list[str]:
    """The lines of the error without the file's name, e.g. `4: models[0].weights: ...`."""
    path = written(folder, text)
    with pytest.raises(SpecError) as caught:
        load(path)
    assert caught.value.exit_code == 2
    assert caught.value.next_step
    lines = caught.value.message.splitlines()
    assert all(line.startswith(f"{path}:") for line in lines)
    return [line.removeprefix(f"{path}:") for line in lines]


def test_what_is_left_out_gets_the_documented_defaults(tmp_path: Path) -> None:
    sweep = load(written(tmp_path, SMALL))
    assert sweep.models[0].name == "mobilenet_v2"
    assert sweep.models[0].input_shape == (1, 3, 224, 224)
    assert sweep.data.calibration == DigitsData(source="digits", images=100)
    assert sweep.grids[0].precision == ("fp32",)
    assert sweep.grids[0].layout == ("nchw", "nhwc")
    assert sweep.devices == ("local",)
    assert sweep.objective.minimize == "latency_p50_ms"
    assert sweep.objective.constraints == (ConstraintSpec(metric="accuracy_drop_points", at_most=1.0),)


def test_a_models_name_defaults_to_the_part_behind_the_colon() -> None:
    assert ModelSpec(source="my.package:build", weights="random").name == "build"
    assert ModelSpec(source="my.package:build", weights="random", name="mine").name == "mine"


def test_every_list_of_the_file_may_be_written_as_a_yaml_list(tmp_path: Path) -> None:
    sweep = load(
        written(
            tmp_path,
            SMALL
            + "    threads: [1, 2]\n"
            + "    cpus: [all, big, little, 0-2, '5, 3']\n"
            + "    calibration_images: [all, 10]\n"
            + "data:\n"
            + "  evaluation: {source: folder, path: ., mean: [0, 0.5, 1e-3]}\n",
        )
    )
    assert sweep.grids[0].threads == (1, 2)
    assert sweep.grids[0].cpus == ("all", "big", "little", "0,1,2", "3,5")
    assert sweep.grids[0].calibration_images == ("all", 10)
    evaluation = sweep.data.evaluation
    assert isinstance(evaluation, FolderData)
    assert evaluation.mean == (0.0, 0.5, 0.001)


def test_constructor_arguments_keep_their_types(tmp_path: Path) -> None:
    sweep = load(
        written(tmp_path, SMALL.replace("random\n", 'random\n    arguments: {a: 1, b: 1.0, c: true, d: no, e: "1"}\n'))
    )
    arguments = sweep.models[0].arguments
    assert arguments == {"a": 1, "b": 1.0, "c": True, "d": "no", "e": "1"}
    assert [type(value) for value in arguments.values()] == [int, float, bool, str, str]


def test_a_list_is_an_argument_of_a_constructor_and_its_items_keep_their_types(tmp_path: Path) -> None:
    text = "random\n    arguments: {widths: [8, 16.0, M], stages: [[1, 16], [6, no]], empty: []}\n"
    sweep = load(written(tmp_path, SMALL.replace("random\n", text)))
    assert sweep.models[0].arguments == {"widths": [8, 16.0, "M"], "stages": [[1, 16], [6, "no"]], "empty": []}
    assert type(sweep.models[0].arguments["widths"][1]) is float
    assert SweepSpec.model_validate_json(sweep.kept_json()) == sweep


@pytest.mark.parametrize("source", ["nets.py:make", "./nets.py:make", "nets/__init__.py:make", "nets:make"])
def test_a_file_stands_for_its_module(tmp_path: Path, source: str) -> None:
    sweep = load(written(tmp_path, SMALL.replace("mobilenet_v2", source)))
    assert (sweep.models[0].source, sweep.models[0].name) == ("nets:make", "make")


def test_a_file_in_a_folder_stands_for_its_module(tmp_path: Path) -> None:
    sweep = load(written(tmp_path, SMALL.replace("mobilenet_v2", "models/small/nets.py:make")))
    assert sweep.models[0].source == "models.small.nets:make"


def test_paths_start_at_the_sweep_file_and_come_out_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / 'it\'s a "folder"'
    (folder / "images").mkdir(parents=True)
    (tmp_path / "net.pt").write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    written(
        folder,
        SMALL.replace("weights: random", "weights: ../net.pt")
        + "data:\n  calibration: {source: torchvision, dataset: CIFAR10}\n"
        + f"  evaluation: {{source: folder, path: {json.dumps(str(folder / 'images'))}}}\n",
    )
    sweep = load(Path(folder.name) / "sweep.yaml")
    assert sweep.models[0].weights == str(tmp_path / "net.pt")
    assert isinstance(sweep.data.calibration, TorchvisionData)
    assert sweep.data.calibration.root == folder / "datasets"
    assert isinstance(sweep.data.evaluation, FolderData)
    assert sweep.data.evaluation.path == folder / "images"


def test_a_sweep_survives_the_journal_even_where_its_paths_are_gone(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    (tmp_path / "net.pt").write_bytes(b"")
    text = SMALL.replace("weights: random", "weights: net.pt\n    arguments: {x: 1.0, y: true}")
    text += "    cpus: [0-1]\n    name: first\n"
    text += "data: {evaluation: {source: folder, path: images}}\nobjective: {maximize: top1_percent}\n"
    sweep = load(written(tmp_path, text))
    (tmp_path / "images").rmdir()
    (tmp_path / "net.pt").unlink()
    again = SweepSpec.model_validate_json(sweep.model_dump_json())
    assert again == sweep
    assert again.model_dump_json() == sweep.model_dump_json()


def test_a_sweep_that_was_stored_before_an_axis_came_has_the_default_of_the_axis(tmp_path: Path) -> None:
    sweep = load(written(tmp_path, SMALL))
    older = json.loads(sweep.model_dump_json())
    for axis in ("granularity", "calibration_images", "preference", "relaxed_fp16", "flexible_batch"):
        del older["grids"][0][axis]
    assert SweepSpec.model_validate_json(json.dumps(older)) == sweep


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_shipped_sweep_files_fit_the_schema_and_round_trip(path: Path) -> None:
    jsonschema.validate(read_yaml(path).data, json_schema())
    assert path.read_text(encoding="utf-8").startswith("# ")
    if path.stem != "own-model":
        sweep = load(path)
        assert sweep.name == path.stem
        assert SweepSpec.model_validate_json(sweep.model_dump_json()) == sweep


def test_the_demo_has_the_variants_that_it_promises() -> None:
    demo = load(next(path for path in SPECS if path.stem == "demo"))
    (model,) = demo.models
    assert (model.name, model.weights, model.input_shape) == ("digits-mobilenet", "demo", (1, 3, 64, 64))
    assert model.arguments == {"width_mult": 0.35, "num_classes": 10}
    assert demo.data.evaluation == DigitsData(source="digits")
    assert demo.protocol == ProtocolSpec(preset="quick")
    assert demo.objective == ObjectiveSpec()


def test_the_template_for_ones_own_model_loads_where_its_paths_exist(tmp_path: Path) -> None:
    template = next(path for path in SPECS if path.stem == "own-model").read_text(encoding="utf-8")
    missing = refused(tmp_path, template)
    assert len(missing) == 3
    assert all("there is no f" in line for line in missing)
    (tmp_path / "checkpoint.pt").write_bytes(b"")
    for folder in ("images/calibration", "images/evaluation"):
        (tmp_path / folder).mkdir(parents=True)
    sweep = load(written(tmp_path, template))
    assert ":" in sweep.models[0].source
    assert sweep.models[0].weights == str(tmp_path / "checkpoint.pt")


def test_the_schema_is_valid_and_described() -> None:
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    assert json.loads(json.dumps(schema)) == schema
    for name, part in schema["properties"].items():
        kinds = [part, *part.get("anyOf", ()), *part.get("allOf", ())]
        kinds += [schema["$defs"][kind["$ref"].rpartition("/")[2]] for kind in kinds if "$ref" in kind]
        assert any(kind.get("description") for kind in kinds), f"an editor says nothing of {name}"
    for name in ("models", "grids", "devices"):
        assert len(schema["properties"][name]["description"]) > 30, f"{name}: its own, and not that of its parts"
    grid = schema["$defs"]["GridSpec"]["properties"]
    assert all(grid[axis]["description"] and grid[axis]["uniqueItems"] for axis in grid if axis != "name")
    assert schema["$defs"]["ConstraintSpec"]["properties"]["metric"]["enum"] == list(catalog.metrics())


@pytest.mark.parametrize(
    "wrong",
    [
        {"presision": ["fp32"]},
        {"precision": ["int4"]},
        {"precision": []},
        {"precision": ["fp32", "fp32"]},
        {"threads": [0]},
        {"threads": ["1"]},
        {"calibration_images": ["some"]},
        {"name": "a b"},
    ],
)
def test_the_schema_refuses_a_wrong_grid(wrong: dict[str, Any]) -> None:
    sweep = {"name": "x", "models": [{"source": "resnet18"}], "grids": [wrong]}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(sweep, json_schema())


@pytest.mark.parametrize(
    "objective",
    [
        {"minimize": "latency_p50_ms", "maximize": "top1_percent"},
        {"constraints": [{"metric": "top1_percent", "at_most": 1, "at_least": 1}]},
        {"minimize": "speed"},
    ],
)
def test_the_schema_refuses_a_wrong_objective(objective: dict[str, Any]) -> None:
    sweep = {"name": "x", "models": [{"source": "resnet18"}], "grids": [{}], "objective": objective}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(sweep, json_schema())


def test_the_schema_accepts_what_the_journal_stores(tmp_path: Path) -> None:
    stored = load(written(tmp_path, SMALL)).model_dump_json()
    jsonschema.validate(json.loads(stored), json_schema())


# Each: what is put in place of `  - precision: [fp32]`, and the one line that must come back.
GRIDS = {
    "an unknown key": (
        "  - layout: [nchw]\n    precison: [fp32]",
        "7: grids[0]: the key 'precison' is unknown (allowed: name, runtime, backend, precision, quantization, "
        "qengine, granularity, calibration_images, interface, layout, capture, format, fuse, optimize, preference, "
        "relaxed_fp16, flexible_batch, opset, graph_optimization, toolchain, runner_toolchain, threads, cpus, "
        "reuse_input); "
        "did you mean 'precision'?",
    ),
    "an unknown value": (
        "  - precision: [fp32, int9]",
        "6: grids[0].precision[1]: the text 'int9' is not allowed (allowed: fp32, int8, fp16); did you mean 'int8'?",
    ),
    "a value instead of a list": (
        "  - precision: int8",
        "6: grids[0].precision: must be a list, not the text 'int8'; write [int8]",
    ),
    "an empty axis": ("  - precision: []", "6: grids[0].precision: the list is empty; give at least one value"),
    "an axis without value": ("  - precision:", "6: grids[0].precision: must be a list, not nothing"),
    "a value twice": (
        "  - precision:\n      - fp32\n      - fp32",
        "8: grids[0].precision[1]: the value 'fp32' is in this list twice",
    ),
    "a number for true or false": (
        "  - fuse: [1]",
        "6: grids[0].fuse[0]: must be true or false, not the number 1",
    ),
    "yes for true": ("  - fuse: [yes]", "6: grids[0].fuse[0]: must be true or false, not the text 'yes'"),
    "true for a number": ("  - threads: [true]", "6: grids[0].threads[0]: must be a whole number, not true"),
    "no threads": ("  - threads: [0]", "6: grids[0].threads[0]: must be at least 1, not 0"),
    "half a thread": ("  - threads: [1.5]", "6: grids[0].threads[0]: must be a whole number, not the number 1.5"),
    "a CPU as a number": (
        "  - cpus: [0]",
        "6: grids[0].cpus[0]: must be text, not the number 0; put it in quotes",
    ),
    "no CPU list": (
        "  - cpus: [huge]",
        "6: grids[0].cpus[0]: 'huge' is no list of CPUs; write all, big, little, or for instance 0,1 or 0-3",
    ),
    "another word for all": (
        "  - calibration_images: [10, al]",
        "6: grids[0].calibration_images[1]: must be all or a whole number, not the text 'al'; did you mean 'all'?",
    ),
    "a range of releases": (
        "  - toolchain: ['onnxruntime>=1.31']",
        "6: grids[0].toolchain[0]: 'onnxruntime>=1.31' is no release: write for instance onnxruntime==1.31.1, or "
        "installed for the one here",
    ),
    "a library without releases": (
        "  - runner_toolchain: [same, 'onnxrunti==1.31.1']",
        "6: grids[0].runner_toolchain[1]: onnxrunti has no releases to choose from (there are: onnxruntime, "
        "executorch); did you mean 'onnxruntime'?",
    ),
    "no image": ("  - calibration_images: [0]", "6: grids[0].calibration_images[0]: must be at least 1, not 0"),
    "too many images": (
        "  - calibration_images: [2000000]",
        "6: grids[0].calibration_images[0]: must be at most 1000000, not 2000000",
    ),
    "a backend that there is not": (
        "  - backend: [cpu, nnap]",
        "6: grids[0].backend[1]: the text 'nnap' is not allowed (allowed: cpu, nnapi, metal, xnnpack, qnn, coreml, "
        "portable, vulkan); did you mean 'nnapi'?",
    ),
    "a range backwards": ("  - cpus: [3-0]", "6: grids[0].cpus[0]: the range 3-0 ends before it starts"),
    "a CPU twice": ("  - cpus: ['0-2,1']", "6: grids[0].cpus[0]: '0-2,1' names a CPU twice"),
    "the same CPUs in other words": (
        "  - cpus: [0-1, '0,1']",
        "6: grids[0].cpus[1]: the value '0,1' is in this list twice",
    ),
    "a grid name twice": (
        "  - {name: a}\n  - {}\n  - name: a",
        "8: grids[2].name: a second grid is called 'a'; give each its own name",
    ),
    "a grid that is a list": (
        "  - [fp32]",
        f"6: grids[0]: must be a block of keys, not a list; its keys: {', '.join(GridSpec.model_fields)}",
    ),
    "a key twice": (
        "  - fuse: [true]\n    layout: [nchw]\n    fuse: [false]",
        "8: grids[0].fuse: this key is here twice (lines 6 and 8)",
    ),
    "two lines of text": (
        "  - name: |\n      a\n      b",
        '6: grids[0].name: text must be one line without control characters, not "a\\nb\\n"',
    ),
    "a tag of Python": (
        "  - name: !!python/object/apply:os.system [ls]",
        "6: grids[0].name: the tag 'tag:yaml.org,2002:python/object/apply:os.system' is not allowed",
    ),
}


@pytest.mark.parametrize("case", GRIDS)
@pytest.mark.fault(37, "unknown keys, wrong types, empty axes", "refused with file, line and what is allowed")
def test_a_wrong_grid_is_refused_with_line_and_remedy(tmp_path: Path, case: str) -> None:
    grids, message = GRIDS[case]
    assert refused(tmp_path, SMALL.replace("  - precision: [fp32]", grids)) == [message]


MODELS = {
    "no source": (
        "name: x",
        "3: models[0]: the key 'source' is missing: torchvision's name (mobilenet_v2) or your own module:function.",
    ),
    "a path as source": (
        "source: models/net.py",
        "3: models[0].source: 'models/net.py' is neither torchvision's name of a model (mobilenet_v2) "
        "nor module:function; of a file, start in its folder and write nets:make",
    ),
    "a module without function": (
        "source: models.net",
        "3: models[0].source: 'models.net' names no function; write module:function",
    ),
    "pretrained weights of one's own model": (
        "source: net:build",
        "3: models[0].weights: pretrained weights exist for torchvision's models only; give a checkpoint's path, "
        "or random",
    ),
    "a side of no length": (
        "source: vgg11\n    input_shape: [1, 3, 0, 8]",
        "4: models[0].input_shape[2]: must be at least 1, not 0",
    ),
    "too few sides": (
        "source: vgg11\n    input_shape: [1, 3, 8]",
        "4: models[0].input_shape: too few values; 4 are needed",
    ),
    "too many sides": (
        "source: vgg11\n    input_shape: [1, 3, 8, 8, 8]",
        "4: models[0].input_shape: 5 values; 4 are needed",
    ),
    "a block as argument": (
        "source: vgg11\n    arguments: {a: {b: 1}}",
        "4: models[0].arguments.a: must be text or a number or true or false or a list, not a block of keys",
    ),
    "a block in a list": (
        "source: vgg11\n    arguments: {a: [1, {b: 1}]}",
        "4: models[0].arguments.a[1]: must be text, a number, true or false, or a list of these, not a block of keys",
    ),
    "lists too deep": (
        "source: vgg11\n    arguments: {a: [[[1]]]}",
        "4: models[0].arguments.a[0]: must be text, a number, true or false, or a list of these, not a list",
    ),
    "infinity in a list": (
        "source: vgg11\n    arguments: {a: [1, .inf]}",
        "4: models[0].arguments.a[1]: must be text, a number, true or false, or a list of these, not the number inf",
    ),
    "a key into no checkpoint": (
        "source: vgg11\n    weights: random\n    weights_key: model",
        "5: models[0].weights_key: weights: random is no checkpoint, so leave the key out",
    ),
    "an empty key": (
        'source: vgg11\n    weights_key: ""',
        "4: models[0].weights_key: must not be empty",
    ),
    "infinity": (
        "source: vgg11\n    arguments: {a: .inf}",
        "4: models[0].arguments.a: must be text or a number or true or false or a list, not the number inf",
    ),
    "a name with a space": (
        "source: vgg11\n    name: a b",
        "4: models[0].name: the name 'a b' must be letters, digits, '.', '_' and '-' only, 64 at most",
    ),
    "a seed below zero": ("source: vgg11\n    seed: -1", "4: models[0].seed: must be at least 0, not -1"),
    "a NUL": (
        'source: vgg11\n    weights: "a\\0b"',
        '4: models[0].weights: text must be one line without control characters, not "a\\u0000b"',
    ),
    "half a character": (
        'source: vgg11\n    weights: "\\ud800"',
        '4: models[0].weights: text must be one line without control characters, not "\\ud800"',
    ),
    "two names that come from one source": (
        "source: vgg11\n  - source: vgg11\n    seed: 1",
        "4: models[1].name: a second model is called 'vgg11'; give each its own name",
    ),
}


@pytest.mark.parametrize("case", MODELS)
def test_a_wrong_model_is_refused_with_line_and_remedy(tmp_path: Path, case: str) -> None:
    model, message = MODELS[case]
    assert refused(tmp_path, SMALL.replace("source: mobilenet_v2\n    weights: random", model)) == [message]


DEVICES = (
    "local, adb:SERIAL, adb:*, ssh:USER@BOARD, ssh:*, fake:NAME, host:NAME/adb:*, host:NAME/adb:SERIAL, "
    'class:"MAKER MODEL", tag:NAME'
)
OTHERS = {
    "a host without a device": (
        "devices: [local, 'host:lab-2']",
        f"7: devices[1]: there is no device 'host:lab-2' (allowed: {DEVICES})",
    ),
    "no such device": (
        "devices: [lokal]",
        f"7: devices[0]: there is no device 'lokal' (allowed: {DEVICES}); did you mean 'local'?",
    ),
    "a device twice": ("devices: [local, local]", "7: devices[1]: the device 'local' is in this list twice"),
    "two directions": (
        "objective: {minimize: load_ms, maximize: top1_percent}",
        "7: objective: give one of minimize and maximize, not both",
    ),
    "no direction": ("objective: {minimize: null}", "7: objective: give one of minimize and maximize, not neither"),
    "the worst direction": (
        "objective:\n  maximize: load_ms",
        "8: objective.maximize: load_ms is better when lower; maximize would find the worst",
    ),
    "no bound": (
        "objective: {constraints: [{metric: load_ms}]}",
        "7: objective.constraints[0]: give one of at_most and at_least, not neither",
    ),
    "two bounds": (
        "objective: {constraints: [{metric: load_ms, at_most: 1, at_least: 0}]}",
        "7: objective.constraints[0]: give one of at_most and at_least, not both",
    ),
    "an infinite bound": (
        "objective: {constraints: [{metric: load_ms, at_most: .inf}]}",
        "7: objective.constraints[0].at_most: must be a finite number",
    ),
    "limits that exclude each other": (
        "protocol: {min_seconds: 3, max_seconds: 2}",
        "7: protocol.min_seconds: min_seconds (3) is more than max_seconds (2)",
    ),
    "no time at all": ("protocol: {max_seconds: 0}", "7: protocol.max_seconds: must be more than 0, not 0"),
    "too many rounds": ("protocol: {rounds: 101}", "7: protocol.rounds: must be at most 100, not 101"),
    "a huge number": (
        f"protocol: {{seed: {'9' * 5000}}}",
        "7: protocol.seed: must be a whole number, not the number inf",
    ),
    "an unknown data source": (
        "data: {evaluation: {source: foldr}}",
        "7: data.evaluation.source: the text 'foldr' is not allowed (allowed: digits, folder, synthetic, torchvision); "
        "did you mean 'folder'?",
    ),
    "data without source": (
        "data: {evaluation: {path: x}}",
        "7: data.evaluation: the key 'source' is missing (allowed: digits, folder, synthetic, torchvision)",
    ),
    "a data source without block": (
        "data: {evaluation: digits}",
        "7: data.evaluation: must be a block of keys with a 'source', not the text 'digits'",
    ),
    "a folder without path": (
        "data:\n  evaluation:\n    source: folder",
        "8: data.evaluation: the key 'path' is missing: The folder (relative to the sweep file).",
    ),
    "an empty path": (
        "data: {evaluation: {source: folder, path: ''}}",
        "7: data.evaluation.path: a path must be one line of text and not empty",
    ),
    "a deviation of zero": (
        "data: {evaluation: {source: folder, path: ., std: [0, 1, 1]}}",
        "7: data.evaluation.std[0]: must be more than 0, not 0",
    ),
    "a data set that is a path": (
        "data: {evaluation: {source: torchvision, dataset: ../x}}",
        "7: data.evaluation.dataset: '../x' is no name of a class in torchvision.datasets, such as CIFAR10",
    ),
    "an unknown budget": (
        "budget: rcae",
        "7: budget: must be full or race or a block of keys, not the text 'rcae'; its keys: device_minutes; "
        "did you mean 'race'?",
    ),
    "a budget without minutes": (
        "budget: {}",
        "7: budget: the key 'device_minutes' is missing: With starts, warm-ups and waiting counted.",
    ),
    "no time": ("budget: {device_minutes: 0}", "7: budget.device_minutes: must be more than 0, not 0"),
    "no seconds": ("protocol: {max_seconds: 0}", "7: protocol.max_seconds: must be more than 0, not 0"),
    "a seed that is no integer": (
        "protocol: {seed: 1.5}",
        "7: protocol.seed: must be a whole number, not the number 1.5",
    ),
    "rounds that contradict each other": (
        "protocol: {rounds: 5, max_rounds: 4}",
        "7: protocol.rounds: rounds (5) is more than max_rounds (4)",
    ),
    "a wait that is shorter than its part": (
        "protocol: {gate: {wait_seconds: 10, load_wait_seconds: 60}}",
        "7: protocol.gate.load_wait_seconds: load_wait_seconds (60) is more than wait_seconds (10), "
        "of which it is a part",
    ),
    "a failure without a gate": (
        "protocol:\n  gate: none\n  on_not_ready: fail",
        "9: protocol.on_not_ready: with gate: none every device counts as ready; leave out on_not_ready, or set a gate",
    ),
    "a failure without the preset's gate": (
        "protocol: {preset: recipe, on_not_ready: fail}",
        "7: protocol.on_not_ready: with the preset recipe, which has no gate, every device counts as ready; "
        "leave out on_not_ready, or set a gate",
    ),
    "a gate that no battery passes": (
        "protocol: {gate: {min_battery_percent: 101}}",
        "7: protocol.gate.min_battery_percent: must be at most 100, not 101",
    ),
    "a gate of NaN": ("protocol: {gate: {max_load: .nan}}", "7: protocol.gate.max_load: must be a finite number"),
    "a word that is no gate": (
        "protocol: {gate: off}",
        "7: protocol.gate: must be a block of keys or none, not the text 'off'; "
        f"its keys: {', '.join(GateSpec.model_fields)}",
    ),
    "a race that units share": (
        "share: class\nbudget: race",
        "7: share: units cannot share a race, which compares all variants on one of them; give budget: full",
    ),
    "a preset that races, for units that share": (
        "share: class\nprotocol: {preset: race}",
        "7: share: units cannot share a race, which compares all variants on one of them; give budget: full",
    ),
    "minutes that units share": (
        "share: class\nbudget: {device_minutes: 5}",
        "7: share: units cannot share a race, which compares all variants on one of them; give budget: full",
    ),
    "a number as key": (
        "7: x",
        "7: the file: the key '7' is unknown "
        "(allowed: name, models, data, grids, devices, share, protocol, objective, budget, recovery, on_end)",
    ),
    "a list as key": ("? [a]\n: b", "7: the file: a key must be one line of text"),
}


@pytest.mark.parametrize("case", OTHERS)
@pytest.mark.fault(43, "a data set called ../x", "refused with file and line")
def test_other_wrong_parts_are_refused_with_line_and_remedy(tmp_path: Path, case: str) -> None:
    text, message = OTHERS[case]
    assert refused(tmp_path, SMALL + text + "\n") == [message]


@pytest.mark.parametrize("preset", PRESETS)
def test_failing_what_is_not_ready_takes_a_gate_of_the_file_s_or_the_preset_s(tmp_path: Path, preset: str) -> None:
    text = f"{SMALL}protocol: {{preset: {preset}, on_not_ready: fail}}\n"
    if PRESETS[preset].gate is None:
        assert len(refused(tmp_path, text)) == 1
    else:
        assert load(written(tmp_path, text)).protocol.on_not_ready == "fail"
    gated = load(written(tmp_path, text.replace("fail", "fail, gate: {max_load: 0.5}"))).protocol
    assert gated.gate == GateSpec(max_load=0.5)


def test_contradictions_that_an_older_version_stored_can_still_be_read() -> None:
    ProtocolSpec.model_validate_json('{"gate": "none", "on_not_ready": "fail"}')
    stored = ProtocolSpec.model_validate_json('{"gate": {"wait_seconds": 10.0, "load_wait_seconds": 60.0}}')
    assert ProtocolSpec.model_validate_json(stored.model_dump_json()) == stored


def test_an_unknown_metric_is_refused_with_all_metrics_and_the_nearest(tmp_path: Path) -> None:
    (line,) = refused(tmp_path, SMALL + "objective: {minimize: latency_p5_ms}\n")
    assert line.startswith("7: objective.minimize: there is no metric 'latency_p5_ms' (allowed: latency_p50_ms, ")
    assert all(metric in line for metric in METRICS)
    assert line.endswith("did you mean 'latency_p50_ms'?")


@pytest.mark.parametrize("weights", ["pretraned", "missing/net.pt", ".", "x" * 5000])
def test_weights_that_are_no_file_are_refused(tmp_path: Path, weights: str) -> None:
    (line,) = refused(tmp_path, SMALL.replace("random", weights))
    assert line.startswith("4: models[0].weights: there is no file ")
    assert "(allowed: pretrained, random, demo, or a checkpoint's path)" in line
    assert line.endswith("did you mean 'pretrained'?") == (weights == "pretraned")


def test_a_data_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (line,) = refused(tmp_path, SMALL + "data: {evaluation: {source: folder, path: sweep.yaml}}\n")
    assert line == f"7: data.evaluation.path: there is no folder {tmp_path / 'sweep.yaml'}"


def test_a_link_that_points_at_itself_is_refused(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (line,) = refused(tmp_path, SMALL.replace("random", "loop"))
    assert line.startswith("4: models[0].weights: ")


def test_all_errors_of_a_file_come_at_once_in_order_of_lines(tmp_path: Path) -> None:
    lines = refused(
        tmp_path,
        "name: a b\n"
        "models:\n"
        "  - source: resnet18\n"
        "    weight: random\n"
        "  - source: x y\n"
        "grids:\n"
        "  - precision: int8\n"
        "    threads: [0, 1, -1]\n"
        "    fuse: [true]\n"
        "    fuse: [true]\n"
        "objective: {minimize: x}\n",
    )
    assert [int(line.partition(":")[0]) for line in lines] == [1, 4, 5, 7, 8, 8, 10, 11]


def test_aliases_work_and_point_at_the_line_that_is_wrong(tmp_path: Path) -> None:
    text = SMALL.replace("  - precision: [fp32]", "  - {name: a, layout: &layouts [nchw]}\n  - layout: *layouts")
    assert load(written(tmp_path, text)).grids[1].layout == ("nchw",)
    (first, second) = refused(tmp_path, text.replace("[nchw]", "[nhcw]"))
    assert first.startswith("6: grids[0].layout[0]: the text 'nhcw'")
    assert second.startswith("6: grids[1].layout[0]: the text 'nhcw'")


BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 15)
)

UNREADABLE = {
    "an alias bomb": (BOMB, ":", "more than 50,000 values"),
    "an alias of itself": ("name: &a [*a]\n", ":1:", "an alias holds itself"),
    "deep nesting": ("[" * 5000, ":1:", "nested too deeply"),
    "many values": ("a: [" + "1," * 60_000 + "]", ":1:", "more than 50,000 values"),
    "a tab": ("name: x\n\tmodels: []\n", ":2:", "tab"),
    "an open bracket": ("name: x\nmodels: [\n", ":3:", "this is not YAML"),
    "two documents": ("name: x\n---\nname: y\n", ":2:", "another document"),
    "an unknown alias": ("name: x\nmodels: *m\n", ":2:", "undefined alias"),
    "a NUL byte": ("name: x\nmodels: \0\n", ":2:", "U+0000"),
    "a code point that is none": ('name: x\nmodels: "\\UFFFFFFFF"\n', ":2:", "too large"),
    "a version of too many digits": (f"%YAML {'9' * 6000}.1\n---\nname: x\n", ":1:", "too large"),
    "nothing": ("", ":1:", "must be a block of keys, not nothing"),
    "comments only": ("# nothing\n", ":1:", "must be a block of keys, not nothing"),
    "a list": ("- name: x\n", ":1:", "must be a block of keys, not a list"),
}


@pytest.mark.parametrize("case", UNREADABLE)
@pytest.mark.fault(37, "alias bombs, deep nesting, no YAML", "refused with file and line")
def test_what_is_no_sweep_file_at_all_is_refused_quickly(tmp_path: Path, case: str) -> None:
    text, line, message = UNREADABLE[case]
    path = written(tmp_path, text)
    began_s = time.process_time()
    with pytest.raises(SpecError) as caught:
        load(path)
    # The process's own time counts: beside other work the clock on the wall runs on.
    assert time.process_time() - began_s < 10
    assert caught.value.message.startswith(f"{path}{line}")
    assert message in caught.value.message


def test_a_file_that_is_missing_huge_a_folder_or_not_utf8_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="there is no such file"):
        load(tmp_path / "none.yaml")
    with pytest.raises(SpecError, match="this is a folder"):
        load(tmp_path)
    path = tmp_path / "sweep.yaml"
    path.write_bytes(b"a" * (MAX_BYTES + 1))
    with pytest.raises(SpecError, match="larger than 1 MiB"):
        load(path)
    path.write_bytes(b"name: x\nmodels: \xff\n")
    with pytest.raises(SpecError, match=r"sweep\.yaml:2: the byte 0xff is not UTF-8 text"):
        load(path)


def test_a_byte_order_mark_is_no_error(tmp_path: Path) -> None:
    path = tmp_path / "sweep.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + SMALL.encode())
    assert load(path).name == "small"


def test_specs_are_frozen_and_refuse_unknown_fields() -> None:
    grid = GridSpec()
    with pytest.raises(ValidationError):
        grid.layout = ("nchw",)  # type: ignore[misc]  # what is tested
    with pytest.raises(ValidationError):
        DataSpec(other=1)  # type: ignore[call-arg]  # what is tested


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
WHOLE: dict[str, Any] = {
    "name": "x",
    "models": [{"source": "resnet18", "name": "n", "weights": "random", "seed": 0, "input_shape": [1, 3, 8, 8]}],
    "data": {"calibration": {"source": "digits", "images": 3}, "evaluation": {"source": "folder", "path": "."}},
    "grids": [{axis: list(GridSpec.model_fields[axis].default) for axis in GridSpec.model_fields if axis != "name"}],
    "devices": ["local"],
    "protocol": {"preset": "quick", "rounds": 3, "min_seconds": 1.0},
    "objective": {"minimize": "load_ms", "constraints": [{"metric": "load_ms", "at_most": 1}]},
    "budget": "full",
}


def _places(value: Any, at: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at, *(place for key, item in inner for place in _places(item, (*at, key)))]


JARGON = re.compile(
    r"[Ii]nput should|tuple|\bdict|NoneType|pydantic|[Vv]alid(ation)? |JSON|Extra inputs|Field required|<class|\bstr\b"
)


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.sampled_from(_places(WHOLE)), value=ANY, extra=st.booleans())
def test_any_wrong_value_anywhere_ends_in_sentences(
    tmp_path: Path, place: tuple[str | int, ...], value: Any, extra: bool
) -> None:
    sweep = json.loads(json.dumps(WHOLE))
    if place:
        inner = sweep
        for key in place[:-1]:
            inner = inner[key]
        inner[f"{place[-1]}s" if extra and isinstance(place[-1], str) else place[-1]] = value
    else:
        sweep = value
    path = written(tmp_path, yaml.safe_dump(sweep, allow_unicode=True))
    try:
        load(path)
    except SpecError as error:
        for line in error.message.splitlines():
            assert re.match(rf"{re.escape(str(path))}:[1-9]\d*: \S", line)
            # A text that people wrote stands in quotes and may hold any word.
            own_words = re.sub(r"'[^']*'|\"[^\"]*\"", "", line.removeprefix(str(path)))
            assert not JARGON.search(own_words), line


def test_a_phone_is_restarted_only_if_the_file_says_so(tmp_path: Path) -> None:
    file = tmp_path / "sweep.yaml"
    file.write_text(SMALL)
    assert load(file).recovery.reboot is False
    file.write_text(f"{SMALL}recovery: {{reboot: true}}\n")
    assert load(file).recovery.reboot is True
