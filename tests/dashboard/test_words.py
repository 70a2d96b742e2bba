"""A build's name has all that tells two apart, and nothing that Markdown could read otherwise."""

from dataclasses import replace

import pytest

from dashboard.markdown_escape import inert, words
from dashboard.words import TRUST_WORDS, build_names, device_names, plain_words, setup_names, wrapped
from sweeps.label_kinds import TRUST
from sweeps.metrics import METRICS
from tests.sweeps.conftest import Records

records = Records()
ROW = replace(records.row(records.job(1)), qengine="qnnpack", layout="nhwc", threads=4)


def test_a_build_is_called_by_its_numbers_layout_engine_and_threads() -> None:
    assert build_names([ROW]) == {ROW.job_key: "int8 · NHWC · QNNPACK · 4 threads"}


@pytest.mark.parametrize(
    ("change", "first", "second"),
    [
        ({"threads": 1}, "int8 · NHWC · QNNPACK · 4 threads", "int8 · NHWC · QNNPACK · 1 thread"),
        (
            {"capture": "trace"},
            "int8 · NHWC · QNNPACK · 4 threads · scripted",
            "int8 · NHWC · QNNPACK · 4 threads · traced",
        ),
        ({"backend": "nnapi"}, "int8 · NHWC · QNNPACK · 4 threads", "NNAPI · int8 · NHWC · QNNPACK · 4 threads"),
        (
            {"cpus": "big"},
            "int8 · NHWC · QNNPACK · 4 threads · cores all",
            "int8 · NHWC · QNNPACK · 4 threads · cores big",
        ),
        ({"grid": "second"}, "int8 · NHWC · QNNPACK · 4 threads", "int8 · NHWC · QNNPACK · 4 threads · second"),
    ],
)
def test_what_tells_two_builds_apart_is_in_their_names(change: dict[str, object], first: str, second: str) -> None:
    other = replace(ROW, job_key="other", **change)
    assert build_names([ROW, other]) == {ROW.job_key: first, "other": second}


def test_no_two_builds_have_one_name_even_if_all_axes_are_equal() -> None:
    keys = ["a" * 64, "b" * 64, "c" * 64]
    called = "int8 · NHWC · QNNPACK · 4 threads"
    alike = build_names([replace(ROW, job_key=key) for key in keys])
    assert alike == {key: f"{called} · {number} of 3" for number, key in enumerate(keys, 1)}
    after_an_update = replace(ROW, job_key=keys[0], runtime_version="2.13.0")
    names = build_names([ROW, after_an_update])
    assert names[keys[0]] == f"{called} · 2.13.0"
    assert names[ROW.job_key] != names[keys[0]]


def test_one_build_on_several_devices_has_one_name() -> None:
    rows = [ROW, replace(ROW, job_key="other", device_id="phone-2"), replace(ROW, job_key="slow", threads=1)]
    assert set(setup_names(rows).values()) == {"int8 · NHWC · QNNPACK · 4 threads", "int8 · NHWC · QNNPACK · 1 thread"}


def test_devices_of_one_text_have_their_ids_beside_it() -> None:
    assert device_names({"a": "Phone", "b": "Phone", "c": "Board"}) == {
        "a": "Phone · a",
        "b": "Phone · b",
        "c": "Board",
    }


def test_every_doubt_has_words_and_no_reason_has_a_metrics_raw_name() -> None:
    assert TRUST_WORDS.keys() == TRUST.keys()
    for name in METRICS:
        assert name not in plain_words(f"{name} is 3 ms, not at most 2")
    assert plain_words("accuracy_drop_points is 2") == "the accuracy drop is 2"


@pytest.mark.parametrize("width", [5, 12, 40])
def test_wrapping_leaves_nothing_out(width: int) -> None:
    text = "NNAPI · int8 · NHWC · a-very-long-word-of-a-device · 4 threads"
    lines = wrapped(text, width)
    assert max(map(len, lines)) <= width
    assert "".join("".join(lines).replace("·", "").split()) == "".join(text.replace("·", "").split())
    assert not any(line.startswith("·") or line.endswith("·") for line in lines)


def test_harmless_text_is_plain_with_its_marks_escaped_and_all_else_is_a_code_span() -> None:
    for harmless in (
        "int8 · NHWC · QNNPACK · 4 threads",
        "Pixel 8 (Tensor G3)",
        "mobilenet_v3_large",
        "2.5 ms",
        "why: 3 %",
        "since 13:48 UTC: unplugged?",
    ):
        assert words(harmless) == harmless
    for marked, escaped in (
        ("model[1]", r"model\[1\]"),
        ("[x]", r"\[x\]"),
        ("[x](y)", r"\[x\](y)"),
        ("# x", r"\# x"),
        ("*x*", r"\*x\*"),
        ("R&D's 'net'", r"R\&D's 'net'"),
    ):
        assert words(marked) == escaped, "text, and no code"
    for harm in (
        "<b>",
        "_x_",
        "www.example.com",
        "a.b",
        ":smile:",
        "$x$",
        "x -> y",
        "x:red[y]",
        "`",
        "1. x",
        "1) x",
        "- x",
        "(c)",
    ):
        assert words(harm) == inert(harm)
