"""Strict parser of a PyTorch Mobile runner's output: a complete and valid report, or a `RunnerError`.

One JSON object per line, with its kind in `event`; `error` instead of `end` if the runner failed:

    start            runner, runner_version, torch, file_version_max, bytecode_version_max; of C++ runners also engines,
                     backends
    load             load_ns, rss_before_load_bytes
    first_inference  ns
    warmup, sample   ns: a list, one entry per iteration; several lines are concatenated
    eval             images, classes
    metrics          values: additional figures of the runner by name (`sweeps.metrics.checked_extra`)
    ran              backend, reference, engine, threads, cpus, rss_peak_bytes
    nnapi_model      operations: names, in the model's order
    nnapi_device     name, type, version, feature_level, accepts: for each operation, or null
    error            kind, message
    end
"""

import json
import re
from typing import Any, NoReturn

from sweeps.errors import ABSENT_KINDS, FINAL_KINDS, RunnerError
from sweeps.metrics import checked_extra
from workers.runtimes.interface import RunnerIdentity, RunReport
from workers.runtimes.torchscript.nnapi.nnapi_devices import NnapiDevice, NnapiListing

MAX_BYTES = 64 * 1024 * 1024
_MAX_INT = 2**63 - 1
_MAX_TEXT = 200
_KIND = re.compile(r"[a-z][a-z0-9_]{0,63}")
_RESERVED_KINDS = (
    ABSENT_KINDS
    | FINAL_KINDS
    | {
        "adb_in_use",
        "bad_name",
        "corrupt_push",
        "disconnected",
        "no_artifact",
        "no_exit_code",
        "no_output",
        "no_space",
        "os_error",
        "rebooted",
        "timeout",
        "too_much_output",
        "worker_error",
        "worker_lost",
    }
)
"""Failure kinds of devices and hosts, some of which decide whether and when a job is retried: a runner must not report
them."""
_OF_LIBRARY = ("backend_missing", "load_failed", "run_failed", "runtime_skew")
_ONCE = ("start", "load", "first_inference", "eval", "metrics", "ran", "nnapi_model", "error", "end")
_REPEATED = ("warmup", "sample", "nnapi_device")


def parse(stdout: bytes) -> RunReport:
    """Parse the runner's complete output.

    Raises `RunnerError`: with the runner's own kind if it reported one, else `no_report`, `truncated` (no `end` line)
    or `garbled` (invalid content).
    """
    events = _complete_events(stdout)
    for name in ("start", "load", "first_inference", "ran"):
        if name not in events:
            _garbled(f"there is no {name} line")
    start, load, ran = events["start"][0], events["load"][0], events["ran"][0]
    evaluation = events["eval"][0] if "eval" in events else None
    samples = _durations(events.get("sample", []))
    if bool(samples) == (evaluation is not None):
        _garbled("a report has either samples or an evaluation")
    reference = ran.get("reference", False)
    if type(reference) is not bool or (reference and samples):
        _garbled("an emulated backend has no times")
    return RunReport(
        runner=f"{_text(start, 'runner')} {_text(start, 'runner_version')}",
        runtime_version=_text(start, "torch"),
        file_version_max=_optional(start, "file_version_max"),
        bytecode_version_max=_optional(start, "bytecode_version_max"),
        load_ns=_positive(load.get("load_ns"), "load_ns"),
        first_inference_ns=_positive(events["first_inference"][0].get("ns"), "first_inference"),
        warmup_ns=_durations(events.get("warmup", [])),
        samples_ns=samples,
        rss_before_load_bytes=_optional(load, "rss_before_load_bytes"),
        rss_peak_bytes=_optional(ran, "rss_peak_bytes"),
        backend_ran=_text(ran, "backend"),
        engine_ran=_text(ran, "engine"),
        threads_ran=_positive(ran.get("threads"), "threads"),
        eval_images=None if evaluation is None else _positive(evaluation.get("images"), "images"),
        eval_classes=None if evaluation is None else _positive(evaluation.get("classes"), "classes"),
        reference=reference,
        cpus_ran=_cpus(ran.get("cpus")),
        extra_metrics=_extra(events["metrics"][0]) if "metrics" in events else {},
    )


