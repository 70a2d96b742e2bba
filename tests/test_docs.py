"""The documents say what is true: commands and figures are the code's, the example runs, the tree is the tree."""

import importlib
import importlib.util
import re
import runpy
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from sweeps.cli.main import LazyCommand, main
from sweeps.label_kinds import TRUST
from sweeps.protocol.presets import PRESETS
from sweeps.protocol.racing import NEGLIGIBLE
from sweeps.protocol.sessions import GAP_S
from sweeps.ranking.accuracy_bound import least_images
from sweeps.ranking.comparison import EXIT_NOT_COMPARED, EXIT_SLOWER, EXIT_UNRESOLVED
from sweeps.ranking.eligibility import VERDICTS
from sweeps.ranking.session_ratio import ENOUGH_FOR_ONE
from sweeps.stats import CONFIDENCE
from tests.own_model import FILES, README, make_data

ROOT = Path(__file__).parents[1]
PROSE = " ".join(README.split())
FOLDERS = ("infra", "sweeps", "workers", "dashboard")
DOCUMENTS = [*ROOT.glob("*.md"), *(page for name in FOLDERS for page in sorted((ROOT / name).rglob("*.md")))]
PRESENT = [page for page in DOCUMENTS if page.name not in ("CHANGELOG.md", "DECISIONS.md", "renames.md")]
"""Pages about what is there now; the others also tell of what was."""
SAMPLE = re.search(r"^```text\n(.+?)```", README, re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def targets(document: Path) -> Iterator[tuple[Path, str]]:
    """The files that a document links to, each with the part of it that is meant."""
    for target in LINK.findall(document.read_text(encoding="utf-8")):
        if "://" not in target:
            path, _, part = target.partition("#")
            yield (document.parent / path).resolve() if path else document, part


def headings(document: Path) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", document.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.fixture(scope="module")
def write_docs() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "infra" / "write_docs.py"))


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_links_and_pictures_exist(document: Path) -> None:
    missing = [path for path, part in targets(document) if not path.exists() or (part and part not in headings(path))]
    assert missing == []


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached, waiting = set[Path](), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        reached.add(page)
        waiting += [path for path, _ in targets(page) if path.suffix == ".md" and path not in reached]
    assert {*DOCUMENTS} - reached == set()


def test_the_two_commands_come_first() -> None:
    first = README.split("```console\n")[1].splitlines()
    assert [line.partition("  ")[0] for line in first[:2]] == ["make demo", "make test"]
    assert README.index("make demo") < README.index("![") < README.index("## Your own model")


def test_the_readme_can_be_read_in_one_go() -> None:
    assert len(README.splitlines()) <= 160


def test_what_is_needed_is_what_make_and_the_project_ask_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (python,) = re.findall(r"You need Linux, Python ([\d.]+), make", README)
    assert project["requires-python"].startswith(f">={python},<")
    (room,) = re.findall(r"(\d+ GB) of disk", README)
    assert f"about {room}," in (ROOT / "Makefile").read_text()


def test_pages_with_generated_parts_are_what_the_code_writes(write_docs: dict[str, Any]) -> None:
    pages = write_docs["GENERATED"]
    generated = {"axes.md", "runtimes.md", "tree.md", "faults.md", "protocol.md", "protocol-model.md", "words.md"}
    assert {page.name for page in pages} == generated
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert write_docs["rendered"](page, text) == text, f"make docs writes {page.name} anew"


def documented_commands(document: Path) -> Iterator[str]:
    """What is typed after `edgesweep`: in blocks of code, and in code inside sentences."""
    text = document.read_text(encoding="utf-8")
    blocks = re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    inside = re.findall(r"`([^`]+)`", re.sub(r"^```\w*\n.*?^```", "", text, flags=re.MULTILINE | re.DOTALL))
    for line in (*"\n".join(blocks).splitlines(), *(" ".join(code.split()) for code in inside)):
        for part in re.split(r"&&|;", line.partition(" #")[0]):
            typed = re.search(r"(?:^|[\s/])edgesweep ([a-z-][^>|]*)", part)
            if typed:
                yield typed[1].strip()


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_every_command_that_is_shown_exists_with_its_options(document: Path) -> None:
    for typed in documented_commands(document):
        command: click.Command = main
        for word in shlex.split(typed):
            with click.Context(command) as ctx:
                if isinstance(command, click.Group) and not word.startswith("-"):
                    found = command.get_command(ctx, word)
                    if found is None and command.invoke_without_command:
                        break
                    assert found is not None, f"edgesweep {typed}"
                    command = found.load() if isinstance(found, LazyCommand) else found
                elif word.startswith("--"):
                    options = {name for one in command.get_params(ctx) for name in one.opts}
                    assert word.partition("=")[0] in options, f"edgesweep {typed}"


def test_commands_are_found_in_documents() -> None:
    shown = {typed.split()[0] for document in DOCUMENTS for typed in documented_commands(document)}
    assert {"plan", "run", "rank", "export", "import", "compare", "check", "devices", "doctor"} <= shown


def test_every_make_target_that_is_shown_exists() -> None:
    makefile = (ROOT / "Makefile").read_text()
    typed = re.compile(r"(?:`|^)make ([a-z][a-z-]*)", re.MULTILINE)
    shown = {target for page in DOCUMENTS for target in typed.findall(page.read_text())}
    assert shown >= {"demo", "test", "dashboard", "bench", "docs"}
    assert [target for target in sorted(shown) if not re.search(rf"^{target}:", makefile, re.MULTILINE)] == []


def test_what_documents_import_from_the_packages_is_there() -> None:
    shown = {found for page in DOCUMENTS for found in re.findall(r"from ([a-z_.]+) import (\w+)", page.read_text())}
    assert len(shown) > 1
    for module, name in shown:
        there = hasattr(importlib.import_module(module), name) or importlib.util.find_spec(f"{module}.{name}")
        assert there, f"{module} has no {name}"


