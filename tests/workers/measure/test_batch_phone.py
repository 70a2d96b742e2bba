"""Batches of the C++ runner on a virtual phone, over adb."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sweeps.batches import Batch, BatchItem
from sweeps.protocol.presets import resolve
from sweeps.spec.protocol import ProtocolSpec
from sweeps.variant import Variant
from tests import gallery
from tests.faulty_phone import FaultyPhone
from tests.workers.runtimes import batches
from tests.workers.runtimes.scripted_modules import Endless, Flat
from tests.workers.tiny_model import tiny_inputs, tiny_job
from workers.artifacts import ArtifactStore
from workers.measure import processes
from workers.measure.attach import Attached, attach
from workers.measure.batch_request import BatchRequest
from workers.measure.device_runner import DeviceRunner
from workers.measure.readiness import Readiness
from workers.runtimes.torchscript import native_runner

pytestmark = [pytest.mark.system, pytest.mark.compiler]

QUICK = resolve(ProtocolSpec(preset="quick", warmup_seconds=0.1, min_seconds=0.02, iterations=3))
VARIANTS = {"a" * 64: Variant(), "b" * 64: Variant(format="ptl")}


@pytest.fixture(scope="module")
def attached(phone: FaultyPhone, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attached]:
    device_attached = attach(f"adb:{phone.serial}", tmp_path_factory.mktemp("attached"))
    yield device_attached
    device_attached.device.release()


def test_each_job_of_a_batch_has_its_item_and_both_formats_share_a_program(attached: Attached, tmp_path: Path) -> None:
    for key, variant in VARIANTS.items():
        gallery.build(tmp_path / "artifacts", key, variant, tiny_inputs())
    store = ArtifactStore(tmp_path / "artifacts")
    bench = DeviceRunner(attached.device, tmp_path, attached.facts, attached.programs, store)
    jobs = [tiny_job(key, variant, key=variant.format) for key, variant in VARIANTS.items()]
    ready = Readiness(sensors=attached.device.sensors(load=False), lacking=(), busy_only=False)
    batch = bench.ask(BatchRequest.of(jobs, replace(QUICK, fixed_performance=False), ready))
    assert isinstance(batch, Batch), batch
    items = [item for item in batch.outcomes if isinstance(item, BatchItem)]
    assert [(item.job_key, item.runner) for item in items] == [
        ("pt", f"{native_runner.runner()} batch 1"),
        ("ptl", f"{native_runner.runner()} batch 1"),
    ], batch
    assert all("virtual_phone" in item.labels for item in items)


def test_an_item_that_hangs_on_a_phone_costs_itself_and_what_was_not_reached(
    attached: Attached, tmp_path: Path
) -> None:
    device = attached.device
    saved_requests = [batches.saved(tmp_path, module) for module in (Flat(), Endless(), Flat())]
    paths = [device.push(Path(request.model), f"{number}.pt") for number, request in enumerate(saved_requests)]
    requests = [replace(request, model=path) for request, path in zip(saved_requests, paths, strict=True)]
    (tmp_path / "batch.jsonl").write_bytes(batches.RUNTIME.batch_file(requests))
    file = device.push(tmp_path / "batch.jsonl", "batch.jsonl")
    argv = batches.RUNTIME.batch_command(file, 3.0, attached.programs["torchscript", "pt"].path)
    try:
        outcomes = processes.batch(device, batches.RUNTIME, argv, batches.hashes(saved_requests), 120.0)
    finally:
        for path in (*paths, file):
            device.remove(path)
    assert batches.kinds(outcomes) == ["report", "timeout", "not reached"]
