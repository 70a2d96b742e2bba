"""Stages: what each one's key depends on, and that each runs once for all variants that share it."""

import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from sweeps.planning.axes import resolve_variant
from sweeps.variant import Variant
from workers.runtimes.stages import Stages
from workers.runtimes.torchscript.stage_keys import Sources, code_id, stage_keys

ROOT = Path(__file__).parents[3]
SOURCES = Sources(
    model_source="torchvision:mobilenet_v2",
    arguments={"num_classes": 10},
    weights_id="random:0",
    input_shape=(1, 3, 64, 64),
    calibration_id="c" * 64,
    versions={"torch": "2.12.1", "torchvision": "0.27.1", "builder": "torchscript 2"},
    code="0" * 64,
)
CHOICES: dict[str, tuple[Any, ...]] = {
    "backend": ("cpu", "nnapi", "metal"),
    "precision": ("fp32", "int8"),
    "quantization": ("static_fx", "static_eager", "dynamic", "qat"),
    "qengine": ("auto", "qnnpack", "x86", "onednn"),
    "granularity": ("auto", "per_tensor", "per_channel"),
    "calibration_images": (0, 16, 32),
    "interface": ("core", "full", "inside"),
    "layout": ("nchw", "nhwc"),
    "capture": ("script", "trace", "mixed"),
    "format": ("pt", "ptl"),
    "fuse": (True, False),
    "optimize": (True, False),
    "preference": ("sustained_speed", "fast_single_answer", "low_power"),
    "relaxed_fp16": (True, False),
    "flexible_batch": (True, False),
}
EVERY = ("load", "graph", "fuse", "prepare", "calibrate", "convert", "capture", "lower")


def after(stage: str) -> set[str]:
    return set(EVERY[EVERY.index(stage) :])


# A change of each input must reach these stages, told from what they do and not from how their keys are made.
REACHES: dict[str, set[str]] = {
    "model_source": after("load"),
    "arguments": after("load"),
    "weights_id": after("load"),
    "versions": after("load"),
    "code": after("load"),
    "input_shape": after("prepare"),  # a float model is captured with an example of it
    "calibration_id": {"calibrate", "convert", "capture", "lower"},
    "quantization": after("prepare"),
    "qengine": after("prepare"),
    "granularity": after("prepare"),
    "calibration_images": {"calibrate", "convert", "capture", "lower"},
    "interface": {"capture", "lower"},
    "layout": {"capture", "lower"},
    "capture": {"capture", "lower"},
    "optimize": {"lower"},
    "preference": {"lower"},
    "relaxed_fp16": {"lower"},
    "flexible_batch": {"lower"},
    "format": set(),  # the same model, saved in another way
}


def random_variant(seeded: random.Random) -> Variant:
    return resolve_variant(Variant(**{axis: seeded.choice(values) for axis, values in CHOICES.items()}), "x86_64")


def change_of(seeded: random.Random, name: str) -> tuple[Variant, Variant, Sources]:
    """A build, and the same with another value of the input `name` alone."""
    values: dict[str, Any] = {
        "arguments": {"num_classes": seeded.randrange(11, 999)},
        "versions": {**SOURCES.versions, seeded.choice(["torch", "torchvision", "builder"]): "another"},
        "input_shape": (1, 3, seeded.randrange(65, 299), 64),
    }
    while True:
        variant = random_variant(seeded)
        if name not in CHOICES:
            return variant, variant, replace(SOURCES, **{name: values.get(name, f"another {seeded.random()}")})
        # An axis that changes others with it, or has no choice here, is no single change.
        other = replace(variant, **{name: seeded.choice(CHOICES[name])})
        whole = other != variant and resolve_variant(other, "x86_64") == other
        if whole and stages_of(other) == stages_of(variant):
            return variant, other, SOURCES


def stages_of(variant: Variant) -> list[str]:
    return list(stage_keys(variant, SOURCES))


def test_200_single_changes_each_change_the_keys_that_they_must_and_no_other() -> None:
    seeded = random.Random(0)
    for number in range(200):
        name = sorted(REACHES)[number % len(REACHES)]
        variant, other, sources = change_of(seeded, name)
        before, now = stage_keys(variant, SOURCES), stage_keys(other, sources)
        changed = {stage for stage in before if before[stage] != now[stage]}
        expected = REACHES[name] & set(before)
        if name == "calibration_id" and "calibrate" not in before:
            # Only the example that a trace records comes of it.
            recorded = variant.capture != "script"
            expected = {"capture", "lower"} & set(before) if recorded else set()
        assert changed == expected, (name, variant)


def test_a_reduced_range_shares_the_model_and_its_graph_with_the_full_one() -> None:
    chosen = Variant(precision="int8", quantization="static_fx", qengine="onednn", granularity="auto", interface="core")
    variants = [resolve_variant(chosen, "x86_64", features) for features in ((), ("avx512_vnni",))]
    assert [variant.reduced_range for variant in variants] == [True, False]
    reduced, full = (stage_keys(variant, SOURCES) for variant in variants)
    assert {stage for stage in full if full[stage] != reduced[stage]} == after("prepare") & full.keys()


