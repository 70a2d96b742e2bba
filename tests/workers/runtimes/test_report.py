"""Transcripts of runners, whole and broken."""

import json
from typing import Any

import pytest

from sweeps.errors import ABSENT_KINDS, FINAL_KINDS, RunnerError
from tests.source_code import ROOT
from tests.test_phones_doc import kinds_of, native_kinds
from workers.runtimes.torchscript import runner_report

START: dict[str, Any] = {
    "event": "start",
    "runner": "python-torchscript",
    "runner_version": "1",
    "torch": "2.12.1+cu130",
    "file_version_max": 10,
    "bytecode_version_max": 9,
}
LOAD: dict[str, Any] = {"event": "load", "load_ns": 41_000_000, "rss_before_load_bytes": 494_000_000}
FIRST: dict[str, Any] = {"event": "first_inference", "ns": 9_000_000}
WARMUP: dict[str, Any] = {"event": "warmup", "ns": [8_000_000, 7_900_000]}
SAMPLE: dict[str, Any] = {"event": "sample", "ns": [7_700_000, 7_800_000, 7_750_000]}
EVAL: dict[str, Any] = {"event": "eval", "images": 597, "classes": 10}
RAN: dict[str, Any] = {
    "event": "ran",
    "backend": "cpu",
    "reference": False,
    "engine": "x86",
    "threads": 1,
    "cpus": [0, 4],
    "rss_peak_bytes": 500_000_000,
}
END: dict[str, Any] = {"event": "end"}
WHOLE = (START, LOAD, FIRST, WARMUP, SAMPLE, RAN, END)


def transcript(*events: dict[str, Any]) -> bytes:
    return "".join(json.dumps(event) + "\n" for event in events).encode()


def without(event: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in event.items() if key != name}


def test_a_timing_is_read_whole() -> None:
    parsed = runner_report.parse(transcript(*WHOLE))
    assert parsed.runner == "python-torchscript 1"
    assert parsed.runtime_version == "2.12.1+cu130"
    assert (parsed.file_version_max, parsed.bytecode_version_max) == (10, 9)
    assert (parsed.load_ns, parsed.first_inference_ns) == (41_000_000, 9_000_000)
    assert parsed.warmup_ns == (8_000_000, 7_900_000)
    assert parsed.samples_ns == (7_700_000, 7_800_000, 7_750_000)
    assert (parsed.rss_before_load_bytes, parsed.rss_peak_bytes) == (494_000_000, 500_000_000)
    assert (parsed.backend_ran, parsed.engine_ran, parsed.threads_ran) == ("cpu", "x86", 1)
    assert (parsed.eval_images, parsed.eval_classes) == (None, None)
    assert (parsed.reference, parsed.cpus_ran) == (False, (0, 4))


def test_an_evaluation_is_read_whole() -> None:
    parsed = runner_report.parse(transcript(START, LOAD, FIRST, EVAL, RAN, END))
    assert (parsed.eval_images, parsed.eval_classes, parsed.samples_ns) == (597, 10, ())


def test_an_evaluation_on_a_reference_says_so() -> None:
    ran = RAN | {"backend": "nnapi", "reference": True}
    assert runner_report.parse(transcript(START, LOAD, FIRST, EVAL, ran, END)).reference


def test_a_runner_that_does_not_know_its_cpus_or_of_references_is_read() -> None:
    parsed = runner_report.parse(
        transcript(START, LOAD, FIRST, SAMPLE, without(without(RAN, "cpus"), "reference"), END)
    )
    assert (parsed.reference, parsed.cpus_ran) == (False, ())


DEVICE: dict[str, Any] = {
    "event": "nnapi_device",
    "name": "qti-hta",
    "type": "accelerator",
    "version": "1.3",
    "feature_level": 30,
    "accepts": None,
}
MODEL: dict[str, Any] = {"event": "nnapi_model", "operations": ["CONV_2D", "RELU"]}


