"""A shipped file, measured again on this machine."""

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from sweeps.cli.main import main
from sweeps.errors import DeviceError, EdgeSweepError, StoreError
from sweeps.journal.journal import Journal
from sweeps.protocol.presets import PRESETS, resolve
from sweeps.ranking.comparison_input import Origin, Result
from sweeps.ranking.exported_build import BlockProtocol, Expected, GateLimits, Shipped, read_shipped
from sweeps.ranking.session_ratio import ENOUGH_FOR_ONE, PRIOR, Spread
from sweeps.records import Block
from sweeps.spec.protocol import ProtocolSpec
from sweeps.variant import Variant
from sweeps.workspace import Workspace
from tests import gallery
from tests.sweeps.conftest import Records
from tests.transports import stand_in
from tests.workers.tiny_model import tiny_inputs
from workers.artifacts import ArtifactStore
from workers.devices.fake import runner as fake_runner
from workers.devices.fake.device import FakeDevice
from workers.devices.interface import Completed, Sensors
from workers.devices.local import local_facts
from workers.runtimes import registry
from workers.winner_check import ManifestCheck, _judged, check

PROTOCOL = resolve(
    ProtocolSpec(
        preset="quick", warmup_seconds=0.02, min_seconds=0.05, iterations=5, gate="none", fixed_performance=False
    )
)


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> tuple[Shipped, bytes]:
    """A real artifact with made-up figures: 1 ms a block, on this very machine."""
    store = ArtifactStore(tmp_path_factory.mktemp("built"))
    artifact = gallery.build(store.root, "a" * 64, Variant(), tiny_inputs())
    facts = local_facts()
    expected = Expected(
        sweep="s",
        job="tiny · cpu fp32",
        job_key="k",
        timed=True,
        executor=facts.fingerprint,
        device=facts.device_class,
        device_id=facts.device_id,
        device_fingerprint=facts.fingerprint,
        preset="quick",
        rounds=3,
        threads=1,
        cpus="all",
        reuse_input=True,
        runner=registry.get("torchscript").runner(),
        runtime_version=dict(facts.runtime_versions)["torchscript"],
        exec_context=facts.exec_context,
        gate="none",
        protocol=BlockProtocol(**PROTOCOL.comparable()),
        block_medians_ms=(1e8, 1.01e8, 0.99e8),
        verdict="pass",
        trust=("ungated",),
        figures={"latency_p50_ms": 1e8},
    )
    return Shipped(artifact=artifact, expected=expected), store.model(artifact).read_bytes()


@pytest.fixture
def check_again(shipped: tuple[Shipped, bytes], tmp_path: Path):
    """Puts manifest and file into a folder, maybe changed, and checks them; a workspace beside it."""
    shipped_manifest, content = shipped
    workspace = Workspace.open(tmp_path / "workspace")

    def run(
        file: bytes | None = content, rounds: int = 2, margin_percent: float = 5.0, **changes: object
    ) -> tuple[ManifestCheck, list[Block]]:
        folder = tmp_path / "out"
        folder.mkdir()
        expected = shipped_manifest.expected.model_copy(update=changes)
        path = folder / "manifest.json"
        path.write_text(shipped_manifest.model_copy(update={"expected": expected}).model_dump_json())
        if file is not None:
            (folder / shipped_manifest.artifact.file).write_bytes(file)
        blocks: list[Block] = []
        with gallery.remembering():
            return check(read_shipped(path), path, "local", workspace, rounds, margin_percent, blocks.append), blocks

    return run


def check_gated(shipped: tuple[Shipped, bytes], folder: Path, rounds: int, blocks: list[Block]) -> ManifestCheck:
    """On a simulated phone, under the gate of `quick`, against a manifest that says that such a phone was slow."""
    shipped_manifest, content = shipped
    facts = FakeDevice(folder, "cool").facts()
    expected = shipped_manifest.expected.model_copy(
        update={
            "device": facts.device_class,
            "device_id": facts.device_id,
            "device_fingerprint": facts.fingerprint,
            "exec_context": facts.exec_context,
            "runner": f"{fake_runner.NAME} {fake_runner.VERSION}",
            "gate": "gated",
            "protocol": BlockProtocol(**replace(PROTOCOL, gate=PRESETS["quick"].gate).comparable()),
        }
    )
    (folder / shipped_manifest.artifact.file).write_bytes(content)
    workspace = Workspace.open(folder / "workspace")
    manifest = shipped_manifest.model_copy(update={"expected": expected})
    return check(manifest, folder / "manifest.json", "fake:cool", workspace, rounds, 5.0, blocks.append)


