"""The phone page explains every error that a phone can end with, and none that there is not."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from sweeps.errors import ABSENT_KINDS
from tests.source_code import ROOT, calls_of, nodes_of

pytestmark = pytest.mark.xdist_group("sources")

PAGE = (ROOT / "infra" / "phones.md").read_text(encoding="utf-8")
NATIVE = sorted((ROOT / "workers" / "native").glob("runner*"))
# The modules on the way from a sweep file to a phone and back; what only builds or serves a host is left out.
_ELSEWHERE = {"artifacts", "demo_training", "doctor", "inline"}
_TORCHSCRIPT = ("batch_report", "native_runner", "printed_tensor", "programs", "report", "speed_benchmark*")
SOURCES = sorted(
    {
        *(
            path
            for folder in ("", "driver", "executors", "hosts", "measure", "models", "native")
            for path in (ROOT / "workers" / folder).glob("*.py")
            if path.stem not in _ELSEWHERE
        ),
        *(
            path
            for name in ("adb", "remote", "ssh", "virtual_phone")
            for path in (ROOT / "workers/devices" / name).glob("*.py")
        ),
        ROOT / "workers" / "devices" / "local.py",
        ROOT / "workers" / "devices" / "registry.py",
        ROOT / "workers" / "devices" / "shell.py",
        *(path for name in _TORCHSCRIPT for path in (ROOT / "workers/runtimes/torchscript").glob(f"{name}.py")),
        ROOT / "sweeps" / "cli" / "devices.py",
        ROOT / "sweeps" / "cli" / "virtual_phone.py",
        *(ROOT / "sweeps" / "tool_logs").glob("*.py"),
        ROOT / "workers" / "runtimes" / "counting_tool.py",
        ROOT / "workers" / "runtimes" / "executorch" / "executor_runner.py",
        ROOT / "workers" / "runtimes" / "onnxruntime" / "perf_test.py",
    }
)
ERRORS = ("DeviceError", "HostError", "RunnerError", "BuildError", "Failed")
KIND = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)+|[a-z]{4,}")
# `local.py` is the device of this host: only what it makes of an `OSError` happens with phones too.
NOT_OF_PHONES = {
    "workers/devices/local.py": {"timeout", "bad_name", "no_output"},
    "workers/native/aar.py": {"no_library"},
    "workers/native/android.py": {"no_cmake", "no_ndk", "not_for_phones", "not_placed"},
}


class UnknownKindError(Exception):
    """The kind of an error that these tests cannot read from the source."""


@cache
def kinds_of(path: Path) -> frozenset[str]:
    """The kinds of the errors that a module makes."""
    functions = {node.name: node for node in nodes_of(path) if isinstance(node, ast.FunctionDef)}
    kinds: set[str] = set()
    for function, call in calls_of(path):
        name = _name(call)
        arguments = {word.arg: word.value for word in call.keywords}
        if name not in ERRORS or not (call.args or arguments):
            continue
        if _is_text(arguments.get("stage"), "build"):
            continue  # an error of a build, which happens on a host
        kind = arguments.get("kind") if name == "Failed" else call.args[0]
        assert kind is not None, ast.unparse(call)
        kinds |= set(_words(kind, function, functions))
    return frozenset(kinds)


def _words(kind: ast.expr, function: ast.FunctionDef | None, functions: dict[str, ast.FunctionDef]) -> Iterator[str]:
    match kind:
        case ast.Constant(value=str(word)):
            yield word
        case ast.IfExp(body=body, orelse=other):
            yield from _words(body, function, functions)
            yield from _words(other, function, functions)
        case ast.Attribute(attr="kind"):
            return  # another error's, which was made elsewhere
        case ast.Call(func=ast.Name(id=name)):
            for node in ast.walk(functions[name]):
                if isinstance(node, ast.Return) and node.value is not None:
                    yield from _words(node.value, functions[name], functions)
        case ast.Name(id=name) if function is not None and name in (
            names := [argument.arg for argument in function.args.args]
        ):
            defaults = function.args.defaults
            if (place := names.index(name) - len(names) + len(defaults)) >= 0:
                yield from _words(defaults[place], None, functions)
            yield from _arguments(function.name, name, names.index(name) - (names[0] == "self"))
        case ast.Name(id="kind") if function is not None and function.name == "_complete_events":
            return  # the runner's own: `native_kinds`
        case _:
            raise UnknownKindError(ast.unparse(kind))


def _arguments(function: str, parameter: str, place: int) -> Iterator[str]:
    """The expressions that all sources give a function for its parameter."""
    for caller, call in _callers()[function]:
        words = [word.value for word in call.keywords if word.arg == parameter]
        for word in call.args[place : place + 1] or words:
            yield from _words(word, caller, {})


@cache
def _callers() -> defaultdict[str, list[tuple[ast.FunctionDef | None, ast.Call]]]:
    """The calls of all sources, by the name of what they call."""
    callers = defaultdict(list)
    for path in SOURCES:
        for caller, call in calls_of(path):
            callers[_name(call)].append((caller, call))
    return callers


def _name(call: ast.Call) -> str:
    match call.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def _is_text(node: ast.expr | None, text: str) -> bool:
    return isinstance(node, ast.Constant) and node.value == text


def native_kinds() -> set[str]:
    """The kinds that the C++ runner itself tells."""
    text = "".join(path.read_text(encoding="utf-8") for path in NATIVE)
    kinds = set(re.findall(r'(?:GiveUp|return) ?\{"([a-z_]+)"', text))
    kinds |= set(re.findall(r'with\("kind", "([a-z_]+)"\)', text))
    return kinds | {word for pair in re.findall(r'\? "(\w+)" : "(\w+)", text\}', text) for word in pair}


def all_kinds() -> set[str]:
    kinds = native_kinds()
    for path in SOURCES:
        kinds |= kinds_of(path) - NOT_OF_PHONES.get(str(path.relative_to(ROOT)), set())
    return kinds


def documented() -> dict[str, list[str]]:
    """The cells of each kind's row: kind, meaning, what to do."""
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in PAGE.partition("<!-- kinds:")[2].splitlines()
        if re.match(r"\| \**`", line)
    ]
    kinds = [row[0].strip("*`") for row in rows]
    assert len(kinds) == len(set(kinds)), "a kind has two rows"
    return dict(zip(kinds, rows, strict=True))


