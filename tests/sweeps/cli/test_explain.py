"""`edgesweep explain`: every word of the catalogs has its explanation."""

import ast
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import get_args

import pytest
from click.testing import CliRunner

from dashboard.words import _CALLED
from sweeps import errors
from sweeps.cli.main import main
from sweeps.errors import EdgeSweepError, did_you_mean
from sweeps.failure_kinds import FAILS_AGAIN, FAILURES, USAGE, another_try, remedy
from sweeps.label_kinds import TRUST
from sweeps.metrics import METRICS
from sweeps.ranking.eligibility import VERDICTS
from sweeps.ranking.overview import State
from sweeps.report import terms
from sweeps.report.explanations import SORTS, explanation, explanations
from sweeps.report.explanations import explained as of_sort
from sweeps.report.ranking_text import _CHECKED_COLUMNS, _RANKING_COLUMNS
from sweeps.skip_kinds import SKIPS
from sweeps.spec.grid import GridSpec
from sweeps.spec.protocol import GateSpec, ProtocolSpec
from tests.source_code import ROOT, files_of, nodes_of
from workers import artifacts

pytestmark = pytest.mark.xdist_group("sources")

RAISING = {"BuildError", "DeviceError", "GiveUp", "HostError", "RunRefused", "RunnerError"}


HANDED_ON = {
    "workers/runtimes/operator_profile.py": "as the runner reports it",
    "workers/runtimes/torchscript/runner_report.py": "as the runner reports it",
}
"""Files with a raise site whose kind is another error's, and no word of the code."""


@dataclass(frozen=True, slots=True)
class Sites:
    """The raise sites of one file: their kinds, and the lines of those of which none is known."""

    kinds: set[str]
    unknown: list[int]


class Code:
    """All Python files, to find out which words a site raises. A name stands for what its file assigns to it and for
    what calls give that parameter, a function for the first of what it returns."""

    def __init__(self) -> None:
        self.nodes = {path: nodes_of(path) for path in files_of("sweeps", "workers")}
        self.functions: defaultdict[str, list[ast.FunctionDef]] = defaultdict(list)
        self.calls: defaultdict[str, list[ast.Call]] = defaultdict(list)
        for node in chain.from_iterable(self.nodes.values()):
            if isinstance(node, ast.FunctionDef):
                self.functions[node.name].append(node)
            elif isinstance(node, ast.Call):
                self.calls[name_of(node)].append(node)

    def sites(self) -> dict[str, Sites]:
        return {path.relative_to(ROOT).as_posix(): self.sites_in(path) for path in self.nodes}

    def sites_in(self, path: Path) -> Sites:
        sites = Sites(set(), [])
        for node in self.nodes[path]:
            if not isinstance(node, ast.Call):
                continue
            kind = next(
                (keyword.value for keyword in node.keywords if keyword.arg == "kind" and name_of(node) == "Failed"),
                None,
            )
            if name_of(node) in RAISING and node.args:
                kind = node.args[0]
            if kind is not None:
                words = {*self.words(kind, path, frozenset())}
                sites.kinds.update(words)
                if not words and not (isinstance(kind, ast.Attribute) and kind.attr in ("kind", "KIND")):
                    sites.unknown.append(node.lineno)
        return sites

    def words(self, node: ast.expr, path: Path, visited: frozenset[str]) -> Iterator[str]:
        inner: Iterable[ast.expr] = ()
        match node:
            case ast.Constant(value=str(word)):
                yield word
            case ast.IfExp(body=body, orelse=other):
                inner = body, other
            case ast.Starred(value=first) | ast.Tuple(elts=[first, *_]):
                inner = (first,)
            case ast.Name(id=name) if name not in visited:
                visited, inner = visited | {name}, self.values_of(name, path)
            case ast.Call(func=ast.Name(id=name)) if name not in visited:
                visited, inner = visited | {name}, self.returned_by(name)
        for expression in inner:
            yield from self.words(expression, path, visited)

    def values_of(self, name: str, path: Path) -> Iterator[ast.expr]:
        for node in self.nodes[path]:
            match node:
                case ast.Assign(targets=[ast.Name(id=target) | ast.Tuple(elts=[ast.Name(id=target), *_])], value=value):
                    if target == name:
                        yield value
                case ast.FunctionDef(name=function, args=arguments):
                    names = [argument.arg for argument in arguments.args if argument.arg != "self"]
                    for call in self.calls[function] if name in names else ():
                        yield from (keyword.value for keyword in call.keywords if keyword.arg == name)
                        yield from call.args[names.index(name) :][:1]

    def returned_by(self, function: str) -> Iterator[ast.expr]:
        for definition in self.functions[function]:
            yield from (node.value for node in ast.walk(definition) if isinstance(node, ast.Return) and node.value)


