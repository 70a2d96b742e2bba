"""Supported by: counted, told apart from a reference's answer, and never said to have run."""

import io
import json

from rich.console import Console

from sweeps.nnapi_answers import Accelerator, Answer
from sweeps.report.accelerators_text import accepted_text, document, table

EVIL = "[red]npu[/red] <script> \x1b[31m\x1b]0;t\x07 **b**"
NPU = Accelerator(
    name="google-edgetpu", type="accelerator", version="1.3", feature_level=30, accepts=(True, False, False)
)
ALL = Accelerator(name="nnapi-reference", type="cpu", version="34", feature_level=31, accepts=(True, True, True))
ANSWER = Answer(
    phone="adb:1",
    device="Maker Phone (SoC)",
    device_id="unit",
    model="net",
    precision="int8",
    variant="nnapi int8-qnnpack nhwc",
    operations=("CONV_2D", "SOFTMAX", "SOFTMAX"),
    accelerators=(NPU, ALL),
)


def shown(*answers: Answer) -> str:
    out = io.StringIO()
    Console(file=out, width=200, markup=False, highlight=False).print(table(answers))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def test_what_is_not_accepted_is_named_and_counted() -> None:
    assert accepted_text(ANSWER, NPU) == "1 of 3 (not: SOFTMAX ×2)"
    assert accepted_text(ANSWER, ALL) == "3 of 3"


def test_who_accepts_nothing_needs_no_list() -> None:
    none = Accelerator(name="x", type="gpu", version="1", feature_level=29, accepts=(False, False, False))
    assert accepted_text(ANSWER, none) == "0 of 3"


def test_each_accelerator_has_a_line_under_supported_by() -> None:
    text = shown(ANSWER)
    assert "supported by" in text
    assert "ran on" not in text
    lines = [line for line in text.splitlines() if "adb:1" in line]
    assert [line.split()[-1] for line in lines] == ["×2)", "3"]
    assert "google-edgetpu" in lines[0]
    assert "reference library" not in text


def test_a_phone_without_nnapi_says_so_before_what_the_reference_takes() -> None:
    bare = Answer(
        phone="adb:2",
        device="Virtual",
        device_id="v",
        model="net",
        precision="int8",
        operations=ANSWER.operations,
        accelerators=(ALL,),
        reference="reference:nnapi@1",
        note="no NNAPI here",
    )
    first, second = (line for line in shown(bare).splitlines() if "adb:2" in line)
    assert "no NNAPI here; the reference library accepts:" in first
    assert "nnapi-reference (reference library)" in second
    (answer,) = document([bare])["answers"]
    assert (answer["reference"], answer["note"]) == ("reference:nnapi@1", "no NNAPI here")


def test_a_phone_that_was_not_asked_says_why() -> None:
    away = Answer(phone="adb:3", device="D", device_id="d", model="net", precision="fp32", note="it is offline")
    assert "it is offline" in shown(away)
    assert document([away])["answers"][0]["supported_by"] == []


def test_the_document_counts_operators_by_name() -> None:
    (answer,) = json.loads(json.dumps(document([ANSWER]), allow_nan=False))["answers"]
    assert answer["operations"] == {"CONV_2D": 1, "SOFTMAX": 2}
    npu, every = answer["supported_by"]
    assert (npu["accepted"], npu["not_accepted"]) == ({"CONV_2D": 1}, {"SOFTMAX": 2})
    assert (every["accepted"], every["not_accepted"]) == ({"CONV_2D": 1, "SOFTMAX": 2}, {})
    assert npu["feature_level"] == 30


def test_hostile_names_of_drivers_stay_text() -> None:
    driver = Accelerator(name=EVIL, type="gpu", version=EVIL, feature_level=29, accepts=(True, True, True))
    evil = Answer(
        phone="adb:1",
        device="D",
        device_id="d",
        model="net",
        precision="fp32",
        operations=("CONV_2D", "ADD", "ADD"),
        accelerators=(driver,),
    )
    text = shown(evil)
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "[red]npu[/red]" in text
    assert document([evil])["answers"][0]["supported_by"][0]["name"] == EVIL