def identity(stdout: bytes) -> RunnerIdentity:
    """Return a runner's identity, from the start line of its `--nnapi-devices` output.

    Errors in the list of accelerators may come from the device's drivers: then the list is empty. Raises `RunnerError`
    like `parse`.
    """
    start = _start_event(stdout)
    engines = start.get("engines")
    if not isinstance(engines, list) or not all(isinstance(name, str) for name in engines):
        _garbled("start without the names of its engines")
    return RunnerIdentity(
        runner=f"{_text(start, 'runner')} {_text(start, 'runner_version')}",
        runtime_version=_text(start, "torch"),
        qengines=tuple(sorted({*engines} - {"none"})),
        accelerators=_accelerators(stdout),
        backends=_backends(start),
    )


def _backends(start: dict[str, Any]) -> tuple[str, ...]:
    """Return the backends that a program reports if it was compiled with a choice of them; empty for other programs."""
    names = start.get("backends", [])
    if not isinstance(names, list) or not all(isinstance(name, str) and _KIND.fullmatch(name) for name in names):
        _garbled("start with other backends than a list of their names")
    return tuple(names)


def _start_event(stdout: bytes) -> dict[str, Any]:
    """Return the start line; the lines after it may be invalid."""
    first, newline, _ = stdout.lstrip().partition(b"\n")
    try:
        event = _event(first.decode("utf-8"), 1) if newline else {}
    except (UnicodeDecodeError, RunnerError):
        event = {}
    if event.get("event") != "start":
        _complete_events(stdout)  # raises a more precise error, if there is one
        _garbled("there is no start line")
    return event


def _accelerators(stdout: bytes) -> tuple[str, ...]:
    try:
        return tuple(device.name for device in listing(stdout).devices if device.name)
    except RunnerError:
        return ()


def listing(stdout: bytes) -> NnapiListing:
    """Parse the complete output of `--nnapi-devices`. Raises `RunnerError` like `parse`."""
    events = _complete_events(stdout)
    operations: tuple[str, ...] | None = None
    if "nnapi_model" in events:
        names = events["nnapi_model"][0].get("operations")
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            _garbled("nnapi_model without the names of its operations")
        operations = tuple(names)
    devices = tuple(_device(event, operations) for event in events.get("nnapi_device", []))
    return NnapiListing(devices=devices, operations=operations)


def _device(event: dict[str, Any], operations: tuple[str, ...] | None) -> NnapiDevice:
    accepts = event.get("accepts")
    if accepts is not None and not (isinstance(accepts, list) and all(type(accepted) is bool for accepted in accepts)):
        _garbled("accepts is no list of true and false")
    if (None if accepts is None else len(accepts)) != (None if operations is None else len(operations)):
        _garbled("accepts does not match the model's operations")
    return NnapiDevice(
        name=_driver_text(event, "name"),
        type=_text(event, "type"),
        version=_driver_text(event, "version"),
        feature_level=_driver_number(event, "feature_level"),
        accepts=None if accepts is None else tuple(accepts),
    )


def _complete_events(stdout: bytes) -> dict[str, list[dict[str, Any]]]:
    events = _events(stdout)
    if "error" in events:
        error = events["error"][0]
        kind, message = error.get("kind"), error.get("message")
        if not (isinstance(kind, str) and _KIND.fullmatch(kind) and isinstance(message, str)):
            _garbled("an error without kind and message")
        if kind in _RESERVED_KINDS:
            _garbled(f"{kind} is no error of a runner: {message[:200]}")
        raise RunnerError(kind, f"{_library(events, kind, message)}{message}"[:1000])
    if "end" not in events:
        raise RunnerError("truncated", "the runner's report has no end line")
    return events