def name_of(call: ast.Call) -> str:
    return str(getattr(call.func, "id", getattr(call.func, "attr", "")))


@cache
def sites() -> dict[str, Sites]:
    return Code().sites()


def kinds_of_the_code() -> set[str]:
    python = {kind for site in sites().values() for kind in site.kinds}
    native = "".join(
        path.read_text() for path in (ROOT / "workers/native").glob("*.*") if path.suffix in (".cpp", ".h")
    )
    listed = {*errors.RETRIED_KINDS, *errors.FINAL_KINDS, *errors.ABSENT_KINDS, *errors.OWN_KINDS}
    raised = (
        member for member in vars(errors).values() if isinstance(member, type) and issubclass(member, EdgeSweepError)
    )
    return python | set(re.findall(r'GiveUp\{"(\w+)"', native)) | listed | {error.kind for error in raised} | {USAGE}


def test_every_kind_of_failure_is_explained_and_none_that_is_gone() -> None:
    assert kinds_of_the_code() == FAILURES.keys()


def test_the_kind_of_every_raise_site_is_known() -> None:
    unknown = {name: site.unknown for name, site in sites().items() if site.unknown}
    assert unknown.keys() == HANDED_ON.keys(), unknown


def test_another_try_is_offered_only_for_what_may_end_otherwise() -> None:
    assert FAILURES.keys() > FAILS_AGAIN
    assert FAILS_AGAIN.isdisjoint(artifacts.TRANSIENT_KINDS | {*errors.RETRIED_KINDS} | errors.ABSENT_KINDS)
    assert [kind for kind in FAILS_AGAIN if "--retry-failed" in FAILURES[kind].todo] == []
    assert another_try(["timeout"]) == "try again with --retry-failed"
    assert another_try(["timeout", "low_sqnr"]) == "1 of them: try again with --retry-failed"
    assert "--retry-failed" not in another_try(["low_sqnr"])


def test_what_to_do_fits_the_precision() -> None:
    assert "calibration" in remedy("low_sqnr", "int8")
    for precision in ("fp32", "fp16"):
        assert "fuse: [false]" in remedy("low_sqnr", precision)
        assert "calibration" not in remedy("low_sqnr", precision)
    assert remedy("not_scriptable", "fp32") == FAILURES["not_scriptable"].todo
    assert remedy("nobody knows it", "int8") == ""


@pytest.mark.parametrize(
    ("sort", "words"),
    [
        ("verdict", {*VERDICTS, "eliminated", "provisional"}),
        ("trust label", set(TRUST)),
        ("metric", set(METRICS)),
        ("axis", GridSpec.model_fields.keys() - {"name"}),
        ("protocol", {*ProtocolSpec.model_fields, *GateSpec.model_fields}),
    ],
)
def test_every_word_of_a_catalog_is_explained(sort: str, words: set[str]) -> None:
    known = {entry.word for several in explanations().values() for entry in several if entry.sort == sort}
    assert words <= known
    assert [name for name, metric in METRICS.items() if not (metric.meaning and metric.why and metric.todo)] == []
    assert "provisional" in get_args(State)


