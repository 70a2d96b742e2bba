"""A package that EdgeSweep has never heard of brings a runtime, a transport, a metric and a view (`toy_package`)."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from sweeps.cli.devices import clean, devices
from sweeps.cli.main import main
from sweeps.errors import DeviceError
from sweeps.spec import built_in, catalog
from sweeps.store import client as store
from sweeps.workspace import Workspace
from tests.commands import Commands
from tests.fresh_mlflow import fresh_mlflow
from tests.workers.tiny_model import SOURCE
from workers.devices import registry
from workers.machine_checks import examine

TOY = Path(__file__).with_name("toy_package")
ROOT = Path(__file__).parents[1]
SWEEP = """
name: toys
models: [{source: "tiny_net:make", name: tiny, weights: random, input_shape: [1, 3, 16, 16]}]
data: {calibration: {source: synthetic, images: 4}, evaluation: {source: synthetic, images: 8, seed: 1}}
devices: ["toybox:red"]
grids: [{runtime: [toy], backend: [abacus], format: [table, stub]}]
objective: {minimize: toy_multiplications, constraints: [{metric: toy_multiplications, at_most: 3074}]}
protocol: {preset: quick, rounds: 2, warmup_seconds: 0.01, min_seconds: 0.02, iterations: 3, gate: none,
           sentinel_every: 0}
"""
IMPORTED = """
import importlib.metadata, json
read, original = [], importlib.metadata.entry_points
def entry_points(**group):
    read.append(group["group"])
    return original(**group)
importlib.metadata.entry_points = entry_points
import workers.plan_inputs, workers.runtimes.registry, workers.devices.registry
import sweeps.ranking.rank, sweeps.ranking.eligibility
import dashboard.views.registry
before = [one for one in read if one.startswith("edgesweep.")]
from sweeps.spec import built_in, catalog
catalog.runtimes(), catalog.devices()
print(json.dumps({"before": before, "after": [one for one in read if one.startswith("edgesweep.")]}))
"""
TOYS = "runtime: [toy], backend: [abacus], format: [table, stub]"
OBJECTIVE = "{minimize: toy_multiplications, constraints: [{metric: toy_multiplications, at_most: 3074}]}"
NAME = "tiny · toy abacus fp32 nchw taught stub"
LARGER = "tiny · toy abacus fp32 nchw taught table"
DRAWN = """
import json, sys
from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash
from dashboard.web_server import APP

sys.argv[1:] = ["--workspace", sys.argv[1]]
page = AppTest.from_file(str(APP), default_timeout=120)
page._page_hash = calc_hash("decide")
page.run()
assert not page.exception, page.exception
figures = {metric.label: metric.value for metric in page.metric}
view = page.selectbox(key="chosen view")
offered = list(view.options)
view.set_value("Toys").run()
assert page.query_params["view"] in ("Toys", ["Toys"]), page.query_params
assert not page.exception, page.exception
print(json.dumps({"offered": offered, "figures": figures, "headings": [part.value for part in page.main.subheader],
                  "texts": [part.value for part in page.text]}))
