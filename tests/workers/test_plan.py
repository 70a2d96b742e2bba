"""What a sweep is planned for: phones that say nonsense, and files that cannot be brought to them."""

from dataclasses import replace
from pathlib import Path

import pytest

from sweeps.device_facts import DeviceFacts
from sweeps.errors import DeviceError
from sweeps.spec.grid import GridSpec
from tests.workers.tiny_sweep import Sweep
from workers import plan as planner
from workers.devices import registry as devices
from workers.devices.adb import discovery as adb_discovery
from workers.devices.fake.device import FakeDevice
from workers.measure import attach as attaching
from workers.measure.attach import Attached, attach
from workers.runtimes.interface import Program
from workers.runtimes.torchscript.runtime import TorchScript

ONE = GridSpec(precision=("fp32",), layout=("nhwc",))


@pytest.fixture
def two_phones(monkeypatch: pytest.MonkeyPatch) -> None:
    """`adb:good`, and `adb:odd`, whose facts nobody can make sense of."""

    def attached(name: str, folder: Path) -> Attached:
        found = attach("fake:steady", folder)
        if name == "adb:odd":
            raise ValueError("invalid literal for int(): 'many'\nTraceback")
        return replace(found, facts=replace(found.facts, name=name))

    monkeypatch.setattr(planner, "attach", attached)
    monkeypatch.setattr(adb_discovery, "attached", lambda: (["adb:odd", "adb:good"], []))


@pytest.mark.usefixtures("two_phones")
def test_a_phone_that_says_nonsense_is_left_out_by_name_and_the_others_are_planned_for(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path, ONE)
    told: list[str] = []
    spec = sweep.spec.model_copy(update={"devices": ("adb:*",)})
    plan = planner.plan_sweep(spec, sweep.workspace.root, (tmp_path,), tell=told.append)
    assert [facts.name for facts in plan.devices] == ["adb:good"]
    (line,) = told
    assert line.startswith("adb:odd ")
    assert "ValueError: invalid literal for int(): 'many'" in line
    assert "Traceback" not in line


@pytest.mark.usefixtures("two_phones")
def test_a_phone_that_was_asked_for_by_name_and_says_nonsense_is_an_error_that_names_it(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path, ONE)
    spec = sweep.spec.model_copy(update={"devices": ("adb:odd",)})
    with pytest.raises(DeviceError, match="adb:odd") as caught:
        planner.plan_sweep(spec, sweep.workspace.root, (tmp_path,))
    assert caught.value.kind == "worker_error"
    assert caught.value.next_step


def test_a_runner_that_can_not_be_read_is_an_error_that_names_the_phone_and_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = tmp_path / "edgesweep_runner_full"  # a folder, which nobody can read as a file
    runner.mkdir()

    class Bare(FakeDevice):
        """A phone without Python."""

        def facts(self) -> DeviceFacts:
            return replace(super().facts(), runtime_versions=())

    monkeypatch.setattr(devices, "connect", lambda _, folder: Bare(folder, "steady"))
    monkeypatch.setattr(TorchScript, "programs", lambda *_: {"pt": Program(path=str(runner))})
    with pytest.raises(DeviceError, match=f"fake:steady .*{runner.name}") as caught:
        attaching.attach("fake:steady", tmp_path)
    assert caught.value.kind == "os_error"
