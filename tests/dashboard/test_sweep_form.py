"""The form of Launch and the text of a sweep file: each field is read and written, and nothing else is touched."""

from pathlib import Path

import pytest

from dashboard.sweep_address import of_address, to_address
from dashboard.sweep_form import FIELDS, WITHOUT_TRUTH, SweepForm, read, write
from dashboard.sweep_text import GONE, changed, values
from sweeps.spec import catalog

SPECS = Path(catalog.__file__).parents[1] / "specs"
HAND = """\
# What we ship in May.
name: may   # for the store
models:
- source: mobilenet_v2  # torchvision's
  weights: random
- {source: resnet18, weights: random}
grids:
  - precision: [fp32]
    reuse_input:   # both
      - true
      - false
  - {precision: [int8], qengine: [qnnpack]}
devices:  # on the shelf
- adb:1
- "adb:2"   # the loud one
recovery: {retries: 1}
"""
PLAIN = "name: x\nmodels: [{source: a}]\n"
OTHER = {
    "name": "june",
    "source": "resnet50",
    "arguments": "num_classes: 7, width: 'a, b'",
    "weights": "best.pt",
    "side": 96,
    "images": "synthetic",
    "precisions": ("int8", "fp32"),
    "layouts": ("nhwc",),
    "backends": ("cpu", "nnapi"),
    "threads": (1, 4),
    "runtimes": ("onnxruntime", "torchscript"),
    "quantizations": ("dynamic",),
    "qengines": ("qnnpack", "x86"),
    "granularities": ("per_tensor",),
    "interfaces": ("full", "core"),
    "captures": ("trace", "script"),
    "formats": ("ptl",),
    "preferences": ("low_power",),
    "graph_optimizations": ("basic", "all"),
    "cpus": ("big", "0,1"),
    "devices": ("local", "ssh:me@board, of mine"),
    "preset": "race",
    "rounds": 7,
    "gate": "none",
    "budget": "1234567.25",
}


def test_what_the_form_writes_is_what_it_reads() -> None:
    shown = read(SweepForm().text())
    assert shown is not None
    assert (shown.form, shown.hidden, shown.beside) == (SweepForm(), (), ())


@pytest.mark.parametrize("name", FIELDS)
@pytest.mark.parametrize("text", [HAND, SweepForm().text(), "{name: x, models: [{source: a}], grids: [{}]}", ""])
def test_a_field_that_is_changed_is_the_only_change(text: str, name: str) -> None:
    before = read(text)
    assert before is not None
    after = read(write(text, name, OTHER[name]))
    assert after is not None
    assert getattr(after.form, name) == OTHER[name]
    assert [field for field in FIELDS if getattr(before.form, field) != getattr(after.form, field)] == [name]
    assert set(after.beside) - set(before.beside) <= {"objective"}


@pytest.mark.parametrize(
    "value",
    ["[1]", "[]", "5", "text", "true", "{a: 1}", "[1, 3, 32]", "[1, 3, 32, 64]", "[1, 3, x, x]", "[[1], 3, 32, 32]"],
)
@pytest.mark.parametrize(
    "place", ["models: [{{source: a, input_shape: {}}}]", "models: {}", "data: {}", "grids: {}", "protocol: {}"]
)
def test_a_value_that_the_form_cannot_show_leaves_its_other_fields(place: str, value: str) -> None:
    shown = read(f"name: june\n{place.format(value)}\n")
    assert shown is not None
    assert shown.form.name == "june"
    if "input_shape" in place:
        assert "side" in shown.hidden


def test_a_change_keeps_comments_and_what_the_form_cannot_show() -> None:
    text = HAND
    for name in FIELDS:
        text = write(text, name, OTHER[name])
    for comment in (
        "# What we ship in May.",
        "name: june   # for the store",
        "source: resnet50  # torchvision's",
        "- {source: resnet18, weights: random}",
        "reuse_input:   # both\n      - true\n      - false",
        "{precision: [int8], qengine: [qnnpack]}",
        "devices: [local, 'ssh:me@board, of mine']  # on the shelf",
        "recovery: {retries: 1}",
    ):
        assert comment in text, text


@pytest.mark.parametrize("file", sorted(SPECS.glob("*.yaml")), ids=lambda file: file.stem)
def test_every_example_survives_a_change_and_its_change_back(file: Path) -> None:
    text = file.read_text()
    shown = read(text)
    assert shown is not None
    changed_text = write(text, "name", "another")
    assert changed_text.count("#") == text.count("#")
    assert write(changed_text, "name", shown.form.name) == text
    for name in FIELDS:
        if name not in shown.hidden:
            assert values(write(text, name, getattr(shown.form, name))) is not None