def test_a_file_that_is_faster_than_its_manifest_says_holds(check_again, shipped, tmp_path: Path) -> None:
    checked, blocks = check_again()
    assert (checked.finding, checked.why, checked.exit_code) == ("holds", "", 0)
    assert checked.expected_p50_ms == 1e8
    assert 0 < checked.p50_ms < 1000
    assert len(blocks) == 2
    assert {block.artifact_sha256 for block in blocks} == {hashlib.sha256(shipped[1]).hexdigest()}
    assert "accuracy was not measured again" in checked.note
    json.dumps(checked.document(), allow_nan=False)


def test_a_file_slower_than_its_manifest_does_not_hold_but_one_session_is_no_proof(check_again) -> None:
    checked, _ = check_again(block_medians_ms=(1e-5, 1.01e-5, 0.99e-5))
    assert (checked.finding, checked.exit_code) == ("slower (one session)", 5)
    assert checked.ratio_low > 1.02
    assert checked.session_spread_percent == 2.5


def test_another_runner_than_the_manifest_s_is_another_instrument(check_again, shipped) -> None:
    checked, blocks = check_again(runner="another 7")
    assert (checked.finding, checked.exit_code) == ("not comparable", 4)
    assert checked.why == f"runner: another 7 and {blocks[-1].runner}"


def test_the_sentinel_of_the_workspace_is_evidence_of_how_much_its_device_varies(check_again, tmp_path: Path) -> None:
    records = Records()
    sentinel = records.job(9, device_id=local_facts().device_id)
    with Journal.open(tmp_path / "workspace" / "journal.sqlite") as journal:
        journal.save_plan(records.plan(replace(sentinel, key="k", sentinel=sentinel.key), facts=(local_facts(),)))
        for day in range(5):
            journal.attempts.add_block(records.block(sentinel, day, session=1_790_000_000 + 86_400 * day))
    checked, _ = check_again()
    assert checked.session_spread_percent == pytest.approx(2.5 * (3 / (3 + 4)) ** 0.5)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"device": "Maker Phone (SoC)"}, "device class: Maker Phone (SoC) and "),
        ({"device_fingerprint": "0" * 16}, "device fingerprint"),
        ({"runtime_version": "1.13.1"}, "runtime version: 1.13.1 and "),
        ({"runner": "another 7"}, "runner: another 7 and python-torchscript "),
        ({"gate": "gated"}, "gate: gated and none"),
        ({"trust": ("throttled",)}, "then: throttled"),
        ({"block_medians_ms": (1.0,)}, "an interval needs 2 blocks"),
    ],
)
def test_unlike_conditions_are_named_and_the_figures_still_given(
    shipped, changes: dict[str, object], words: str
) -> None:
    manifest = shipped[0]
    now = manifest.comparable(Path("manifest.json"))
    other = manifest.model_copy(update={"expected": manifest.expected.model_copy(update=changes)})
    checked = _judged(other.comparable(Path("manifest.json")), now, 5.0, PRIOR)
    assert (checked.finding, checked.exit_code) == ("not comparable", 4)
    assert words in checked.why
    assert checked.p50_ms == 1e8