"""


INSTALLED = {"PYTHONPATH": f"{TOY}{os.pathsep}{ROOT}", "COLUMNS": "200"}
"""An environment in which a process finds the package, and nothing else that this one does not."""

Edgesweep = Callable[..., subprocess.CompletedProcess[str]]


def python(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *map(str, arguments)], env={**os.environ, **INSTALLED}, capture_output=True, text=True
    )


@pytest.fixture(scope="module")
def edgesweep() -> Iterator[Edgesweep]:
    """Commands where the package is installed."""
    with Commands.open(INSTALLED) as commands:
        yield commands.run


def without_it(*words: str | Path) -> Result:
    """A command where it is not."""
    return CliRunner().invoke(main, [*map(str, words)])


def printed(done: subprocess.CompletedProcess[str]) -> Any:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, edgesweep: Edgesweep) -> Path:
    """A folder with a sweep of toys that the real command ran."""
    folder = tmp_path_factory.mktemp("toys")
    (folder / "tiny_net.py").write_bytes(SOURCE)
    (folder / "sweep.yaml").write_text(SWEEP)
    fresh_mlflow(folder / "data")
    done = edgesweep("run", folder / "sweep.yaml", "--workspace", folder / "data", "--executor", "inline", "--json")
    (device,) = printed(done)["devices"]
    assert device["winner"]["name"] == NAME, done.stdout
    (folder / "ranking.json").write_text(done.stdout)
    return folder


def test_a_sweep_of_its_runtime_on_its_transport_is_built_measured_and_ranked(home: Path, edgesweep: Edgesweep) -> None:
    (device,) = printed(edgesweep("rank", "--workspace", home / "data", "--json"))["devices"]
    assert (device["device_id"], device["runtime_version"]) == ("toybox-red", "toy 1")
    assert device["winner"]["runner"] == "toy-runner 1"
    assert device["winner"]["latency_p50_ms"] > 0
    assert device["winner"]["agreement_percent"] is not None


@pytest.mark.system
def test_its_runtime_passes_the_conformance_tests() -> None:
    """The runtime of another package inherits the conformance tests, as infra/runtimes.md says of any runtime."""
    suite = ROOT / "tests" / "conformance" / "test_runtimes.py"
    done = python("-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", suite, "-k", "toy")
    assert done.returncode == 0, done.stdout
    passed, _ = re.search(r"(\d+) passed, (\d+) deselected", done.stdout).groups()
    assert int(passed) >= 8


def test_its_runtime_has_a_part_of_the_support_table(home: Path) -> None:
    program = ROOT / "infra" / "write_support.py"
    done = python(program, home / "sweep.yaml", "--runtime", "toy", "--workspace", home / "data", "--json")
    (model,) = printed(done)["models"]
    assert [(cell["variant"]["runtime"], cell["variant"]["format"], cell["state"]) for cell in model["cells"]] == [
        ("toy", "table", "verified")
    ]


def test_the_entry_that_the_page_shows_for_another_runtime_is_one() -> None:
    page = (ROOT / "infra" / "runtimes.md").read_text(encoding="utf-8").partition("## Another runtime")[2]
    names = dict(vars(built_in))
    exec(re.search(r"```python\n(.*?)```", page, re.DOTALL)[1], names)
    assert names["LITERT"].wrong() == ""
    assert names["LITERT"].backend("cpu")


def test_its_metric_decides_who_wins_and_who_keeps_a_bound(home: Path) -> None:
    document = json.loads((home / "ranking.json").read_text())
    assert document["objective"] == "smallest toy_multiplications with toy_multiplications at most 3074 ×"
    (device,) = document["devices"]
    winner, other = device["ranking"]
    # 768 pixels, and in the table a constant; four classes.
    assert (winner["name"], winner["verdict"], winner["extra_metrics"]) == (
        NAME,
        "pass",
        {"toy_multiplications": 3072.0},
    )
    assert (other["name"], other["verdict"], other["extra_metrics"]) == (
        LARGER,
        "fail",
        {"toy_multiplications": 3076.0},
    )
    assert other["why"] == "toy_multiplications is 3076 ×, not at most 3074 ×"


def test_a_sweep_file_names_its_metric_only_where_installed_and_by_its_better_side(
    home: Path, edgesweep: Edgesweep
) -> None:
    wrong = home / "wrong.yaml"
    wrong.write_text(SWEEP.replace("minimize: toy", "maximize: toy"))
    refused = edgesweep("plan", wrong, "--workspace", home / "data")
    assert "toy_multiplications is better when lower; maximize would find the worst" in refused.stderr
    usual = SWEEP.replace(TOYS, "precision: [fp32]")
    wrong.write_text(usual.replace("toybox:red", "local"))
    alone = without_it("plan", wrong, "--workspace", home / "data")
    assert (refused.returncode, alone.exit_code) == (2, 2)
    assert "there is no metric 'toy_multiplications'" in alone.stderr


def test_its_metric_is_stored_and_shown_in_the_details(home: Path) -> None:
    client = store.connect(Workspace(home / "data").tracking_uri, make=False)
    (experiment,) = [candidate for candidate in client.search_experiments() if candidate.name == "toys"]
    runs = client.search_runs([experiment.experiment_id])
    values = [run.data.metrics.get("toy_multiplications") for run in runs]
    assert sorted(value for value in values if value is not None) == [3072, 3076]


def test_its_view_is_offered_and_drawn_beside_the_rankings(home: Path) -> None:
    page = printed(python("-c", DRAWN, home / "data"))
    assert page["offered"] == ["Ranking", "Toys"]
    assert page["headings"] == ["Toys"]
    assert f"{NAME}: 3072 multiplications" in page["texts"]
    assert page["figures"]["Multiplications per image"] == "3072 ×"


def test_what_one_runtime_has_and_another_has_not_is_skipped_with_that_reason(home: Path, edgesweep: Edgesweep) -> None:
    mixed = SWEEP.replace("runtime: [toy], backend: [abacus]", "runtime: [toy, torchscript], backend: [abacus, cpu]")
    (home / "mixed.yaml").write_text(mixed.replace("format: [table, stub]", "format: [table, pt], precision: [fp32]"))
    planned = printed(edgesweep("plan", home / "mixed.yaml", "--workspace", home / "data", "--json"))
    reasons = {entry["reason"] for entry in planned["skipped"]}
    assert reasons == {
        "toy has no backend cpu (it has: abacus)",
        "toy has no format pt (it has: table, stub)",
        "torchscript has no backend abacus (it has: cpu, nnapi, metal)",
        "torchscript has no format table (it has: pt, ptl)",
    }
    variants = {job["name"].removeprefix("tiny · ") for job in planned["jobs"]}
    assert variants == {
        "toy abacus fp32 nchw taught table",
        "cpu fp32 nchw script fused optimized",
        "cpu fp32 nhwc script fused optimized",
    }


@pytest.mark.parametrize("answer", ["a toy has no abacus", ""])
def test_a_runtime_that_says_in_no_skip_what_it_does_not_support_is_named_with_its_package(
    home: Path, answer: str
) -> None:
    program = (
        "from edgesweep_toy.runtime import Toy; from sweeps.cli.main import main; "
        f"Toy.supports = lambda *_: {answer!r}; main()"
    )
    refused = python("-c", program, "plan", home / "sweep.yaml", "--workspace", home / "data")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == (
        "edgesweep: the runtime toy of the package edgesweep_toy does not work: its supports() must return None or a "
        f"sweeps.skip_kinds.Skip, and returned {answer!r}\n"
        "  next: update or repair edgesweep_toy, or take toy out of runtime in grids\n"
    )


def test_the_schema_of_sweep_files_lists_what_it_brings(edgesweep: Edgesweep) -> None:
    schema = printed(edgesweep("schema"))
    grid = schema["$defs"]["GridSpec"]["properties"]
    assert grid["runtime"]["items"]["enum"] == ["torchscript", "eager", "onnxruntime", "executorch", "toy"]
    backends = ["cpu", "nnapi", "metal", "xnnpack", "qnn", "coreml", "portable", "vulkan"]
    assert grid["backend"]["items"]["enum"] == [*backends, "abacus"]
    assert grid["format"]["items"]["enum"] == ["pt", "ptl", "table", "stub"]
    assert "toy_multiplications" in schema["$defs"]["ConstraintSpec"]["properties"]["metric"]["enum"]
    assert schema["properties"]["devices"]["items"]["pattern"].count(r"|toybox:(\*|[a-z]+))") == 1


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "shelf"
    folder.mkdir()
    monkeypatch.setenv("TOY_SHELF", str(folder))
    return folder


def test_its_units_are_found_listed_and_planned_for_as_phones_are(
    home: Path, shelf: Path, edgesweep: Edgesweep
) -> None:
    (home / "all.yaml").write_text(SWEEP.replace("toybox:red", "toybox:*"))
    plan = ("plan", home / "all.yaml", "--workspace", home / "data", "--json")
    none = edgesweep(*plan, TOY_SHELF=str(shelf))
    assert none.returncode == 1
    assert "toybox:* finds no phone that can be measured\n  next: put a box on the shelf" in none.stderr
    for colour in ("red", "blue", "grey"):
        (shelf / colour).mkdir()
    planned = edgesweep(*plan, TOY_SHELF=str(shelf))
    assert {job["device_id"] for job in printed(planned)["jobs"]} == {"toybox-red", "toybox-blue"}
    assert "toybox:grey has no colour" in planned.stderr
    # Without adb, which would start a server.
    program = "from sweeps.spec import catalog; from sweeps.cli.main import main; del catalog.devices()['adb']; main()"
    listed = printed(python("-c", program, "devices", "--workspace", home / "data", "--json"))
    assert [device["name"] for device in listed["devices"]] == ["local", "toybox:blue", "toybox:red"]
    assert listed["refused"] == [{"kind": "no_colour", "message": "toybox:grey has no colour", "next_step": "paint it"}]


def test_its_units_are_cleaned_by_its_own_hands(shelf: Path, edgesweep: Edgesweep) -> None:
    for colour in ("red", "blue"):
        (shelf / colour).mkdir()
        (shelf / colour / "left over").touch()
    done = edgesweep("devices", "clean", "toybox:red", TOY_SHELF=str(shelf))
    assert (done.returncode, done.stdout) == (0, "toybox:red: clean\n"), done.stderr
    assert [file.parent.name for file in shelf.glob("*/*")] == ["blue"]


@pytest.mark.parametrize(
    "name", ["adb:", "adb:*", "adb:../x", "adb:a b", "adb", "local", "fake:steady", "nothing:at_all"]
)
def test_what_is_no_unit_that_a_transport_finds_is_not_cleaned(name: str) -> None:
    refused = CliRunner().invoke(clean, [name]).exception
    assert isinstance(refused, DeviceError)
    assert refused.message == f"{name!r} names no phone"


def test_jobs_of_built_in_runtimes_keep_their_keys_with_it_installed_or_swept(home: Path, edgesweep: Edgesweep) -> None:
    usual = SWEEP.replace(TOYS, "precision: [fp32], layout: [nchw]").replace(OBJECTIVE, "{}")
    (home / "usual.yaml").write_text(usual.replace("toybox:red", "local"))
    extended = usual.replace("grids: [", "grids: [{" + TOYS + "}, ")
    (home / "both.yaml").write_text(extended.replace("toybox:red", "local"))

    def plan(file: str) -> tuple[str | Path, ...]:
        return "plan", home / file, "--workspace", home / "data", "--json"

    def keys(document: str) -> set[str]:
        return {job["job_key"] for job in json.loads(document)["jobs"]}

    without = keys(without_it(*plan("usual.yaml")).stdout)
    assert len(without) == 1
    assert keys(edgesweep(*plan("both.yaml")).stdout) > without


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package folder for entry points; what the catalog read before is read again afterwards."""
    folder = tmp_path / "broken-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    catalog._all.cache_clear()
    yield folder
    monkeypatch.undo()
    catalog._all.cache_clear()