def test_synthetic_images_come_and_go_with_an_objective_without_accuracy() -> None:
    text = SweepForm().text()
    synthetic = write(text, "images", "synthetic")
    assert (values(synthetic) or {})["objective"] == WITHOUT_TRUTH
    assert values(write(synthetic, "images", "digits")) == values(text)
    own = changed(text, ("objective",), {"minimize": "artifact_mb"})
    assert (values(write(own, "images", "synthetic")) or {})["objective"] == {"minimize": "artifact_mb"}


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("models: [{source: a, input_shape: [1, 3, 32, 64]}]\nname: x", ("side",)),
        ("models: 3\nname: [x]", ("name", "source", "arguments", "weights", "side")),
        ("name: x\nmodels: [{source: a}]\ndata: {calibration: {source: digits}, evaluation: {source: x}}", ("images",)),
        ("name: x\nmodels: [{source: a}]\ngrids: [{threads: [true], precision: fp32}]", ("precisions", "threads")),
        ("name: x\nmodels: [{source: a}]\nprotocol: {preset: slow}", ("preset",)),
        (f"{PLAIN}protocol: {{rounds: 0, gate: {{max_load: 1}}}}", ("rounds", "gate")),
        (f"{PLAIN}budget: {{device_minutes: x}}", ("budget",)),
    ],
)  # fmt: skip
def test_what_the_form_cannot_show_is_hidden(text: str, hidden: tuple[str, ...]) -> None:
    shown = read(text)
    assert shown is not None
    assert shown.hidden == hidden


@pytest.mark.parametrize(
    ("text", "beside"),
    [
        (HAND, ("1 more models", "1 more grids", "reuse_input", "recovery")),
        (
            "grids: [{runtime: [onnxruntime], opset: [18], name: old, toolchain: [x], runner_toolchain: [y]}]",
            ("opset", "a name of the grid", "toolchain", "runner_toolchain"),
        ),
        ("grids: 3", ()),
        ("grids: [3]", ()),
    ],
)
def test_what_has_no_field_is_named_beside_the_form(text: str, beside: tuple[str, ...]) -> None:
    shown = read(text)
    assert shown is not None
    assert shown.beside == beside


@pytest.mark.parametrize("text", ["a: [", "- a", "3", "\x00", "a: &a [*a]"])
def test_what_is_no_file_is_not_read(text: str) -> None:
    assert read(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "name: &n x\nmodels: [{source: *n}]\n",
        "name: |\n  long\nmodels: [{source: a}]\n",
        "name: >-\n  long\n\n  text\nmodels: [{source: a}]",
        "? name\n: x\n",
        "'name': x",
        "name:\nmodels:\n",
        "---\nname: x\n...\n",
        "name: x # no newline",
        "{}",
        "# only a comment\n",
        "\ufeffname: x\n",
        "name: x\r\nmodels:\r\n- source: a\r\n",
    ],
)
def test_odd_yaml_has_the_new_value_and_every_old_one(text: str) -> None:
    before = values(text)
    assert before is not None
    for value in ("y", "a: b # c", "'\"", "- x", "{a}", "", "no", "1e3"):
        assert values(changed(text, ("name",), value)) == {**before, "name": value}
    document = values(changed(text, ("models", 0, "source"), "b, c"))
    assert document is not None
    assert document["models"][0]["source"] == "b, c"
    assert values(changed(text, ("name",), GONE)) == {key: entry for key, entry in before.items() if key != "name"}


@pytest.mark.parametrize("name", FIELDS)
def test_a_field_is_in_the_address_as_it_is(name: str) -> None:
    value = tuple(item for item in OTHER[name] if "," not in item) if name == "devices" else OTHER[name]
    assert of_address(name, to_address(name, value)) == value


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *(("side", text) for text in ("x", "9" * 5000, "²")),
        *(("threads", text) for text in ("0", "1,x", "1025")),
        *(("precisions", "fp23"), ("preset", "slow"), ("layouts", "nchw,<script>"), ("runtimes", "tflite")),
        *(("rounds", "0"), ("rounds", "101"), ("gate", "all"), ("budget", "fast")),
    ],
)
def test_what_no_field_can_have_is_refused(name: str, text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        of_address(name, text)