def _library(events: dict[str, list[dict[str, Any]]], kind: str, message: str) -> str:
    """Return the beginning of an error's message: the library and its version, if the runner reports them and the error
    does not name them. Whether a library can read a file depends on its version."""
    version = events.get("start", [{}])[0].get("torch")
    # torch's own runner reports a bare version number, and its errors name it where it matters.
    if kind not in _OF_LIBRARY or not isinstance(version, str) or " " not in version or version in message:
        return ""
    return f"{version[:_MAX_TEXT]}: "


def _events(stdout: bytes) -> dict[str, list[dict[str, Any]]]:
    if len(stdout) > MAX_BYTES:
        raise RunnerError("garbled", f"the runner printed {len(stdout)} bytes; at most {MAX_BYTES} are read")
    try:
        lines = stdout.decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise RunnerError("garbled", f"the runner's output is not UTF-8 (byte {error.start})") from error
    unfinished = lines.pop()
    lines = [line for line in lines if line.strip()]
    if not lines and not unfinished.strip():
        raise RunnerError("no_report", "the runner printed nothing")
    events: dict[str, list[dict[str, Any]]] = {}
    for number, line in enumerate(lines, start=1):
        if "end" in events:
            _garbled("something follows the end line")
        event = _event(line, number)
        name = event["event"]
        if name in _ONCE and name in events:
            _garbled(f"two {name} lines")
        events.setdefault(name, []).append(event)
    if unfinished.strip() and "error" not in events:
        # A line without its newline was cut off.
        raise RunnerError("truncated", "the runner's report ends inside a line")
    return events


def _event(line: str, number: int) -> dict[str, Any]:
    try:
        event = json.loads(line, parse_constant=_garbled)
    except (ValueError, RecursionError) as error:
        raise RunnerError("garbled", f"line {number} of the runner's report is not JSON: {line[:80]!r}") from error
    if not isinstance(event, dict) or event.get("event") not in (*_ONCE, *_REPEATED):
        _garbled(f"line {number} is no event: {line[:80]!r}")
    return event


def _durations(events: list[dict[str, Any]]) -> tuple[int, ...]:
    durations: list[int] = []
    for event in events:
        values = event.get("ns")
        if not isinstance(values, list):
            _garbled(f"{event['event']} holds no list of ns")
        durations.extend(_positive(value, event["event"]) for value in values)
    return tuple(durations)


def _positive(value: object, name: str) -> int:
    if type(value) is not int or not 0 < value <= _MAX_INT:
        _garbled(f"{name} is no positive whole number: {value!r:.40}")
    return value


def _cpus(value: object) -> tuple[int, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(type(cpu) is int and 0 <= cpu < 65536 for cpu in value):
        _garbled(f"cpus is no list of CPUs: {value!r:.40}")
    return tuple(value)


def _extra(event: dict[str, Any]) -> dict[str, float]:
    values = event.get("values")
    if not isinstance(values, dict):
        _garbled("metrics without their values")
    try:
        return checked_extra(values)
    except ValueError as error:
        _garbled(str(error))


def _optional(event: dict[str, Any], name: str) -> int | None:
    value = event.get(name)
    return None if value is None else _positive(value, name)


def _text(event: dict[str, Any], name: str) -> str:
    value = event.get(name)
    if not isinstance(value, str) or not 0 < len(value) <= _MAX_TEXT:
        _garbled(f"{name} is no text: {value!r:.40}")
    return value


def _driver_text(event: dict[str, Any], name: str) -> str:
    """Return a text from a driver; it may be empty, and is cut if it is too long."""
    value = event.get(name)
    if not isinstance(value, str):
        _garbled(f"{name} is no text: {value!r:.40}")
    return value[:_MAX_TEXT]


def _driver_number(event: dict[str, Any], name: str) -> int:
    """Return a whole number from a driver, also an implausible one."""
    value = event.get(name)
    if type(value) is not int or not -_MAX_INT - 1 <= value <= _MAX_INT:
        _garbled(f"{name} is no whole number: {value!r:.40}")
    return value


def _garbled(why: str) -> NoReturn:
    raise RunnerError("garbled", f"the runner's report is invalid: {why}")