def test_a_device_that_never_becomes_ready_ends_after_one_wait_not_one_each_round(shipped, tmp_path: Path) -> None:
    manifest, content = shipped
    # The room is warmer than this gate lets a phone be.
    gate = GateLimits(max_battery_temp_c=0.0, max_cpu_temp_c=0.0, max_thermal_status=0)
    protocol = manifest.expected.protocol.model_copy(update={"gate": gate})
    never = manifest.model_copy(update={"expected": manifest.expected.model_copy(update={"protocol": protocol})})
    (tmp_path / manifest.artifact.file).write_bytes(content)
    blocks: list[Block] = []
    workspace = Workspace.open(tmp_path / "workspace")
    checked = check(never, tmp_path / "manifest.json", "fake:cool", workspace, 3, 5.0, blocks.append)
    wait_seconds = PRESETS["quick"].gate.wait_seconds
    assert [block.conditions.waited_seconds for block in blocks] == pytest.approx([wait_seconds, 0.0, 0.0], abs=0.1)
    assert checked.trust[0] == "gate_timeout"
    assert (checked.finding, checked.exit_code) == ("not comparable", 4)
    assert "now: gate_timeout" in checked.why


class WarmAtFirst(FakeDevice):
    """Too warm until the end of its first block."""

    _warm = True

    def run(self, argv: Sequence[str], deadline_s: float) -> Completed:
        completed = super().run(argv, deadline_s)
        self._warm = False
        return completed

    def sensors(self, *, load: bool = True) -> Sensors:
        sensors_read = super().sensors(load=load)
        return replace(sensors_read, temp_c=60.0) if self._warm else sensors_read


@pytest.mark.parametrize(("rounds", "finding", "counted"), [(4, "holds", 3), (3, "not comparable", 3)])
def test_a_bad_block_is_left_out_where_there_are_enough_without_it_as_in_a_sweep(
    shipped, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rounds: int, finding: str, counted: int
) -> None:
    stand_in(monkeypatch, "fake", f"{__name__}:WarmAtFirst")
    blocks: list[Block] = []
    checked = check_gated(shipped, tmp_path, rounds, blocks)
    assert [("gate_timeout" in block.labels) for block in blocks] == [True, *[False] * (rounds - 1)]
    assert (checked.finding, "gate_timeout" in checked.trust) == (finding, finding != "holds")
    assert len(checked.block_medians_ms) == counted


class Orphaned(FakeDevice):
    """A device on which the leftovers of an earlier, killed check run until somebody ends them."""

    stays = False
    released = 0
    _ended = False

    def sensors(self, *, load: bool = True) -> Sensors:
        return replace(super().sensors(load=load), competing=() if self._ended else ("1234 runner",))

    def end_orphans(self) -> tuple[str, ...]:
        if self.stays:
            raise DeviceError("orphan", "1234 runner does not end", "start the phone anew")
        self._ended = True
        return ("1234 runner",)

    def release(self) -> None:
        type(self).released += 1