def test_no_two_stages_have_one_key() -> None:
    seeded = random.Random(1)
    owner: dict[str, str] = {}
    for _ in range(300):
        for stage, key in stage_keys(random_variant(seeded), SOURCES).items():
            assert owner.setdefault(key, stage) == stage


@pytest.mark.parametrize(
    ("axis", "shared"),
    [
        ("layout", {"load", "graph", "prepare", "calibrate", "convert"}),
        ("capture", {"load", "graph", "prepare", "calibrate", "convert"}),
        ("optimize", {"load", "graph", "prepare", "calibrate", "convert", "capture"}),
        ("format", {"load", "graph", "prepare", "calibrate", "convert", "capture", "lower"}),
        ("qengine", {"load", "graph"}),
    ],
)
def test_what_an_axis_does_not_touch_is_shared(axis: str, shared: set[str]) -> None:
    chosen = {name: values[0] for name, values in CHOICES.items()} | {"precision": "int8", "qengine": "x86"}
    keys = [
        stage_keys(resolve_variant(Variant(**{**chosen, axis: value}), "x86_64"), SOURCES)
        for value in (("x86", "onednn") if axis == "qengine" else CHOICES[axis][:2])
    ]
    assert {stage for stage in keys[0] if keys[0][stage] == keys[1].get(stage)} == shared


def test_keys_are_known_without_torch() -> None:
    program = (
        "import sys; from workers.runtimes.torchscript import stage_keys, supports, references; "
        "stage_keys.code_id(); references.names(); sys.exit('torch' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
    assert len(code_id()) == 64


@pytest.mark.parametrize(
    "changed", ["runtimes/torchscript/fuse.py", "models/weights.py", "models/images.py", "runtimes/torchscript/new.py"]
)
def test_what_builds_and_what_settles_random_weights_is_part_of_every_key(tmp_path: Path, changed: str) -> None:
    for package in ("sweeps", "workers"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    program = "from workers.runtimes.torchscript.stage_keys import code_id; print(code_id(), end='')"

    def code_id_now() -> str:
        command = [sys.executable, "-c", program]
        return subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True).stdout

    assert code_id_now() == code_id()
    with (tmp_path / "workers" / changed).open("a") as file:
        file.write("# another version\n")
    assert code_id_now() != code_id()


def test_a_stage_runs_once_and_the_least_recently_used_goes_first() -> None:
    stages = Stages(memory_bytes=3 * 400)

    def make(name: str) -> Callable[[], torch.nn.Module]:
        return lambda: torch.nn.Linear(99, 1)  # 400 bytes

    first = stages.module("load", "a", make("a"))
    assert stages.module("load", "a", make("a")) is first
    for key in "bc":
        stages.module("load", key, make(key))
    assert stages.module("load", "a", make("a")) is first
    stages.module("load", "d", make("d"))  # b has to go
    assert stages.module("load", "a", make("a")) is first
    assert stages.ran["load"] == 4
    stages.module("load", "b", make("b"))
    assert stages.ran["load"] == 5


def test_tensors_outlive_the_process_and_a_damaged_file_is_made_anew(tmp_path: Path) -> None:
    tensors = {"scale": torch.tensor([0.25, 0.5])}
    assert Stages(tmp_path).tensors("calibrate", "k", lambda: tensors) is tensors
    reread = Stages(tmp_path)
    torch.testing.assert_close(dict(reread.tensors("calibrate", "k", lambda: pytest.fail("made twice"))), tensors)
    assert reread.ran["calibrate"] == 0
    (tmp_path / "k.pt").write_bytes((tmp_path / "k.pt").read_bytes()[:-40])
    third = Stages(tmp_path)
    third.tensors("calibrate", "k", lambda: tensors)
    assert third.ran["calibrate"] == 1


def test_a_stage_that_fails_is_not_kept(tmp_path: Path) -> None:
    stages = Stages(tmp_path)
    with pytest.raises(ZeroDivisionError):
        stages.tensors("calibrate", "k", lambda: {"x": torch.tensor(1 / 0)})
    assert set(stages.tensors("calibrate", "k", lambda: {"x": torch.tensor(1)})) == {"x"}


def test_of_two_processes_that_need_a_calibration_one_makes_it(tmp_path: Path) -> None:
    program = (
        "import sys, time, torch; from pathlib import Path\n"
        "from workers.runtimes.stages import Stages\n"
        "def make():\n    time.sleep(1)\n    return {'x': torch.tensor(1)}\n"
        "stages = Stages(Path(sys.argv[1])); stages.tensors('calibrate', 'k', make); print(stages.ran['calibrate'])"
    )
    processes = [
        subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    assert sorted(process.communicate(timeout=120)[0].strip() for process in processes) == ["0", "1"]
