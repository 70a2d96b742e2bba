"""`edgesweep noise` on simulated phones: real builds and reports, simulated time."""

import json
import os
import shutil
import signal
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from sweeps.cli.main import main
from sweeps.journal.journal import Journal
from sweeps.operations.sweep_plan import load_sweep, make_plan, roots_of
from sweeps.records import Failed
from sweeps.workspace import Workspace
from tests import shared
from tests.benchmarks.simulate import simulate
from tests.transports import stand_in
from workers.devices.fake.device import FakeDevice
from workers.devices.fake.phones import PHONES
from workers.devices.interface import Completed
from workers.devices.linux.competing import is_runner
from workers.executors.inline import InlineExecutor
from workers.executors.interface import BuildRequest, Builds, Stop
from workers.measure.device_runner import DeviceRunner
from workers.noise_run import NoiseRun


def run(*words: str) -> Result:
    return CliRunner().invoke(main, words)


class _TenMs(dict[str, float]):
    """The true latency of every file."""

    def get(self, _digest: str, _default: object = None) -> float:
        return 10.0


class Phone(FakeDevice):
    """A phone whose latencies do not depend on the bytes of a build."""

    def __init__(self, folder: Path, name: str) -> None:
        super().__init__(folder, name, true_ms=_TenMs())


@pytest.fixture(autouse=True)
def _known_latencies(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, "fake", f"{__name__}:Phone")


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """A workspace with the model that noise is measured with."""

    def build(folder: Path) -> None:
        done = run("noise", "fake:cool", "--minutes", "0.2", "--workspace", str(folder))
        assert done.exit_code == 0, done.stderr

    folder = shared.made_once("noise", build)
    shutil.copytree(folder / "artifacts", tmp_path / "workspace" / "artifacts")
    return Workspace.open(tmp_path / "workspace")


@pytest.fixture
def measure(workspace: Workspace):
    """`edgesweep noise` on the simulated phone `noisy`, unless another is named."""

    def command(*words: str, device: str = "fake:noisy") -> Result:
        return run("noise", device, *words, "--workspace", str(workspace.root))

    return command


def parsed(done: Result) -> dict[str, Any]:
    assert done.exit_code == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def test_it_says_what_a_device_can_tell_apart(measure) -> None:
    document = parsed(measure("--minutes", "5", "--json"))
    phone = PHONES["noisy"]
    spread = document["spread_percent"]
    assert spread["process"] == pytest.approx(100 * phone.process_cv, rel=0.2)
    assert spread["block_low"] < spread["block"] < spread["block_high"]
    assert spread["session_is_assumed"]
    three, five, ten = document["told_apart"]
    assert [row["rounds"] for row in (three, five, ten)] == [3, 5, 10]
    assert three["difference_percent"] > five["difference_percent"] > ten["difference_percent"] > 2
    assert ten["difference_of_sessions_percent"] > ten["difference_percent"]
    assert ten["device_seconds_of_a_build"] == pytest.approx(
        document["device_seconds"] / document["blocks"] * 10, rel=0.1
    )
    quick, full, race = document["presets"]
    assert [row["preset"] for row in (quick, full, race)] == ["quick", "full", "race"]
    assert full["rounds_for_5_percent"] <= quick["rounds_for_5_percent"] <= race["rounds_for_5_percent"]


def test_it_measures_for_the_minutes_of_the_device(measure) -> None:
    document = parsed(measure("--minutes", "1", "--json"))
    assert 60 <= document["device_seconds"] < 63


def test_later_calls_add_to_what_is_known_and_none_measures_in_no_time(measure) -> None:
    first = parsed(measure("--minutes", "0.5", "--json"))
    assert parsed(measure("--minutes", "0", "--json")) == first
    second = parsed(measure("--minutes", "0.5", "--json"))
    assert second["blocks"] > 1.8 * first["blocks"]
    assert second["sessions"] == 1, "they were measured in one go"
    other = parsed(measure("--minutes", "0.3", "--json", device="fake:steady"))
    assert other["spread_percent"]["block"] < 0.5 * second["spread_percent"]["block"]
    assert parsed(measure("--minutes", "0", "--json")) == second