def test_what_an_earlier_run_left_on_the_device_is_ended_and_not_waited_for(
    shipped, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(monkeypatch, "fake", f"{__name__}:Orphaned")
    blocks: list[Block] = []
    checked = check_gated(shipped, tmp_path, 2, blocks)
    assert [block.conditions.waited_seconds for block in blocks] == [0.0, 0.0]
    assert "gate_timeout" not in checked.trust


def test_a_device_whose_orphan_does_not_end_is_given_back(
    shipped, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(monkeypatch, "fake", f"{__name__}:Orphaned")
    monkeypatch.setattr(Orphaned, "stays", True)
    monkeypatch.setattr(Orphaned, "released", 0)
    blocks: list[Block] = []
    with pytest.raises(DeviceError, match="does not end"):
        check_gated(shipped, tmp_path, 2, blocks)
    assert (Orphaned.released, blocks) == (1, [])


def test_a_changed_file_is_refused_before_anything_opens_it(check_again, shipped, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="not the file that the manifest is about"):
        check_again(file=shipped[1] + b"x")
    assert not list((tmp_path / "workspace").iterdir())


def test_a_missing_file_is_an_error_with_its_path(check_again) -> None:
    with pytest.raises(StoreError, match=r"model\.pt"):
        check_again(file=None)


def test_an_unknown_device_is_refused(shipped, tmp_path: Path) -> None:
    manifest, content = shipped
    (tmp_path / manifest.artifact.file).write_bytes(content)
    with pytest.raises(EdgeSweepError, match="toaster"):
        check(manifest, tmp_path / "manifest.json", "toaster", Workspace.open(tmp_path / "w"), 2, 5.0, lambda _: None)


def test_the_file_never_becomes_an_artifact_of_the_workspace(check_again, tmp_path: Path) -> None:
    check_again()
    store = ArtifactStore(tmp_path / "workspace/artifacts")
    assert store.look("a" * 64) is None
    assert not list(store.root.iterdir())


STEADY = Spread(1e-9, 100.0)
"""A device that is the same every day."""


def in_sessions(result: Result, first: int, count: int) -> Result:
    """The same blocks in each of these sessions."""
    origins = tuple(Origin(run=str(day), session=day) for day in range(first, first + count) for _ in result.medians_ms)
    return replace(result, medians_ms=result.medians_ms * count, origins=origins)


@pytest.mark.parametrize(
    ("factor", "finding", "code"),
    [(1.0, "holds", 0), (1.015, "holds", 0), (1.04, "slower", 3), (1.5, "slower", 3), (0.5, "holds", 0)],
)
def test_it_is_slower_by_the_rule_of_compare(shipped, factor: float, finding: str, code: int) -> None:
    built: Result = shipped[0].comparable(Path("manifest.json"))
    then, now = in_sessions(built, 1, ENOUGH_FOR_ONE), in_sessions(built, 99, 1)
    now = replace(now, medians_ms=tuple(factor * ms for ms in now.medians_ms))
    checked = _judged(then, now, 5.0, STEADY)
    assert (checked.finding, checked.exit_code) == (finding, code)
    few = _judged(in_sessions(built, 1, 2), now, 5.0, STEADY)
    assert few.finding == ("slower (one session)" if finding == "slower" else finding)


def test_a_device_of_which_nothing_is_known_may_be_slower_today_so_nothing_is_shown(shipped) -> None:
    built: Result = shipped[0].comparable(Path("manifest.json"))
    then, now = in_sessions(built, 1, 1), in_sessions(built, 99, 1)
    checked = _judged(then, now, 5.0, PRIOR)
    assert (checked.finding, checked.exit_code) == ("unresolved", 5)
    assert "measure both again at least 30 minutes later (" in checked.why
    assert _judged(then, now, 15.0, PRIOR).finding == "holds"


def test_a_difference_that_the_rounds_do_not_resolve_is_no_pass(shipped) -> None:
    then: Result = shipped[0].comparable(Path("manifest.json"))
    checked = _judged(then, replace(then, medians_ms=(0.8e8, 1.9e8)), 5.0, STEADY)
    assert (checked.finding, checked.exit_code, checked.ratio > 1.02) == ("unresolved", 5, True)
    assert checked.why.endswith("or allow more with --margin")
    assert json.loads(json.dumps(checked.document()))["margin_percent"] == 5.0


def test_the_command_ends_with_five_where_the_rounds_leave_it_open(shipped, tmp_path: Path) -> None:
    manifest, content = shipped
    vague = manifest.expected.model_copy(update={"block_medians_ms": (1e-3, 1e3)})
    (tmp_path / "manifest.json").write_text(manifest.model_copy(update={"expected": vague}).model_dump_json())
    (tmp_path / manifest.artifact.file).write_bytes(content)
    command = ["check", str(tmp_path / "manifest.json"), "--rounds", "2", "--workspace", str(tmp_path / "workspace")]
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 5
    assert done.stdout.startswith("unresolved: p50 ")
    assert re.search(r"geometric means of blocks: .+ ms now, .+ ms then: .+ times as long \(", done.stdout)
    assert "or allow more with --margin" in done.stdout


def test_it_holds_where_only_how_much_faster_it_is_stays_open(shipped) -> None:
    then: Result = shipped[0].comparable(Path("manifest.json"))
    faster = replace(then, medians_ms=(0.85e8, 0.9e8, 0.99e8, 0.95e8))
    checked = _judged(then, faster, 5.0, STEADY)
    assert checked.ratio_low < 1 / 1.05 < 1 < checked.ratio_high < 1.05
    assert checked.ratio == pytest.approx(checked.mean_ms / checked.expected_mean_ms, rel=1e-12)
    assert (checked.finding, checked.why) == ("holds", "")
    assert _judged(then, faster, 0.5, STEADY).finding == "unresolved"