def test_a_listing_of_accelerators_is_read_whole() -> None:
    other = DEVICE | {"name": "nnapi-reference", "type": "cpu"}
    listing = runner_report.listing(transcript(START, DEVICE, other, END))
    assert [device.name for device in listing.devices] == ["qti-hta", "nnapi-reference"]
    assert listing.operations is None
    assert runner_report.listing(transcript(START, END)).devices == ()
    whole = runner_report.listing(transcript(START, MODEL, DEVICE | {"accepts": [True, False]}, END))
    assert (whole.operations, whole.devices[0].accepts) == (("CONV_2D", "RELU"), (True, False))


@pytest.mark.parametrize(
    ("model", "device"),
    [
        (MODEL, DEVICE),
        (MODEL, DEVICE | {"accepts": [True]}),
        (MODEL, DEVICE | {"accepts": [1, 0]}),
        (MODEL | {"operations": "CONV_2D"}, DEVICE),
        (MODEL | {"operations": [4]}, DEVICE | {"accepts": [True]}),
        (MODEL, DEVICE | {"accepts": [True, True], "name": None}),
        (MODEL, DEVICE | {"accepts": [True, True], "version": 7}),
        (MODEL, DEVICE | {"accepts": [True, True], "feature_level": 2**63}),
        (MODEL, DEVICE | {"accepts": [True, True], "feature_level": True}),
    ],
)
def test_a_listing_that_makes_no_sense_is_refused(model: dict[str, Any], device: dict[str, Any]) -> None:
    with pytest.raises(RunnerError) as caught:
        runner_report.listing(transcript(START, model, device, END))
    assert caught.value.kind == "garbled"


def test_a_listing_without_an_end_is_truncated() -> None:
    with pytest.raises(RunnerError) as caught:
        runner_report.listing(transcript(START, DEVICE))
    assert caught.value.kind == "truncated"


ENGINES = START | {"engines": ["qnnpack", "none"]}


def test_what_drivers_say_of_themselves_may_be_nothing_or_too_much() -> None:
    silent = DEVICE | {"name": "", "version": "", "feature_level": 0}
    loud = DEVICE | {"name": "n" * 5000, "version": "v" * 5000, "feature_level": -(2**63)}
    silent_one, loud_one = runner_report.listing(transcript(START, silent, loud, END)).devices
    assert (silent_one.name, silent_one.version, silent_one.feature_level) == ("", "", 0)
    assert (loud_one.name, loud_one.version, loud_one.feature_level) == ("n" * 200, "v" * 200, -(2**63))
    assert runner_report.identity(transcript(ENGINES, silent, loud, END)).accelerators == ("n" * 200,)


@pytest.mark.parametrize(
    "rest",
    [
        transcript({"event": "error", "kind": "backend_missing", "message": "no NNAPI"}),
        transcript({"event": "error", "kind": "nnapi_compile_failed", "message": "getDeviceCount returned error 4"}),
        transcript({"event": "error", "kind": "Oh no", "message": ""}),
        transcript(DEVICE, DEVICE | {"feature_level": "30"}, END),
        transcript(DEVICE) + b'{"event": "nnapi_dev',
        transcript(DEVICE) + b"\xff\n",
        b"",
    ],
)
def test_a_runner_with_an_unreadable_list_of_accelerators_is_one_without_any(rest: bytes) -> None:
    identity = runner_report.identity(b"\n" + transcript(ENGINES) + rest)
    assert identity.runner == "python-torchscript 1"
    assert (identity.runtime_version, identity.qengines, identity.accelerators) == ("2.12.1+cu130", ("qnnpack",), ())