def test_people_read_the_same_in_words(measure) -> None:
    done = measure("--minutes", "2")
    assert done.exit_code == 0
    words = " ".join(done.stdout.split())
    document = parsed(measure("--minutes", "0", "--json"))
    assert f"fake:noisy: {document['blocks']} blocks of one build, p50" in words
    assert f"spread of blocks in a round {document['spread_percent']['block']:.1f} %" in words
    assert "assumed: measure again another day" in words
    for entry in document["told_apart"]:
        row = f"{entry['rounds']} {entry['difference_percent']:.1f} % {entry['difference_of_sessions_percent']:.1f} %"
        assert row in words
    quick = document["presets"][0]
    assert f"5 % with the preset quick: {quick['rounds_for_5_percent']} rounds" in words
    assert f"a build; a sweep has {quick['rounds']}" in words
    assert "Measuring on fake:noisy" in done.stderr
    assert "Measuring" not in done.stdout


def test_a_plan_says_what_it_means_for_its_rounds(measure, workspace: Workspace, tmp_path: Path) -> None:
    sweep = tmp_path / "sweep.yaml"
    sweep.write_text(
        "name: mine\n"
        "models: [{source: mobilenet_v2, weights: random, input_shape: [1, 3, 64, 64]}]\n"
        "data:\n"
        "  calibration: {source: synthetic, images: 4}\n"
        "  evaluation: {source: synthetic, images: 4}\n"
        "grids: [{precision: [fp32], layout: [nchw, nhwc]}]\n"
        "devices: ['fake:noisy', 'fake:steady']\n"
        "protocol: {preset: full}\n"
    )
    plan = ("plan", str(sweep), "--workspace", str(workspace.root))
    assert parsed(run(*plan, "--json"))["noise"] == {}
    assert "tell" not in run(*plan).stdout
    known = parsed(measure("--minutes", "2", "--json"))
    ((device, advice),) = parsed(run(*plan, "--json"))["noise"].items()
    assert (device, advice) == (known["device_id"], known["presets"][1])
    words = " ".join(run(*plan).stdout.split())
    assert f"fake:noisy: to tell 5 % apart takes {advice['rounds_for_5_percent']} rounds" in words
    rounds = advice["rounds"]
    assert 3 < rounds <= 10
    rounds_text = "10" if rounds == 10 else f"{rounds} to 10"
    assert f"this sweep has {rounds_text}, and {rounds} tell {advice['difference_percent']:.1f} % apart" in words
    assert f"fake:noisy: {rounds} rounds, not 3: edgesweep noise found" in run(*plan).stderr

    # The rounds that a sweep was begun with stay, although their reason is gone.
    spec, roots = load_sweep(sweep, yes=False), roots_of(sweep)
    with Journal.open(workspace.journal) as journal:
        journal.save_plan(make_plan(spec, roots, workspace))

    sweep.write_text(sweep.read_text().replace("protocol: {preset: full}", "budget: race"))
    ((_, advice),) = parsed(run(*plan, "--json"))["noise"].items()
    assert advice == known["presets"][2]
    assert advice["difference_percent"] is None, "a race has no number of rounds"
    words = " ".join(run(*plan).stdout.split())
    assert f"fake:noisy: in a round, blocks of one build differ by {advice['block_spread_percent']:.1f} %" in words
    assert "tell" not in words

    (path,) = workspace.calibrations.iterdir()
    path.write_text("{}\n")
    damaged = run(*plan)
    assert damaged.exit_code == 0
    assert "line 1: " in damaged.stderr
    assert "tell 5 %" not in damaged.stdout
    assert make_plan(spec, roots, workspace).rounds_on == ((device, rounds),)
    chosen = spec.model_copy(update={"protocol": spec.protocol.model_copy(update={"rounds": 4})})
    assert make_plan(chosen, roots, workspace).rounds_on == ()
    refused = measure("--minutes", "1")
    assert refused.exit_code == 1
    assert "line 1: " in refused.stderr
    assert path.read_text() == "{}\n"


