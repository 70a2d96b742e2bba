"""The pages of the protocol say what the code does: tables are the code's, references exist, no figure is missing.

They are infra/protocol.md (rules), protocol-model.md (model and sources) and protocol-evidence.md.
"""

import re
import runpy
from pathlib import Path
from typing import Any

import pytest

from sweeps.cli.main import main
from sweeps.label_kinds import TRUST
from sweeps.protocol.presets import PRESETS, STABLE_WITHIN
from sweeps.protocol.sentinel_rules import MOVED
from sweeps.protocol.sessions import GAP_S
from sweeps.ranking.session_ratio import ENOUGH_FOR_ONE, PRIOR_DEGREES, PRIOR_SPREAD
from sweeps.ranking.ties import UNREPEATED_SPREAD
from sweeps.spec.protocol import GateSpec
from sweeps.stats import NEGLIGIBLE
from sweeps.variant import Variant
from tests.benchmarks.simulate import PHONES, VARIANTS, simulate, simulation, standard_methods
from tests.benchmarks.simulation_report import markdown
from workers.runtimes.artifact_check import MAX_TOP1_LOST_POINTS, least_sqnr_db

ROOT = Path(__file__).parents[1]
PATH = ROOT / "infra" / "protocol.md"
PAGE = PATH.read_text(encoding="utf-8")
MODEL, EVIDENCE = (PATH.with_stem(f"protocol-{name}").read_text(encoding="utf-8") for name in ("model", "evidence"))
PAGES = (PAGE, MODEL, EVIDENCE)
SIMULATED = EVIDENCE.partition("<!-- simulator: ")[2].partition("<!-- /simulator -->")[0]
COMMANDS = re.findall(r"^\.venv/bin/python tests/benchmarks/simulate\.py (.+)$", SIMULATED, re.MULTILINE)


def rows_of(text: str) -> list[list[str]]:
    lines = re.findall(r"^\| (.+) \|$", text, re.MULTILINE)
    return [[cell.strip() for cell in line.split(" | ")] for line in lines if not line.startswith("---")]


@pytest.fixture(scope="module")
def write_docs() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "infra" / "write_docs.py"))


def test_every_preset_gate_and_label_stands_in_them(write_docs: dict[str, Any]) -> None:
    assert rows_of(write_docs["presets"]())[0][1:] == [f"`{name}`" for name in PRESETS]
    assert [row[0] for row in rows_of(write_docs["gates"]())[1:]] == [f"`{name}`" for name in GateSpec.model_fields]
    written = {row[0].strip("`"): (row[1] == "no", row[2]) for row in rows_of(write_docs["labels"]())[1:]}
    assert written == {name: (label.disqualifying, label.advice) for name, label in TRUST.items()}


def test_a_page_without_the_markers_of_a_part_is_refused(write_docs: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="no part called gates"):
        write_docs["rendered"](PATH, PAGE.replace("<!-- /gates -->", ""))


def test_no_cell_of_any_table_is_blank() -> None:
    rows = [row for page in PAGES for row in rows_of(page)]
    assert len(rows) > 200
    assert [row for row in rows if not all(row) or any(cell in ("-", "–", "nan", "None") for cell in row)] == []


def test_the_simulator_s_tables_have_every_phone_and_method_and_every_figure(write_docs: dict[str, Any]) -> None:
    commands = [" ".join(words) for words in write_docs["SIMULATIONS"].values()]
    assert commands == COMMANDS
    tables = re.split(r"^### .+$", SIMULATED, flags=re.MULTILINE)[1:]
    assert len(tables) == len(COMMANDS)
    for table, command in zip(tables, COMMANDS, strict=True):
        head, *rows = rows_of(table)
        assert len(head) == 12
        assert [row[:2] for row in rows] == [[phone, method.name] for phone in PHONES for method in standard_methods()]
        seeds = command.rpartition("--seeds ")[2]
        for row in rows:
            assert len(row) == len(head)
            assert all(re.search(r"\d|no elimination|no interval|no race", cell) for cell in row[2:]), row
            assert row[5].endswith(f" of {seeds}")
        assert table.count("No figure here comes from a real phone.") == 1


def test_the_simulator_s_tables_say_when_and_with_which_versions_they_were_made() -> None:
    assert re.search(
        r"^Written \d{4}-\d{2}-\d{2} with edgesweep \S+, numpy \S+, scipy \S+, Python \S+$", SIMULATED, re.M
    )


