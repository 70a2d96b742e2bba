"""Two real Ray nodes with folders of their own: one builds, the other has the device."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import ray
from ray.cluster_utils import Cluster

from sweeps.batches import Batch, BatchItem
from sweeps.device_facts import DeviceFacts
from sweeps.errors import ClusterError
from sweeps.protocol.presets import resolve
from sweeps.records import Block, Failed, Job
from sweeps.spec.protocol import ProtocolSpec
from sweeps.variant import Variant
from tests.builders import job_of
from tests.workers.tiny_model import tiny_inputs
from workers.artifacts import ArtifactStore, PackedArtifact
from workers.devices.interface import Sensors
from workers.devices.local import local_facts
from workers.executors import ray as cluster
from workers.executors.interface import BuildRequest
from workers.executors.ray import NODE_FOLDER_VARIABLE, RayExecutor
from workers.measure.batch_request import BatchRequest
from workers.measure.device_files import Evaluation
from workers.measure.evaluation_request import LogitsRequest
from workers.measure.readiness import Readiness
from workers.measure.recovery_request import RecoverRequest
from workers.measure.timed_block import BlockRequest, ReadyRequest

pytestmark = [pytest.mark.system, pytest.mark.ray]

READY = Readiness(sensors=Sensors(), lacking=(), busy_only=False)
QUICK = resolve(ProtocolSpec(preset="quick", warmup_seconds=0.01, min_seconds=0.02, iterations=3))


@pytest.fixture(scope="module")
def cluster_of_two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, dict[str, Path]]]:
    """A head that is only a head, a node that builds, a node that has the device; three folders."""
    root = tmp_path_factory.mktemp("cluster")
    folders = {name: root / name for name in ("builder", "phone-host", "driver")}
    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    nodes.add_node(wait=False, num_cpus=2, env_vars={NODE_FOLDER_VARIABLE: str(folders["builder"])})
    nodes.add_node(
        wait=False,
        num_cpus=0,
        resources={f"device:{local_facts().device_id}": 1, "device:phone-18": 1},
        env_vars={NODE_FOLDER_VARIABLE: str(folders["phone-host"])},
    )
    nodes.wait_for_nodes(timeout=180)
    yield nodes.address, folders
    ray.shutdown()
    nodes.shutdown()


@pytest.fixture
def two_nodes(cluster_of_two: tuple[str, dict[str, Path]], monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    address, folders = cluster_of_two
    monkeypatch.setenv("RAY_ADDRESS", address)
    return folders


def _job(build_key: str, variant: Variant) -> Job:
    return job_of("job-" + build_key, build_key, local_facts().device_id, variant=variant)


def test_an_artifact_of_one_node_is_measured_on_another_without_a_shared_folder(
    two_nodes: dict[str, Path],
) -> None:
    inputs = tiny_inputs()
    job = _job("a" * 64, Variant(layout="nhwc", optimize=True))
    executor = RayExecutor(two_nodes["driver"])
    try:
        request = BuildRequest(job.build_key, job.variant, inputs)
        [(started, nothing), (built, packed)] = executor.build([request], lambda: False)
        assert started is built is request
        assert nothing is None
        assert isinstance(packed, PackedArtifact), packed
        store = ArtifactStore(two_nodes["driver"] / "artifacts")
        store.unpack(packed)

        other = _job("9" * 64, Variant())
        store.build(other.build_key, other.variant, inputs)
        lane = executor.lane(local_facts())
        batch = lane.ask(BatchRequest.of([job, other], QUICK, READY))
        block = lane.ask(BlockRequest(job, 0, QUICK, READY))
        answer = lane.ask(LogitsRequest(job, Evaluation(evaluation_id="test", images=inputs.verification)))
        step = lane.ask(RecoverRequest(job, "reconnect"))
    finally:
        executor.close()
    assert isinstance(step, Failed), step
    assert "local can only be waited for" in step.message, "told by the device's host"
    assert isinstance(batch, Batch), batch
    assert [isinstance(outcome, BatchItem) for outcome in batch.outcomes] == [True, True], batch
    assert isinstance(block, Block), block
    assert len(block.samples_ns) >= 3
    assert not isinstance(answer, Failed), answer
    np.testing.assert_allclose(answer.logits, inputs.verification_logits, atol=1e-4)
    for folder in two_nodes.values():
        assert ArtifactStore(folder / "artifacts").find(job.build_key) is not None
    assert ArtifactStore(two_nodes["phone-host"] / "artifacts").find(other.build_key) is not None
    assert list((two_nodes["phone-host"] / "run").glob("*.pt"))
    assert not (two_nodes["builder"] / "run").exists()
    assert not (two_nodes["driver"] / "run").exists()


def test_a_build_whose_process_dies_is_one_failed_build(two_nodes: dict[str, Path]) -> None:
    inputs = tiny_inputs()
    deadly = replace(inputs, package=replace(inputs.package, files={"tiny_net.py": b"import os\nos._exit(1)\n"}))
    executor = RayExecutor(two_nodes["driver"])
    try:
        requests = [BuildRequest("d" * 64, Variant(), deadly), BuildRequest("e" * 64, Variant(), inputs)]
        outcomes = {r.build_key[0]: o for r, o in executor.build(requests, lambda: False)}
    finally:
        executor.close()
    assert isinstance(outcomes["d"], Failed)
    assert outcomes["d"].kind == "crashed"
    assert isinstance(outcomes["e"], PackedArtifact), outcomes["e"]


def test_a_device_that_no_node_has_is_named_with_the_line_that_adds_it(two_nodes: dict[str, Path]) -> None:
    elsewhere: DeviceFacts = replace(local_facts(), device_id="phone-17")
    executor = RayExecutor(two_nodes["driver"])
    try:
        with pytest.raises(ClusterError, match="phone-17") as caught:
            executor.lane(elsewhere)
        assert "ray start" in caught.value.next_step
    finally:
        executor.close()


def test_what_goes_wrong_around_a_measurement_is_a_failure_of_that_job(two_nodes: dict[str, Path]) -> None:
    executor = RayExecutor(two_nodes["driver"])
    in_the_way = two_nodes["phone-host"] / "artifacts" / ("b" * 64)
    try:
        lane = executor.lane(local_facts())
        missing = lane.ask(BlockRequest(_job("c" * 64, Variant()), 0, QUICK, READY))
        # A file where a folder must be: the host cannot store what it is sent.
        store = ArtifactStore(two_nodes["driver"] / "artifacts")
        store.build("b" * 64, Variant(), tiny_inputs())
        in_the_way.parent.mkdir(parents=True, exist_ok=True)
        in_the_way.write_text("in the way")
        refused = lane.ask(BlockRequest(_job("b" * 64, Variant()), 0, QUICK, READY))
    finally:
        in_the_way.unlink(missing_ok=True)
        executor.close()
    assert isinstance(missing, Failed)
    assert (missing.stage, missing.kind) == ("run", "no_artifact")
    assert isinstance(refused, Failed)
    assert (refused.stage, refused.kind) == ("run", "worker_error")
    assert "did not arrive whole" in refused.message


def test_a_device_that_another_sweep_of_the_cluster_has_is_leased(
    two_nodes: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    ArtifactStore(two_nodes["driver"] / "artifacts").build("f" * 64, Variant(), tiny_inputs())
    job = _job("f" * 64, Variant())
    executor = RayExecutor(two_nodes["driver"])
    try:
        holder, other = executor.lane(local_facts()), executor.lane(local_facts())
        assert isinstance(holder.ask(ReadyRequest(job, None, 0.0)), Readiness)
        with monkeypatch.context() as patch:
            patch.setattr(cluster, "_PLACED_S", 3.0)
            refused = other.ask(ReadyRequest(job, None, 0.0))
        assert isinstance(refused, Failed)
        assert refused.kind == "leased"
        assert f"device:{local_facts().device_id}" in refused.message
        holder.close()
        assert isinstance(other.ask(ReadyRequest(job, None, 0.0)), Readiness)
    finally:
        executor.close()


@pytest.mark.parametrize(
    ("device", "message"),
    [
        (
            replace(local_facts(), device_id="phone-18"),
            rf"^phone-18 is another device here \({local_facts().device_id}\)",
        ),
        (
            replace(local_facts(), os_build="Linux 0.1"),
            r"is another device here \(os_build: Linux .*, not Linux 0\.1\)",
        ),
    ],
    ids=["another id", "another system"],
)
def test_a_node_with_the_resource_of_a_device_that_it_is_not_measures_nothing(
    two_nodes: dict[str, Path], device: DeviceFacts, message: str
) -> None:
    ArtifactStore(two_nodes["driver"] / "artifacts").build("f" * 64, Variant(), tiny_inputs())
    executor = RayExecutor(two_nodes["driver"])
    try:
        lane = executor.lane(device)
        for _ in range(2):
            answer = lane.ask(ReadyRequest(_job("f" * 64, Variant()), None, 0.0))
            assert isinstance(answer, Failed)
            assert answer.kind == "another_device"
            assert re.search(message, answer.message)
            assert f"give the resource device:{device.device_id} only to the host of that device" in answer.message
    finally:
        executor.close()


def test_a_cluster_that_is_not_there_is_an_error_with_a_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    with pytest.raises(ClusterError, match=r"127\.0\.0\.1:1") as caught:
        RayExecutor(tmp_path)
    assert "--executor inline" in caught.value.next_step