@pytest.mark.parametrize(
    ("target", "problem"),
    [
        ("library_that_nobody_has:RUNTIME", "ModuleNotFoundError: No module named 'library_that_nobody_has'"),
        ("sweeps.spec.built_in:EAGER", "there is a eager already"),
        ("sweeps.spec.built_in:TORCHSCRIPT.name", "sweeps.spec.built_in:TORCHSCRIPT.name is no RuntimeEntry"),
    ],
)
def test_a_package_that_is_broken_is_left_out_with_the_reason(installed: Path, target: str, problem: str) -> None:
    (installed / "entry_points.txt").write_text(f"[edgesweep.runtimes]\nodd = {target}\n")
    assert list(catalog.runtimes()) == ["torchscript", "eager", "onnxruntime", "executorch"]
    assert catalog.problems() == (f"odd of broken is left out: {problem}",)
    (check,) = [check for check in examine(installed) if check.name == "other packages"]
    assert (check.ok, check.needed) == (False, False)
    assert check.found == f"odd of broken is left out: {problem}"
    assert "package" in check.fix


ENTRIES = """
from dataclasses import replace
from sweeps.metrics import Metric
from sweeps.spec.built_in import EAGER
from sweeps.spec.entries import BackendEntry, DeviceEntry

def box(pattern, name="box", unit="COLOUR", discovery=""):
    return DeviceEntry(name=name, target="box:Box", unit=unit, unit_pattern=pattern, discovery=discovery)

def counts(metric, better="lower", title="Odd", name="counts"):
    return replace(EAGER, name=name, metrics=(Metric(metric, title, "", better, 0),))

def runs(axes=(), values={}, **backend):
    backends = (BackendEntry(**{"name": "npu"} | backend),)
    return replace(EAGER, name="runs", axes=frozenset(axes), values=values, backends=backends)

ENTRY = """


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ("box('[a-z')", "its unit_pattern '[a-z' is no regular expression: unterminated character set at position 0"),
        ("box('a)(b')", "its unit_pattern 'a)(b' is no regular expression: unbalanced parenthesis at position 1"),
        ("box('(?i)[a-z]+')", "its unit_pattern '(?i)[a-z]+' is no regular expression: global flags not at the start"),
        ("box('')", "unit and unit_pattern need each other"),
        ("box('[a-z]+', unit='')", "unit and unit_pattern need each other"),
        ("box('[a-z]+', name='b.x')", "the name 'b.x' is not of small letters, digits and '_' only"),
        ("box(None)", "unit and unit_pattern need each other"),
        ("box(7)", "TypeError: first argument must be string or compiled pattern"),
        ("replace(EAGER, name='odd', values={'colour': ('red',)})", "there is no build axis colour"),
        ("replace(EAGER, name='odd', backends=())", "its backends are not a tuple of one BackendEntry or more"),
        ("replace(EAGER, name='odd', backends=('cpu',))", "its backends are not a tuple of one BackendEntry or more"),
        ("replace(EAGER, name='odd', backends=EAGER.backends[0])", "its backends are not a tuple of one BackendEntry"),
        ("replace(EAGER, name='odd', backends=None)", "its backends are not a tuple of one BackendEntry or more"),
        ("runs(values={'format': 'table'})", "the values of format are not a tuple of non-empty text: 'table'"),
        ("runs(values={'format': ['a', 'b']})", "the values of format are not a tuple of non-empty text: ['a', 'b']"),
        ("runs(values={'format': ('a', 2)})", "the values of format are not a tuple of non-empty text: ('a', 2)"),
        ("runs(values={'format': ('a', '')})", "the values of format are not a tuple of non-empty text: ('a', '')"),
        ("runs(name='N P U')", "the name 'N P U' of a backend is not of small letters, digits and '_' only"),
        ("runs(name='')", "the name '' of a backend is not of small letters, digits and '_' only"),
        ("runs(unsaid={'colour'})", "there is no build axis colour"),
        ("runs(unsaid={'layout'}, axes=['layout'])", "labels of npu cannot leave out layout, which has a choice there"),
        ("runs(unsaid={'fuse'}, float_axes={'fuse'})", "labels of npu cannot leave out fuse, which has a choice there"),
        ("runs(unsaid={'fuse'}, int8_axes={'fuse'})", "labels of npu cannot leave out fuse, which has a choice there"),
        ("runs(support_columns={'fp32': 'colour'})", "there is no build axis colour"),
        ("counts('latency_p50_ms')", "'latency_p50_ms' cannot be the name of an extra metric"),
        ("counts('energy', 'less')", "the metric energy is better when 'less', not one of lower, higher, neither"),
    ],
)
def test_an_entry_that_is_wrong_is_left_out_and_sweep_files_are_read_as_without_it(
    installed: Path, entry: str, problem: str
) -> None:
    kind = "devices" if entry.startswith("box") else "runtimes"
    module = f"wrong_{abs(hash(entry))}"
    (installed.parent / f"{module}.py").write_text(ENTRIES + entry)
    (installed / "entry_points.txt").write_text(f"[edgesweep.{kind}]\nodd = {module}:ENTRY\n")
    (reason,) = catalog.problems()
    assert reason.startswith(f"odd of broken is left out: {problem}")
    assert list(catalog.runtimes()) == ["torchscript", "eager", "onnxruntime", "executorch"]
    assert list(catalog.devices()) == ["local", "fake", "adb", "ssh"]


