"""`edgesweep explain`: every word of the catalogs has its explanation."""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from click.testing import CliRunner

from dashboard.words import _CALLED
from sweeps import errors
from sweeps.cli.main import main
from sweeps.errors import did_you_mean
from sweeps.failure_kinds import FAILURES
from sweeps.metrics import METRICS
from sweeps.ranking.overview import State
from sweeps.ranking.verdict import VERDICTS
from sweeps.report import terms
from sweeps.report.explanations import _METRICS, SORTS, explanation, explanations
from sweeps.report.explanations import explained as of_sort
from sweeps.report.ranking import _CHECKED_COLUMNS, _RANKING_COLUMNS
from sweeps.report.skip_reasons import skip_reasons
from sweeps.report.terms import _ALSO
from sweeps.spec.grid import GridSpec
from sweeps.spec.protocol import GateSpec, ProtocolSpec
from sweeps.trust import TRUST

ROOT = Path(__file__).parents[3]
RAISING = {"BuildError", "DeviceError", "RunnerError", "GiveUp"}


def kinds_in(source: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        called = getattr(node.func, "id", getattr(node.func, "attr", ""))
        given = {one.arg: one.value for one in node.keywords}
        kind = node.args[0] if called in RAISING and node.args else given.get("kind") if called == "Failed" else None
        for one in ast.walk(kind) if kind is not None else ():
            if isinstance(one, ast.Constant) and isinstance(one.value, str):
                yield one.value


def kinds_of_the_code() -> set[str]:
    python = {kind for root in ("sweeps", "workers") for path in (ROOT / root).rglob("*.py") for kind in kinds_in(path)}
    native = "".join(
        path.read_text() for path in (ROOT / "workers/native").glob("*.*") if path.suffix in (".cpp", ".h")
    )
    listed = {*errors.RETRIED_KINDS, *errors.FINAL_KINDS, *errors.ABSENT_KINDS, *errors.OWN_KINDS}
    return python | set(re.findall(r'GiveUp\{"(\w+)"', native)) | listed


def test_every_kind_of_failure_is_explained_and_none_that_is_gone() -> None:
    assert kinds_of_the_code() == FAILURES.keys()
    assert [kind for kind, text in FAILURES.items() if text.count(" -> ") != 1] == []


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
    known = {one.word for several in explanations().values() for one in several if one.sort == sort}
    assert words <= known
    assert METRICS.keys() == _METRICS.keys()
    assert "provisional" in get_args(State)


def reasons_of_the_code() -> set[str]:
    """Texts of the functions that say why a combination is skipped, without their figures."""
    found = set()
    for path in [*(ROOT / "workers/runtimes").glob("*/supports.py"), ROOT / "sweeps/planning/plan.py"]:
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(function, ast.FunctionDef) or not function.returns:
                continue
            if ast.unparse(function.returns) not in ("str | None", "str"):
                continue
            for node in ast.walk(function):
                match node:
                    case ast.Return(value=ast.Constant(value=str(text))):
                        found.add(text)
                    case ast.Return(value=ast.JoinedStr() as text):
                        found.add(
                            "".join(one.value if isinstance(one, ast.Constant) else "NNAPI" for one in text.values)
                        )
    return found


def test_every_reason_to_skip_is_explained_by_the_text_that_a_plan_prints() -> None:
    reasons = reasons_of_the_code()
    assert len(reasons) > 15
    unexplained = {reason for reason in reasons if not [*skip_reasons(reason)]}
    assert unexplained == set()
    [found] = explanation("duplicate of core: on the cpu a model with float ends always quantizes by itself")
    assert (found.word, found.sort) == ("duplicate", "skip")


def test_each_explanation_says_what_it_means_and_what_to_do() -> None:
    every = [one for several in explanations().values() for one in several]
    # A term is a word of the pages, and asks for nothing.
    assert [one.word for one in every if not one.meaning or not (one.todo or one.sort == "term")] == []
    # Of a failure the meaning is the cause, and a field of the protocol is what the user wants.
    assert [one.word for one in every if not one.why and one.sort not in ("failure", "protocol", "term")] == []
    assert {one.sort for one in every} == set(SORTS)


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


def test_tooltips_have_the_words_of_one_sort_and_of_a_reason_as_a_plan_prints_it() -> None:
    assert [one.sort for one in of_sort("failure", "invalid_output")] == ["failure"]
    assert [one.word for one in of_sort("skip", "duplicate of core on cpu")] == ["duplicate"]
    assert of_sort("axis", "duplicate") == of_sort("skip", "nobody knows why") == ()
    assert all(of_sort("axis", axis) for axis in GridSpec.model_fields if axis != "name")


def test_what_tables_pages_and_files_call_a_thing_is_explained() -> None:
    shown = [name.lstrip(">") for name in (*_RANKING_COLUMNS, *_CHECKED_COLUMNS) if name != ">#"]
    words = [*shown, *_CALLED.values(), "top1", "p50", "budget", "rounds", "fused", "extra_runtime_mb"]
    unknown = [word for word in words if not explanation(word)]  # raises for a word that is not known
    assert unknown == []
    assert [one.word for one in explanation("top-1")] == ["top1_percent"]
    assert [one.word for one in explanation("QNNPACK")] == ["qengine"]
    assert {one.word for one in explanation("auto")} == {"qengine", "granularity"}
    known = explanations()
    assert {meant for meant in _ALSO.values() if meant not in known} == set()
    assert {name for name in _ALSO if terms.key(name) in known} == set(), "the table has it"


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


def test_a_label_s_cause_ends_where_what_to_do_begins() -> None:
    assert [label.name for label in TRUST.values() if label.advice.count(": ") != 1] == []