def test_what_was_measured_can_be_simulated_with(measure, tmp_path: Path) -> None:
    path = tmp_path / "noisy phone.csv"
    document = parsed(measure("--minutes", "1", "--traces", str(path), "--json"))
    again = tmp_path / "again.csv"
    parsed(measure("--minutes", "0", "--traces", str(again), "--json"))
    assert again.read_text() == path.read_text()

    def simulated(*words: str) -> Result:
        return CliRunner().invoke(simulate, ["--traces", str(path), *words])

    replayed = parsed(simulated("--seeds", "2", "--variants", "6", "--json"))
    (phone,) = replayed["phones"]
    assert phone["phone"] == str(path)
    assert f"recorded, {document['blocks']} processes of " in phone["about"]
    assert [method["method"] for method in phone["methods"]] == ["full", "race", "sleep 180 s"]
    two_phones = simulated("--phone", "cool", "--seeds", "1", "--variants", "2", "--json")
    assert [phone["phone"] for phone in parsed(two_phones)["phones"]] == ["cool", str(path)]

    path.write_text("process,latency\n1,2\n")
    refused = simulated("--seeds", "1")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "line 1: the columns are process, latency" in refused.stderr
    assert "next: a trace has the columns process and sample_ns" in refused.stderr
    nowhere = measure("--minutes", "0", "--traces", str(tmp_path / "no" / "folder.csv"))
    assert nowhere.exit_code == 1
    assert "folder.csv cannot be written" in nowhere.stderr


def test_nothing_measured_is_nothing_known(measure) -> None:
    done = measure("--minutes", "0")
    assert done.exit_code == 1
    assert "0 blocks are too few to show the noise" in done.stderr
    assert "next: measure longer: --minutes" in done.stderr


@pytest.mark.parametrize("device", ["fake:nosy", "toaster", "fake:", "adb:*"])
def test_what_names_no_device_is_refused(measure, device: str) -> None:
    done = measure(device=device)
    assert done.exit_code == 1
    assert "edgesweep devices" in done.stderr or "did you mean 'noisy'" in done.stderr
    assert not isinstance(done.exception, (AttributeError, KeyError, TypeError))


def test_minutes_that_are_no_number_are_refused(measure) -> None:
    for minutes in ("nan", "-1", "601"):
        done = measure("--minutes", minutes)
        assert done.exit_code == 2
        assert "--minutes" in done.stderr


class _Counting(Phone):
    """A phone that does something when a block ends."""

    blocks = 0

    def run(self, argv: Sequence[str], deadline_s: float) -> Completed:
        completed = super().run(argv, deadline_s)
        type(self).blocks += is_runner(argv)
        return self.after(completed)

    def after(self, completed: Completed) -> Completed:
        return completed


class Interrupted(_Counting):
    """A phone during whose twelfth block somebody presses Ctrl-C."""

    def after(self, completed: Completed) -> Completed:
        if self.blocks == 12:
            os.kill(os.getpid(), signal.SIGINT)
        return completed


class InterruptedEarly(_Counting):
    def after(self, completed: Completed) -> Completed:
        if self.blocks == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return completed


class Failing(_Counting):
    """A phone on which no program ends well from the eighth block on, but for the ninth."""

    def after(self, completed: Completed) -> Completed:
        if self.blocks >= 8 and self.blocks != 9:
            return Completed(exit_code=139, stdout=b"", stderr=b"Segmentation fault")
        return completed


def test_ctrl_c_keeps_what_was_measured_and_reports_it(measure, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, "fake", f"{__name__}:Interrupted")
    monkeypatch.setattr(Interrupted, "blocks", 0)
    done = measure("--minutes", "5", "--json")
    assert done.exit_code == 130
    assert json.loads(done.stdout)["blocks"] == 12
    assert "stopping after the running work" in done.stderr


def test_ctrl_c_after_too_few_blocks_keeps_them_and_says_so(measure, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, "fake", f"{__name__}:InterruptedEarly")
    monkeypatch.setattr(InterruptedEarly, "blocks", 0)
    done = measure("--minutes", "5")
    assert (done.exit_code, done.stdout) == (130, "")
    assert "Stopped after 2 blocks, which are kept" in done.stderr
    assert parsed(measure("--minutes", "0.5", "--json"))["blocks"] > 2