@pytest.mark.parametrize(
    ("other", "problems"),
    [
        ("counts('energy', name='other')", ()),
        ("counts('power', 'higher', name='other')", ()),
        ("counts('energy', 'higher', name='other')", ("counts defines the metric energy in another way",)),
        ("counts('energy', title='Joule', name='other')", ("counts defines the metric energy in another way",)),
    ],
)
def test_a_metric_of_two_runtimes_has_one_definition(installed: Path, other: str, problems: tuple[str, ...]) -> None:
    module = f"two_{abs(hash(other))}"
    (installed.parent / f"{module}.py").write_text(f"{ENTRIES}counts('energy')\nOTHER = {other}\n")
    (installed / "entry_points.txt").write_text(f"[edgesweep.runtimes]\na = {module}:ENTRY\nb = {module}:OTHER\n")
    assert catalog.problems() == tuple(f"b of broken is left out: {problem}" for problem in problems)
    assert list(catalog.runtimes()) == [
        "torchscript",
        "eager",
        "onnxruntime",
        "executorch",
        "counts",
        *(["other"] if not problems else []),
    ]


def test_a_package_that_ends_the_process_when_it_is_imported_is_left_out(installed: Path) -> None:
    (installed.parent / "leaves_at_once.py").write_text("raise SystemExit('no licence')\n")
    (installed / "entry_points.txt").write_text("[edgesweep.runtimes]\nodd = leaves_at_once:ENTRY\n")
    assert catalog.problems() == ("odd of broken is left out: SystemExit: no licence",)