@pytest.mark.parametrize(
    ("stdout", "kind"),
    [
        (b"", "no_report"),
        (b"CANNOT LINK EXECUTABLE\n", "garbled"),
        (transcript(END), "garbled"),
        (transcript(ENGINES)[:-1], "truncated"),
        (transcript(START, END), "garbled"),
        (transcript({"event": "error", "kind": "bad_arguments", "message": "--nnapi-devices"}), "bad_arguments"),
    ],
)
def test_a_runner_that_does_not_introduce_itself_is_refused(stdout: bytes, kind: str) -> None:
    with pytest.raises(RunnerError) as caught:
        runner_report.identity(stdout)
    assert caught.value.kind == kind


def test_samples_on_several_lines_add_up_in_order() -> None:
    parsed = runner_report.parse(
        transcript(START, LOAD, FIRST, {**SAMPLE, "ns": [1]}, {**SAMPLE, "ns": [2, 3]}, RAN, END)
    )
    assert parsed.samples_ns == (1, 2, 3)


def test_what_a_device_cannot_tell_is_none() -> None:
    start = without(without(START, "file_version_max"), "bytecode_version_max")
    events = (start, without(LOAD, "rss_before_load_bytes"), FIRST, SAMPLE, without(RAN, "rss_peak_bytes"), END)
    parsed = runner_report.parse(transcript(*events))
    unknown = (parsed.file_version_max, parsed.bytecode_version_max, parsed.rss_before_load_bytes)
    assert (*unknown, parsed.rss_peak_bytes) == (None, None, None, None)


def test_an_error_line_keeps_the_runners_own_kind() -> None:
    error_line = {"event": "error", "kind": "runtime_skew", "message": "the file is of version 11"}
    with pytest.raises(RunnerError, match="the file is of version 11") as caught:
        runner_report.parse(transcript(START, error_line))
    assert caught.value.kind == "runtime_skew"


@pytest.mark.parametrize(
    ("library", "kind", "message", "expected"),
    [
        ("onnxruntime 1.32.0", "runtime_skew", "opset 99", "onnxruntime 1.32.0: opset 99"),
        ("onnxruntime 1.32.0", "load_failed", "no graph", "onnxruntime 1.32.0: no graph"),
        ("executorch 1.5.1", "runtime_skew", "executorch 1.5.1 reads ET12", "executorch 1.5.1 reads ET12"),
        ("onnxruntime 1.32.0", "no_model", "there is no file", "there is no file"),
        ("2.12.1", "load_failed", "no archive", "no archive"),
    ],
)
def test_an_error_of_a_library_begins_with_its_version(library: str, kind: str, message: str, expected: str) -> None:
    error = {"event": "error", "kind": kind, "message": message}
    with pytest.raises(RunnerError) as caught:
        runner_report.parse(transcript({**START, "torch": library}, error))
    assert (caught.value.kind, caught.value.message) == (kind, expected)


def kind_read(kind: str, message: str) -> str:
    """The kind of the error that a report ends with where the runner tells this one."""
    with pytest.raises(RunnerError) as caught:
        runner_report.parse(transcript(START, {"event": "error", "kind": kind, "message": message}))
    assert message in caught.value.message
    return caught.value.kind


def test_a_runner_cannot_pass_for_an_absent_device() -> None:
    adb = (ROOT / "workers" / "devices" / "adb").glob("*.py")
    named = (ROOT / "workers" / f"{name}.py" for name in ("executors/ray", "executors/lane", "measure/waiting"))
    of_devices = set().union(*map(kinds_of, (*adb, *named)))
    assert len(of_devices) > 20
    kinds = of_devices | ABSENT_KINDS | FINAL_KINDS
    assert {kind for kind in kinds if kind_read(kind, "the phone is away") != "garbled"} == set()


def test_every_kind_of_the_runner_itself_is_taken() -> None:
    kinds = native_kinds()
    assert len(kinds) > 20
    assert {kind: kind_read(kind, "") for kind in kinds} == {kind: kind for kind in kinds}