def test_every_kind_of_skip_is_explained_and_none_that_is_gone() -> None:
    calls = (node for nodes in Code().nodes.values() for node in nodes if isinstance(node, ast.Call))
    kinds = [ast.literal_eval(call.args[0]) for call in calls if name_of(call) == "Skip"]
    assert len(kinds) > 15
    assert {*kinds} == SKIPS.keys()


def test_each_explanation_says_what_it_means_and_what_to_do() -> None:
    every = [entry for several in explanations().values() for entry in several]
    # A term is a word of the pages, and asks for nothing.
    assert [entry.word for entry in every if not entry.meaning or not (entry.todo or entry.sort == "term")] == []
    # A failure's meaning is its cause, and a field of the protocol is what the user wants.
    assert [entry.word for entry in every if not entry.why and entry.sort not in ("failure", "protocol", "term")] == []
    assert {entry.sort for entry in every} == set(SORTS)


def explained(*words: str) -> str:
    done = CliRunner().invoke(main, ["explain", *words])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_a_word_is_explained_with_the_field_to_change() -> None:
    text = explained("gate_timeout")
    assert text.startswith("gate_timeout (trust label)\n  The device was never ready; nothing with it wins.\n  why: ")
    assert "protocol.gate: wait_seconds" in text
    assert explained("Gate-Timeout") == text


def test_a_word_with_two_meanings_has_both() -> None:
    assert re.findall(r"^invalid_output \((.*)\)$", explained("invalid_output"), re.MULTILINE) == [
        "trust label",
        "failure",
    ]


def test_tooltips_have_the_words_of_one_sort() -> None:
    assert [entry.sort for entry in of_sort("failure", "invalid_output")] == ["failure"]
    assert [entry.word for entry in of_sort("skip", "duplicate")] == ["duplicate"]
    assert of_sort("axis", "duplicate") == of_sort("skip", "nobody knows why") == ()
    assert all(of_sort("axis", axis) for axis in GridSpec.model_fields if axis != "name")


def test_what_tables_pages_and_files_call_a_thing_is_explained() -> None:
    shown = [name.lstrip(">") for name in (*_RANKING_COLUMNS, *_CHECKED_COLUMNS) if name != ">#"]
    words = [*shown, *_CALLED.values(), "top1", "p50", "budget", "rounds", "fused", "extra_runtime_mb"]
    unknown = [word for word in words if not explanation(word)]  # raises for a word that is not known
    assert unknown == []
    assert [entry.word for entry in explanation("top-1")] == ["top1_percent"]
    assert [entry.word for entry in explanation("QNNPACK")] == ["qengine"]
    assert {entry.word for entry in explanation("auto")} == {"qengine", "granularity"}
    known = explanations()
    assert {meant for meant in terms.meant_by_name().values() if meant not in known} == set()
    assert {name for name in terms.meant_by_name() if terms.key(name) in known} == set(), "the table has it"


def test_alone_it_lists_all_words_under_their_sorts() -> None:
    text = explained()
    assert [heading for heading in SORTS.values() if heading not in text] == []
    assert [word for word in explanations() if word not in text] == []
    assert len(json.loads(explained("--json"))) >= len(explanations())


@pytest.mark.parametrize(("word", "meant"), [("latency", "latency_p50_ms"), ("gate_timeuot", "gate_timeout")])
def test_a_word_that_is_not_known_gets_the_common_one_that_is_near(word: str, meant: str) -> None:
    done = CliRunner().invoke(main, ["explain", word])
    assert done.exit_code == 1
    assert f"did you mean {meant!r}?" in done.stderr


@pytest.mark.parametrize(
    ("word", "meant"), [("top1", "top1_percent"), ("accuracy", "accuracy_drop_points"), ("zz", "")]
)
def test_the_common_metric_is_meant(word: str, meant: str) -> None:
    assert did_you_mean(word, METRICS) == (f"; did you mean {meant!r}?" if meant else "")