def test_the_commands_of_the_simulator_s_tables_are_taken() -> None:
    for words in COMMANDS:
        assert simulate.make_context("simulate.py", words.split()).params["variants"] is None


@pytest.mark.system
def test_a_row_of_the_simulator_s_table_is_what_the_simulator_says_now() -> None:
    options = simulate.make_context("simulate.py", COMMANDS[0].split()).params
    result = simulation(
        ["steady"],
        [method for method in standard_methods() if method.name == "race"],
        variants=VARIANTS,
        base_ms=options["base_ms"],
        sigma=options["sigma"],
        seeds=options["seeds"],
        progress=lambda *_: None,
    )
    (row,) = (line for line in markdown(result).splitlines() if line.startswith("| steady"))
    assert row in SIMULATED, "python infra/write_docs.py --simulate writes it anew"


def test_the_figures_in_the_sentences_are_the_code_s(write_docs: dict[str, Any]) -> None:
    text = " ".join(f"{PAGE} {MODEL}".split())
    assert f"resolved at 95 % and is at least {100 * NEGLIGIBLE:g} %" in text
    assert f"medians of its last 3 rounds agree within {100 * STABLE_WITHIN:g} %" in text
    assert f"If it moved by more than {100 * MOVED:g} %" in text
    figures = dict(row[:2] for row in rows_of(write_docs["figures"]()))
    sure = figures["A race ends: probability that its leader is within 2 % of the best"]
    assert f"within 2 % of the best candidate with a probability of {sure}" in text
    resting = figures["A race rests: summed probability of being faster than the leader by more than 2 %"]
    assert f"as long as their probabilities sum up to {resting} at most" in text
    eliminated = figures["A race eliminates: summed probability of not being slower than the leader"]
    assert f"of not being slower sum up to {eliminated} at most" in text
    assert f"slower beyond doubt and by {figures['Screen: in the finals is everything within']} or more" in text
    assert f"or after {figures['Screen: most batches']} batches" in text
    confirming = figures["Blocks that confirm a race's winner"]
    assert f"The winner gets {confirming} new blocks" in text
    assert f"p90 from {figures['Samples needed for p90']} samples" in text
    assert f"p99 from {figures['Samples needed for p99']} on" in text
    assert f"unless one is more than {UNREPEATED_SPREAD:g} times the other" in text
    assert f"a start of EdgeSweep at least {GAP_S // 60} minutes after the device's last block" in text
    assert f"{PRIOR_DEGREES:g} degrees of freedom at {100 * PRIOR_SPREAD:g} %" in text
    assert f"a side has one session, and the other fewer than {ENOUGH_FOR_ONE}." in text


def test_the_bounds_of_the_check_of_a_build_are_the_code_s() -> None:
    int8 = least_sqnr_db(Variant(precision="int8"), settled=False)
    fp32 = least_sqnr_db(Variant(), settled=False)
    fp16, metal_random = (least_sqnr_db(Variant(backend="metal"), settled=settled) for settled in (False, True))
    assert least_sqnr_db(Variant(backend="nnapi", relaxed_fp16=True), settled=False) == fp16
    text = " ".join(PAGE.split())
    assert f"int8: below {int8:g} dB, or more than {MAX_TOP1_LOST_POINTS:g} points of top-1 lost" in text
    assert f"fp32: below {fp32:g} dB; below {fp16:g} dB if fp16 is intended" in text
    assert f"{metal_random:g} dB for Metal with random weights" in text


def test_every_reference_is_cited_and_every_citation_is_a_reference() -> None:
    model, _, references = MODEL.partition("## References")
    body = f"{PAGE} {model} {EVIDENCE}"
    listed = re.findall(r"^\* \[([^\]]+)\]", references, re.MULTILINE)
    # A reader meets a link as `[words](place)`.
    cited = re.findall(r"\[([^\]\n]+)\](?!\()", " ".join(body.split()))
    assert sorted(set(cited)) == sorted(listed)
    assert len(listed) == len(set(listed)) > 8


def test_every_command_that_is_shown_exists() -> None:
    shown = set(re.findall(r"edgesweep ([a-z]+)", " ".join(PAGES).replace("edgesweep 0", "")))
    expected = "plan run compare check status noise journal store export rank report sweeps"
    assert shown - set(expected.split()) == set()
    assert shown <= set(main.commands)