def test_a_device_that_fails_three_times_in_a_row_ends_it_and_earlier_blocks_stay(
    measure, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(monkeypatch, "fake", f"{__name__}:Failing")
    monkeypatch.setattr(Failing, "blocks", 0)
    done = measure("--minutes", "5")
    assert done.exit_code == 1
    assert "fake:noisy could not be measured" in done.stderr
    assert "trying again" in done.stderr
    assert parsed(measure("--minutes", "0", "--json"))["blocks"] == 8


def test_a_run_after_half_an_hour_is_another_session(workspace: Workspace) -> None:
    noise_run = NoiseRun("fake:noisy", workspace, print)
    for now_s in (1e9, 1e9 + 60, 1e9 + 7200):
        bench = DeviceRunner(Phone(workspace.root, "noisy"), workspace.root)
        assert len(list(noise_run.measure(bench, 5.0, lambda: False, lambda at_s=now_s: at_s))) >= 5
    blocks = noise_run.blocks()
    assert {block.session for block in blocks} == {10**9, 10**9 + 7200}
    first = [block.round for block in blocks if block.session == 10**9]
    assert first == list(range(len(first)))


class KilledOnce(InlineExecutor):
    """An executor whose first build is killed, as by a machine without memory."""

    killed = 0

    def build(self, requests: Iterable[BuildRequest], stop: Stop) -> Builds:
        if type(self).killed:
            yield from super().build(requests, stop)
            return
        type(self).killed = 1
        for request in requests:
            yield request, None
            yield request, Failed(stage="build", kind="worker_lost", message="the process that built it was killed")


class NeverBuilds(InlineExecutor):
    def build(self, requests: Iterable[BuildRequest], stop: Stop) -> Builds:
        for request in requests:
            yield request, Failed(stage="build", kind="low_sqnr", message="its answers are noise")


@pytest.mark.system
def test_a_build_that_was_killed_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sweeps.cli.noise.InlineExecutor", KilledOnce)
    monkeypatch.setattr(KilledOnce, "killed", 0)
    done = run("noise", "fake:cool", "--minutes", "0.2", "--workspace", str(tmp_path), "--json")
    assert parsed(done)["blocks"] >= 5
    assert KilledOnce.killed
    assert "the process that built it was killed; trying again" in " ".join(done.stderr.split())


def test_a_model_that_cannot_be_built_is_an_error_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sweeps.cli.noise.InlineExecutor", NeverBuilds)
    done = run("noise", "fake:cool", "--minutes", "0.2", "--workspace", str(tmp_path))
    assert done.exit_code == 1
    assert "it could not be built: its answers are noise" in done.stderr


class Shared(Phone):
    """A phone on which builds disturb each other in a process that they share."""

    def run(self, argv: Sequence[str], deadline_s: float) -> Completed:
        self._true_ms = _Disturbed() if "--batch" in argv else _TenMs()
        return super().run(argv, deadline_s)


class _Disturbed(dict[str, float]):
    def get(self, digest: str, _default: object = None) -> float:
        return 10.0 + int(digest[:2], 16) / 64


class Without(Phone):
    """A phone whose program has no batches."""

    def run(self, argv: Sequence[str], deadline_s: float) -> Completed:
        if "--batch" in argv:
            return Completed(exit_code=2, stdout=b"", stderr=b"unknown flag --batch")
        return super().run(argv, deadline_s)


@pytest.mark.system
def test_it_says_whether_builds_keep_their_ratios_in_a_process_that_they_share(
    measure, monkeypatch: pytest.MonkeyPatch
) -> None:
    none = measure("--batches", "--minutes", "0", device="fake:cool")
    assert none.exit_code == 1
    assert "no two rounds of batches that differ" in none.stderr

    alike = parsed(measure("--batches", "--minutes", "5", "--json", device="fake:cool"))
    assert alike["batches"]["builds"] >= 8
    assert alike["batches"]["rounds"] >= 10
    assert alike["batches"]["upper_percent"] < 1.0
    assert alike["batches"]["decide"]
    assert "told_apart" not in alike, "one build was not measured on its own"

    again = measure("--batches", "--minutes", "1", device="fake:cool")
    assert "batches decide races that begin now" in again.stdout
    with_batches = parsed(measure("--minutes", "0.3", "--json", device="fake:cool"))
    assert with_batches["batches"]["rounds"] > alike["batches"]["rounds"]
    assert with_batches["told_apart"]

    stand_in(monkeypatch, "fake", f"{__name__}:Shared")
    apart = parsed(measure("--batches", "--minutes", "3", "--json", device="fake:steady"))
    assert apart["batches"]["spread_percent"] > 3
    assert not apart["batches"]["decide"]
    words = measure("--batches", "--minutes", "0", device="fake:steady").stdout
    assert "batches only screen, processes of their own decide" in words

    stand_in(monkeypatch, "fake", f"{__name__}:Without")
    without = measure("--batches", "--minutes", "1", device="fake:noisy")
    assert without.exit_code == 1
    assert "fake:noisy could not be measured" in without.stderr
