"""A sweep is planned also for phones that say nonsense, and with files that cannot be brought to them."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast
from unittest.mock import Mock

import pytest

from sweeps.device_facts import DeviceFacts
from sweeps.errors import DeviceError
from sweeps.spec import built_in, catalog
from sweeps.spec.grid import GridSpec
from sweeps.variant import Variant
from tests.workers.tiny_sweep import Sweep
from workers import plan_inputs as planner
from workers.devices import registry as devices
from workers.devices.adb import discovery as adb_discovery
from workers.devices.fake.device import FakeDevice
from workers.hosts.this_machine import HostConfig, agent_of
from workers.measure import attach as attaching
from workers.measure.attach import Attached, attach
from workers.runtimes.interface import Program, RunnerIdentity
from workers.runtimes.stock_tool import StockTool
from workers.runtimes.torchscript.runtime import TorchScript

ONE = GridSpec(precision=("fp32",), layout=("nhwc",))


class Bare(FakeDevice):
    """A phone without Python."""

    def facts(self) -> DeviceFacts:
        return replace(super().facts(), runtime_versions=())


@pytest.fixture
def two_phones(monkeypatch: pytest.MonkeyPatch) -> None:
    """`adb:good`, and `adb:odd`, whose facts nobody can make sense of."""

    def attached(name: str, folder: Path, *_: object) -> Attached:
        device = attach("fake:steady", folder)
        if name == "adb:odd":
            raise ValueError("invalid literal for int(): 'many'\nTraceback")
        return replace(device, facts=replace(device.facts, name=name))

    monkeypatch.setattr(planner, "attach", attached)
    monkeypatch.setattr(adb_discovery, "attached", lambda: (["adb:odd", "adb:good"], []))


@pytest.mark.usefixtures("two_phones")
def test_a_phone_that_says_nonsense_is_left_out_by_name_and_the_others_are_planned(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path, ONE)
    messages: list[str] = []
    spec = sweep.spec.model_copy(update={"devices": ("adb:*",)})
    plan = planner.plan_sweep(spec, sweep.workspace.root, (tmp_path,), tell=messages.append)
    assert [facts.name for facts in plan.devices] == ["adb:good"]
    (line,) = messages
    assert line.startswith("adb:odd ")
    assert "ValueError: invalid literal for int(): 'many'" in line
    assert "Traceback" not in line


@pytest.mark.usefixtures("two_phones")
def test_a_phone_asked_for_by_name_that_says_nonsense_is_an_error_that_names_it(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path, ONE)
    spec = sweep.spec.model_copy(update={"devices": ("adb:odd",)})
    with pytest.raises(DeviceError, match="adb:odd") as caught:
        planner.plan_sweep(spec, sweep.workspace.root, (tmp_path,))
    assert caught.value.kind == "worker_error"
    assert caught.value.next_step


def test_a_runner_that_cannot_be_read_is_an_error_that_names_the_phone_and_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = tmp_path / "edgesweep_runner_full"  # a folder, which nobody can read as a file
    runner.mkdir()

    monkeypatch.setattr(devices, "connect", lambda _, folder: Bare(folder, "steady"))
    monkeypatch.setattr(TorchScript, "programs", lambda *_: {"pt": Program(path=str(runner))})
    with pytest.raises(DeviceError, match=f"fake:steady .*{runner.name}") as caught:
        attaching.attach("fake:steady", tmp_path)
    assert caught.value.kind == "os_error"


@dataclass(frozen=True)
class Tool:
    """A program as it is known without asking it."""

    name: str

    def identity(self) -> RunnerIdentity:
        return RunnerIdentity(
            runner=f"{self.name}-runner 1", runtime_version=f"{self.name} 7", qengines=(self.name,), accelerators=()
        )


class Abacus:
    """A runtime of another package, with a program for phones."""

    def programs(self, facts: DeviceFacts) -> dict[str, Program]:
        return {"table": Program(path=__file__, tool=Tool("abacus"))}


class Unbringable(Abacus):
    """One whose program cannot be read."""

    def programs(self, facts: DeviceFacts) -> dict[str, Program]:
        return {"table": Program(path="/nowhere/at/all", tool=Tool("unbringable"))}

    def versions(self) -> dict[str, str]:
        return {"builder": "unbringable 1"}

    def runner(self) -> str:
        return "unbringable-runner 1"

    def references(self) -> dict[str, str]:
        return {}

    def supports(self, variant: Variant, facts: DeviceFacts) -> None:
        """Everything."""


class Rude(Abacus):
    """One that ends in an error of its own."""

    def programs(self, facts: DeviceFacts) -> dict[str, Program]:
        raise RuntimeError(f"{facts.abi} is beneath us")


OTHERS = {"abacus": f"{__name__}:Abacus", "rude": f"{__name__}:Rude", "gone": "library_that_nobody_has:Gone"}
UNBRINGABLE = f"{__name__}:Unbringable"


@pytest.fixture
def bare_phone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A phone to which programs are brought, on a machine where other packages have runtimes for it."""
    monkeypatch.setattr(devices, "connect", lambda _, folder: Bare(folder, "steady"))
    monkeypatch.setattr(
        TorchScript, "programs", lambda *_: {"pt": Program(path=__file__, tool=cast(StockTool, Tool("mobile")))}
    )
    for name, target in OTHERS.items():
        monkeypatch.setitem(catalog.runtimes(), name, replace(built_in.EAGER, name=name, target=target))