def test_every_error_of_a_phone_is_explained() -> None:
    assert sorted(all_kinds() - documented().keys()) == []


def test_no_error_is_explained_that_there_is_not() -> None:
    assert sorted(documented().keys() - all_kinds()) == []


def test_every_explanation_says_what_it_means_and_what_to_do() -> None:
    incomplete = [kind for kind, row in documented().items() if len(row) != 3 or min(map(len, row[1:])) < 10]
    assert incomplete == []


def test_the_kinds_that_wait_for_the_phone_are_the_bold_ones() -> None:
    bold = {kind for kind, row in documented().items() if row[0].startswith("**")}
    assert bold == ABSENT_KINDS


def test_every_kind_in_the_sources_is_read() -> None:
    assert [(path, kind) for path in SOURCES for kind in kinds_of(path) if not KIND.fullmatch(kind)] == []


def test_kinds_that_are_handed_through_functions_are_found() -> None:
    connection = kinds_of(ROOT / "workers" / "devices" / "adb" / "phone_connection.py")
    assert {"offline", "disconnected", "no_exit_code", "no_output", "os_error", "timeout"} <= connection
    assert {"crashed", "killed"} <= set().union(*map(kinds_of, (ROOT / "workers" / "measure").glob("*.py")))
    assert {"nnapi_run_failed", "runtime_skew", "out_of_memory"} <= native_kinds()


def test_the_udev_rule_that_the_page_installs_is_there() -> None:
    (named,) = set(re.findall(r"infra/udev/\S+\.rules", PAGE))
    lines = (ROOT / named).read_text(encoding="utf-8").splitlines()
    (rule,) = [line for line in lines if line and not line.startswith("#")]
    assert named in "\n".join(lines)
    assert re.fullmatch(r'([A-Z]+(\{\w+\})?(==|=|\+=)"[^"]*"(, |$))+', rule)