@pytest.mark.parametrize(
    ("entry", "matching", "other"),
    [
        ("box('red|green')", ["box:red", "box:green"], ["green", "box:red|green", "box:*", "box"]),
        ("box('red|green', discovery='m')", ["box:red", "box:green", "box:*"], ["green", "box:", "box:**"]),
    ],
)
def test_a_pattern_of_units_holds_for_what_stands_behind_the_colon_alone(
    installed: Path, entry: str, matching: list[str], other: list[str]
) -> None:
    module = f"right_{abs(hash(entry))}"
    (installed.parent / f"{module}.py").write_text(ENTRIES + entry)
    (installed / "entry_points.txt").write_text(f"[edgesweep.devices]\nbox = {module}:ENTRY\n")
    schema = re.compile("|".join(device.pattern for device in catalog.devices().values()))
    for name in matching:
        assert catalog.device(name) == catalog.devices()["box"]
        assert schema.fullmatch(name)
    for name in other:
        assert catalog.device(name) is None
        assert not schema.fullmatch(name)


BOXES = """
from dataclasses import replace
from sweeps.spec.entries import DeviceEntry
from workers.devices.fake.device import FakeDevice

class Good(FakeDevice):
    def __init__(self, folder, colour):
        super().__init__(folder, "steady")

    def facts(self):
        return replace(super().facts(), name="good:red")

class Unmade(Good):
    def __init__(self, folder, colour):
        raise KeyError("COLOUR")

class Left(Good):
    def __init__(self, folder, colour):
        raise SystemExit("no licence")

class Mute(Good):
    def facts(self):
        raise ValueError("no colour")

class Formless(Good):
    def facts(self):
        return None

class Clinging(Good):
    def release(self):
        raise RuntimeError("mine")

def box(name, target="Good", discovery=__name__):
    target = target if ":" in target else f"{__name__}:{target}"
    return DeviceEntry(name=name, target=target, unit="COLOUR", unit_pattern="[a-z]+", discovery=discovery)

def attached():
    return ["good:red"], []

def are_one(name, other, folder):
    return True

def clean(name):
    pass

GOOD = box("good")
"""
SHELF = """
def attached():
    return %s

def are_one(name, other, folder):
    raise KeyError("COLOUR")

def clean(name):
    raise PermissionError("the shelf is locked")
"""