@pytest.mark.usefixtures("bare_phone")
def test_a_phone_has_the_same_fingerprint_whatever_runtimes_other_packages_bring(tmp_path: Path) -> None:
    messages: list[str] = []
    without = attach("fake:steady", tmp_path, ["torchscript"], messages.append)
    assert without.programs.keys() == {("torchscript", "pt")}
    assert without.facts.runners == (("torchscript", "mobile-runner 1"),)
    assert messages == []
    used = attach("fake:steady", tmp_path, ["torchscript", *OTHERS], messages.append)
    assert used.programs.keys() == {("torchscript", "pt"), ("abacus", "table")}
    assert used.facts.fingerprint == without.facts.fingerprint
    assert used.facts == replace(without.facts, runners=used.facts.runners)
    # The runtime's version is in the keys of its own jobs, with its runner's.
    assert dict(used.facts.runners)["abacus"] == "abacus-runner 1 and abacus 7"
    missing, rude = sorted(messages)
    assert missing.startswith("fake:steady: the runtime gone is left out: the runtime gone cannot be loaded: ")
    assert rude.startswith("fake:steady: the runtime rude is left out: RuntimeError: ")


@pytest.mark.usefixtures("bare_phone")
def test_a_host_brings_its_phones_all_that_it_has_and_a_driver_plans_by_that_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "listed", lambda: ([], {}))
    agent = agent_of(HostConfig(name="lab-1", state=tmp_path, units=("fake:steady",)), 1, Mock())
    hello = agent.hello()
    agent.leave(0.0)
    (device,) = [hello.named(device.facts) for device in hello.devices]
    assert device.fingerprint == attach("fake:steady", tmp_path).facts.fingerprint, "in no key but its own jobs'"
    assert dict(device.runners)["abacus"] == "abacus-runner 1 and abacus 7"
    bare = replace(device, runners=(), runtime_versions=())
    # The runtimes of this computer make no difference.
    for facts, lacking in ((device, ("rude", "gone")), (bare, ("torchscript", "abacus", "rude", "gone"))):
        lacks = {name: planner.no_program(facts, name) for name in ("torchscript", *OTHERS)}
        assert {name for name, lack in lacks.items() if lack is not None} == set(lacking)
        lack = str(lacks["gone"])
        assert "can be pushed to host:lab-1/fake:steady: the host lab-1 has none" in lack
        assert "put it there (edgesweep explain runtimes), then plug the device in again" in lack


@pytest.mark.usefixtures("bare_phone")
def test_what_another_packages_broken_runtime_would_run_is_skipped_with_its_reason(tmp_path: Path) -> None:
    facts = attach("fake:steady", tmp_path, OTHERS).facts
    assert planner.no_program(facts, "torchscript") is None
    assert planner.no_program(facts, "abacus") is None
    assert "RuntimeError: " in str(planner.no_program(facts, "rude"))
    assert "library_that_nobody_has" in str(planner.no_program(facts, "gone"))