@pytest.mark.parametrize("stdout", [b"", b"\n \n"])
def test_silence_is_no_report(stdout: bytes) -> None:
    with pytest.raises(RunnerError) as caught:
        runner_report.parse(stdout)
    assert caught.value.kind == "no_report"


def test_every_cut_of_a_whole_report_is_refused() -> None:
    whole = transcript(*WHOLE)
    for length in range(len(whole)):
        with pytest.raises(RunnerError) as caught:
            runner_report.parse(whole[:length])
        assert caught.value.kind == ("no_report" if length == 0 else "truncated"), whole[:length]


@pytest.mark.parametrize(
    "stdout",
    [
        pytest.param(b"\xff\xfe" + transcript(*WHOLE), id="not UTF-8"),
        pytest.param(b"Segmentation fault\n" + transcript(*WHOLE), id="words between"),
        pytest.param(b"[1, 2]\n" + transcript(*WHOLE), id="no object"),
        pytest.param(b'{"event": "dance"}\n' + transcript(*WHOLE), id="unknown event"),
        pytest.param(b'{"event": ["start"]}\n' + transcript(*WHOLE), id="event of another type"),
        pytest.param(b"[" * 100_000 + b"\n" + transcript(*WHOLE), id="deep nesting"),
        pytest.param(transcript(*WHOLE, SAMPLE), id="something after the end"),
        pytest.param(transcript(START, *WHOLE), id="two starts"),
        pytest.param(transcript(*(event for event in WHOLE if event is not RAN)), id="nothing ran"),
        pytest.param(transcript(*(event for event in WHOLE if event is not START)), id="no start"),
        pytest.param(transcript(START, LOAD, FIRST, RAN, END), id="neither samples nor evaluation"),
        pytest.param(transcript(START, LOAD, FIRST, SAMPLE, EVAL, RAN, END), id="samples and evaluation"),
        pytest.param(transcript(START, LOAD, FIRST, {**SAMPLE, "ns": 5}, RAN, END), id="no list"),
        pytest.param(transcript(START, LOAD, FIRST, SAMPLE, RAN | {"reference": True}, END), id="emulated times"),
        pytest.param(transcript(START, LOAD, FIRST, SAMPLE, RAN | {"reference": 1}, END), id="reference of no kind"),
        pytest.param(transcript(START, LOAD, FIRST, SAMPLE, RAN | {"cpus": "0,1"}, END), id="cpus as text"),
        pytest.param(transcript(START, LOAD, FIRST, SAMPLE, RAN | {"cpus": [-1]}, END), id="cpus below 0"),
        pytest.param(transcript(START, {"event": "error", "kind": "Oh no", "message": ""}), id="no kind"),
    ],
)
def test_garbage_is_refused(stdout: bytes) -> None:
    with pytest.raises(RunnerError) as caught:
        runner_report.parse(stdout)
    assert caught.value.kind == "garbled"


@pytest.mark.parametrize("duration", [0, -1, 1.5, True, "7", None, 2**63])
def test_a_duration_that_no_clock_gives_is_refused(duration: object) -> None:
    for event in (LOAD | {"load_ns": duration}, FIRST | {"ns": duration}, SAMPLE | {"ns": [7, duration]}):
        events = [event if event["event"] == other["event"] else other for other in WHOLE]
        with pytest.raises(RunnerError) as caught:
            runner_report.parse(transcript(*events))
        assert caught.value.kind == "garbled"


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e400", "9" * 5000])
def test_numbers_that_are_none_are_refused(number: str) -> None:
    stdout = transcript(*WHOLE).replace(b"7700000", number.encode())
    with pytest.raises(RunnerError) as caught:
        runner_report.parse(stdout)
    assert caught.value.kind == "garbled"


def test_more_than_64_mib_are_not_read() -> None:
    with pytest.raises(RunnerError, match="at most 67108864") as caught:
        runner_report.parse(b" " * (64 * 1024 * 1024) + transcript(*WHOLE))
    assert caught.value.kind == "garbled"