@pytest.fixture
def boxes(installed: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Two transports of a package, of which one works. The test's parameters are the other's entry and its units."""
    entry, units = getattr(request, "param", ("box('bad', discovery=SHELF)", "['bad:red'], []"))
    good, shelf = f"boxes_{abs(hash((entry, units)))}", f"shelf_{abs(hash((entry, units)))}"
    (installed.parent / f"{good}.py").write_text(f"{BOXES}SHELF = {shelf!r}\nBAD = {entry}\n")
    (installed.parent / f"{shelf}.py").write_text(SHELF % units)
    (installed / "entry_points.txt").write_text(f"[edgesweep.devices]\na = {good}:BAD\nb = {good}:GOOD\n")
    monkeypatch.delitem(catalog.devices(), "adb")  # looking for its devices would start a server
    assert catalog.problems() == ()


ONE_UNIT = "['bad:red'], []"


@pytest.mark.parametrize(
    ("boxes", "problem"),
    [
        (("box('bad', discovery='json')", ONE_UNIT), "AttributeError: module 'json' has no attribute 'attached'"),
        (("box('bad', discovery='nobody_has_this')", ONE_UNIT), "ModuleNotFoundError: No module named 'nobody_has_thi"),
        (("box('bad', discovery=SHELF)", "{}['COLOUR']"), "KeyError: 'COLOUR'"),
        (("box('bad', discovery=SHELF)", "exit(3)"), "SystemExit: 3"),
        (("box('bad', discovery=SHELF)", "None"), "TypeError: cannot unpack"),
        (("box('bad', discovery=SHELF)", "[7], []"), "TypeError: expected string or bytes-like object, got 'int'"),
        (("box('bad', discovery=SHELF)", "['good:red'], []"), "ValueError: 'good:red' is not a name of this transport"),
        (("box('bad', discovery=SHELF)", "[], ['oh no']"), "TypeError: 'oh no' is not a DeviceError"),
        (
            ("box('bad', 'nobody_has_this:Box', SHELF)", ONE_UNIT),
            "ModuleNotFoundError: No module named 'nobody_has_thi",
        ),
        (("box('bad', 'Unmade', SHELF)", ONE_UNIT), "KeyError: 'COLOUR'"),
        (("box('bad', 'Left', SHELF)", ONE_UNIT), "SystemExit: no licence"),
        (("box('bad', 'Mute', SHELF)", ONE_UNIT), "ValueError: no colour"),
        (("box('bad', 'Formless', SHELF)", ONE_UNIT), "AttributeError: 'NoneType' object has no attribute"),
        (("box('bad', 'Clinging', SHELF)", ONE_UNIT), "RuntimeError: mine"),
    ],
    indirect=["boxes"],
)
@pytest.mark.usefixtures("boxes")
def test_a_broken_transport_is_listed_with_its_package_beside_the_other_devices(tmp_path: Path, problem: str) -> None:
    done = CliRunner().invoke(devices, ["--workspace", str(tmp_path / "data"), "--json"])
    assert done.exit_code == 0, done.exception
    listing = json.loads(done.stdout)
    assert [device["name"] for device in listing["devices"]] == ["local", "good:red"]
    (refused,) = listing["refused"]
    assert refused["kind"] == "broken_transport"
    assert refused["message"].startswith(f"the transport bad does not work: {problem}")
    package = catalog.devices()["bad"].target.partition(":")[0]
    assert refused["next_step"] == f"repair or uninstall the package {package}, which provides it"


@pytest.mark.usefixtures("boxes")
def test_a_unit_that_its_transport_can_not_clean_is_named_and_the_others_are_cleaned() -> None:
    done = CliRunner().invoke(clean, ["bad:red", "good:red"])
    assert (done.exit_code, done.stdout) == (1, "good:red: clean\n")
    assert "the transport bad does not work: PermissionError: the shelf is locked" in done.stderr


@pytest.mark.usefixtures("boxes")
def test_units_that_a_transport_can_not_tell_apart_are_its_fault(tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match="the transport bad does not work: KeyError") as caught:
        registry.discovery(catalog.devices()["bad"]).are_one("bad:red", "bad:blue", tmp_path)
    assert caught.value.kind == "broken_transport"
    assert registry.discovery(catalog.devices()["good"]).are_one("good:red", "good:blue", tmp_path)


def test_an_error_in_the_projects_own_transport_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def attached() -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("workers.devices.adb.discovery.attached", attached)
    with pytest.raises(ZeroDivisionError):
        registry.units()


def test_no_registry_reads_entry_points_before_it_is_used() -> None:
    assert printed(python("-c", IMPORTED)) == {"before": [], "after": ["edgesweep.runtimes", "edgesweep.devices"]}