@pytest.mark.usefixtures("bare_phone")
def test_a_runtime_that_cannot_be_pushed_is_skipped_and_waits_for_an_absent_phone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def connect(name: str, folder: Path) -> Bare:
        if name == "adb:away":
            raise DeviceError("offline", "adb:away is away")
        return Bare(folder, "steady")

    entry = replace(built_in.EAGER, name="new", target=UNBRINGABLE)
    sweep = Sweep(tmp_path, ONE)
    away = replace(attach("fake:steady", tmp_path).facts, name="adb:away", device_id="away")
    monkeypatch.setattr(devices, "connect", connect)
    monkeypatch.setitem(catalog.runtimes(), "new", entry)
    grid = ONE.model_copy(update={"runtime": ("new",)})
    spec = sweep.spec.model_copy(update={"devices": ("adb:away", "fake:steady"), "grids": (grid,)})
    plan = planner.plan_sweep(spec, sweep.workspace.root, (tmp_path,), before=[away])
    assert [job.device_id for job in plan.jobs] == ["away"]
    (skipped,) = plan.skipped
    assert (skipped.device_id, skipped.reason) == (
        "fake-steady",
        "the runtime new could not be pushed to fake:steady",
    )


@pytest.mark.usefixtures("bare_phone")
def test_a_phone_that_is_away_while_another_packages_program_is_brought_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    brought = [False]

    def push(_: FakeDevice, source: Path, name: str, *, sha256: str | None = None) -> str:
        if brought[0]:
            raise DeviceError("offline", "fake:steady is away")
        brought[0] = True
        return name

    monkeypatch.setattr(Bare, "push", push, raising=False)
    with pytest.raises(DeviceError, match="is away"):
        attach("fake:steady", tmp_path, ["abacus"])


def of_lab(*devices: DeviceFacts) -> planner.Select:
    return lambda _: iter(devices)


def test_in_a_lab_phones_are_those_of_its_hosts_and_local_is_this_machine(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path, ONE)
    away = replace(attach("fake:steady", tmp_path).facts, name="host:lab-2/adb:R5", device_id="R5")
    names: list[str] = []

    def lab(name: str) -> list[DeviceFacts | DeviceError]:
        names.append(name)
        return [away]

    spec = sweep.spec.model_copy(update={"devices": ("adb:*", "tag:office", "local")})
    plan = planner.plan_sweep(spec, sweep.workspace.root, (tmp_path,), lab=lab)
    assert [facts.name for facts in plan.devices] == ["host:lab-2/adb:R5", "local"]
    assert names == ["adb:*", "tag:office"]


def test_a_device_of_a_lab_that_is_away_keeps_its_place_in_the_plan(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path, ONE)
    away = replace(attach("fake:steady", tmp_path).facts, name="host:lab-2/adb:R5", device_id="R5")
    messages: list[str] = []
    spec = sweep.spec.model_copy(update={"devices": ("host:lab-2/adb:*",)})
    plan = planner.plan_sweep(spec, sweep.workspace.root, (tmp_path,), (away,), messages.append, of_lab())
    assert plan.devices == (away,)
    assert "host:lab-2/adb:R5 cannot be reached" in messages[-1]
    moved = replace(away, name="host:lab-1/adb:R5")
    spec = sweep.spec.model_copy(update={"devices": ("adb:*",)})
    plan = planner.plan_sweep(spec, sweep.workspace.root, (tmp_path,), (away,), messages.append, of_lab(moved))
    assert plan.devices == (moved,), "it is one device, on another host"


@pytest.mark.parametrize(
    ("lab", "kind", "message"),
    [(None, "no_lab", "--lab HOST:PORT"), (of_lab(), "no_phone", "edgesweep hosts")],
    ids=["no lab", "an empty lab"],
)
def test_a_device_that_no_lab_has_is_an_error_with_a_way_out(
    tmp_path: Path, lab: planner.Select | None, kind: str, message: str
) -> None:
    sweep = Sweep(tmp_path, ONE)
    spec = sweep.spec.model_copy(update={"devices": ("host:lab-2/adb:R5",)})
    with pytest.raises(DeviceError, match="host:lab-2/adb:R5") as caught:
        planner.plan_sweep(spec, sweep.workspace.root, (tmp_path,), lab=lab)
    assert caught.value.kind == kind
    assert message in caught.value.next_step