def missing(text: str) -> list[str]:
    """The files and folders of this repository that a text names and that there are not."""
    named = re.findall(r"(?:`|\s)((?:sweeps|workers|dashboard|infra|tests)/[\w./-]*\w)", text)
    return [name for name in sorted(set(named)) if not (ROOT / name).exists()]


@pytest.mark.parametrize("document", PRESENT, ids=name_of)
def test_files_and_folders_that_a_page_names_are_there(document: Path) -> None:
    assert missing(document.read_text()) == []


def test_renames_lead_to_what_is_there() -> None:
    rows = (ROOT / "infra" / "renames.md").read_text().splitlines()
    places = [row.rpartition(" | ")[2] for row in rows if row.startswith("| `")]
    assert len(places) > 20
    assert missing("\n".join(places)) == []


def test_every_environment_variable_that_is_shown_is_read() -> None:
    sources = "".join(
        path.read_text(encoding="utf-8") for name in ("sweeps", "workers") for path in (ROOT / name).rglob("*.py")
    )
    shown = {name for page in DOCUMENTS for name in re.findall(r"\bEDGESWEEP_[A-Z_]+\b", page.read_text())}
    assert len(shown) > 2
    assert [name for name in sorted(shown) if f'"{name}"' not in sources] == []


def test_the_figures_in_the_readme_s_sentences_are_the_code_s() -> None:
    confidence, negligible = f"{100 * CONFIDENCE:g} %", f"{100 * NEGLIGIBLE:g} %"
    assert f"with its {confidence} interval" in PROSE
    assert f"shown at {confidence} to be within {negligible} of the best" in PROSE
    assert f"{PRESETS['quick'].rounds} rounds: a first look" in PROSE
    (images,) = map(int, re.findall(r"Evaluate on at least (\d+) images", PROSE))
    assert images == least_images(1.0)


def test_the_verdicts_and_the_trust_labels_that_forbid_to_win_are_the_code_s() -> None:
    assert tuple(re.findall(r"^\| `(\w+)` \|.*\| (?:yes|no) \|$", README, re.MULTILINE)) == VERDICTS
    labels = re.search(r"\*\*Trust labels\*\*.*?nothing wins", README, re.DOTALL)
    assert labels is not None
    assert re.findall(r"`(\w+)`", labels[0]) == [one.name for one in TRUST.values() if one.disqualifying]


def test_the_exit_codes_and_the_margin_on_the_racing_page_are_the_code_s() -> None:
    page = (ROOT / "infra" / "racing.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| (\d[\d, ]*) \| (.+) \|$", page, re.MULTILINE))
    assert rows.keys() == {"0", "1, 2", *map(str, (EXIT_SLOWER, EXIT_NOT_COMPARED, EXIT_UNRESOLVED))}
    assert "slower" in rows[str(EXIT_SLOWER)]
    assert "compared" in rows[str(EXIT_NOT_COMPARED)]
    assert "unresolved" in rows[str(EXIT_UNRESOLVED)]
    for name in ("compare", "check"):
        listed = main.commands[name]
        assert isinstance(listed, LazyCommand)
        command = listed.load()
        (margin,) = (one for one in command.params if "--margin" in one.opts)
        assert f"same ({margin.default:g} if you do not say it)" in " ".join(page.split())
    text = " ".join(page.split())
    assert f"is resolved and is {100 * NEGLIGIBLE:g} % or more" in text
    assert f"at least {GAP_S // 60} minutes after the device's last block" in text
    assert f"a manifest from {ENOUGH_FOR_ONE} sessions or more" in text


def columns_of(ranking: str) -> list[str]:
    """The titles of a printed ranking's columns."""
    (titles,) = (line for line in ranking.splitlines() if "p50 ms" in line)
    return re.split(r"\s{2,}", titles.strip())


@pytest.mark.system
@pytest.mark.long
def test_the_readme_s_own_model_runs_as_it_is_written(tmp_path: Path) -> None:
    assert set(FILES) == {"my_net.py", "sweep.yaml"}
    # More than the 276 images that 1 point takes.
    make_data(tmp_path, images=320)
    edgesweep = str(Path(sys.executable).with_name("edgesweep"))
    plan = subprocess.run([edgesweep, "plan", "sweep.yaml"], cwd=tmp_path, capture_output=True, text=True)
    assert plan.returncode == 0, plan.stderr
    assert "4 jobs of 4 artifacts, 0 combinations skipped" in plan.stdout
    # The gate waits for other benchmarks, also for those of other tests, and what it waits for in vain does not win.
    (tmp_path / "sweep.yaml").write_text(FILES["sweep.yaml"].replace("{preset: quick}", "{preset: quick, gate: none}"))
    run = subprocess.run([edgesweep, "run", "sweep.yaml"], cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    for variant in ("fp32 nchw", "fp32 nhwc", "int8-x86 nchw", "int8-x86 nhwc"):
        assert variant in run.stdout
    assert "Ship:" in run.stdout
    # What the README shows of another run has the same lines and columns.
    assert SAMPLE is not None
    shown, printed = (columns_of(text) for text in (SAMPLE[1], run.stdout))
    assert shown[:4] == ["#", "variant", "p50 ms", "95 % interval"]
    assert [column for column in printed if column in shown] == shown
    for words in ("objective: smallest latency_p50_ms with accuracy_drop_points at most 1 points", "Ship: cpu "):
        assert words in SAMPLE[1]
        assert words in run.stdout
    export = subprocess.run([edgesweep, "export"], cwd=tmp_path, capture_output=True, text=True)
    assert export.returncode == 0, export.stderr
