"""An artifact that is newer than the runtime, met by the bench: a job that fails at loading, with the way out."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest

from sweeps.errors import RunnerError
from sweeps.protocol.presets import resolve
from sweeps.records import Failed
from sweeps.spec.protocol import ProtocolSpec
from sweeps.variant import Variant
from tests import gallery
from tests.workers.runtimes.test_skew import rewritten
from tests.workers.tiny_model import tiny_inputs, tiny_job
from workers.artifacts import ArtifactStore
from workers.devices.interface import Sensors
from workers.devices.local import LocalDevice, local_facts
from workers.measure import processes
from workers.measure.device_files import Evaluation
from workers.measure.device_runner import DeviceRunner
from workers.measure.evaluation_request import LogitsRequest
from workers.measure.readiness import Readiness
from workers.measure.run_request import run_request
from workers.measure.timed_block import BlockRequest

KEY = "a" * 64
READY = Readiness(sensors=Sensors(), lacking=(), busy_only=False)
QUICK = resolve(ProtocolSpec(preset="quick", rounds=1, warmup_seconds=0.01, min_seconds=0.02, iterations=3))
NEWER = {
    "file version 99": {"/version": (b"3", b"99")},
    "has no operator aten::flattem": {".py": (b"torch.flatten(", b"torch.flattem(")},
}


@pytest.mark.parametrize("operator", NEWER)
def test_what_is_newer_than_the_runtime_fails_at_loading_whatever_it_was_loaded_for(
    tmp_path: Path, operator: str
) -> None:
    store = ArtifactStore(tmp_path / "artifacts")
    inputs = tiny_inputs()
    gallery.build(store.root, KEY, Variant(), inputs)
    _replace_model(store, NEWER[operator])
    bench = DeviceRunner(LocalDevice(tmp_path), tmp_path)
    job = tiny_job(KEY)
    timed = bench.ask(BlockRequest(job, 0, QUICK, READY))
    evaluated = bench.ask(LogitsRequest(job, Evaluation(evaluation_id="test", images=inputs.verification)))
    bench.close()
    for failed in (timed, evaluated):
        assert isinstance(failed, Failed)
        assert (failed.stage, failed.kind) == ("load", "runtime_skew")
        assert operator in failed.message
        assert "put a newer runtime on the device" in failed.message


@pytest.mark.parametrize(
    ("kind", "version", "remark"),
    [
        ("crashed", "2.0.0", "; onnxruntime 2.0.0 made it, and on the device is runner 1 and onnxruntime 1.32.0"),
        ("crashed", "1.32.0", ""),
        ("crashed", "1.3", "; onnxruntime 1.3 made it, and on the device is runner 1 and onnxruntime 1.32.0"),
        ("timeout", "2.0.0", ""),
    ],
)
def test_versions_are_told_only_where_they_differ_and_may_be_the_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, version: str, remark: str
) -> None:
    store = ArtifactStore(tmp_path / "artifacts")
    manifest = gallery.build(store.root, KEY, Variant(), tiny_inputs())
    manifest.model_copy(update={"runtime": "onnxruntime", "versions": {"onnxruntime": version}}).write(store.root / KEY)
    facts = replace(local_facts(), runners=(("onnxruntime", "runner 1 and onnxruntime 1.32.0"),))
    bench = DeviceRunner(LocalDevice(tmp_path), tmp_path, facts)
    ended = RunnerError(kind, "it ended", "try again")

    def fails(*_: object) -> NoReturn:
        raise ended

    monkeypatch.setattr(processes, "report", fails)
    job = tiny_job(KEY)
    _, model = bench.files.artifact(KEY)
    with pytest.raises(RunnerError) as caught:
        bench.report(job, run_request(job.variant, job.run, manifest, model), 1.0)
    bench.close()
    assert caught.value.message == f"it ended{remark}"
    assert (caught.value is ended) is (remark == "")
    assert caught.value.__cause__ is (ended if remark else None)


def _replace_model(store: ArtifactStore, edits: dict[str, tuple[bytes, bytes]]) -> None:
    """Make the artifact one of a newer torch, whole by its manifest."""
    manifest = store.find(KEY)
    assert manifest is not None
    model = store.model(manifest)
    newer = rewritten(model, model.with_name("newer.pt"), edits)
    newer.replace(model)
    document = json.loads((model.parent / "manifest.json").read_text())
    document |= {"file_sha256": hashlib.sha256(model.read_bytes()).hexdigest(), "file_bytes": model.stat().st_size}
    (model.parent / "manifest.json").write_text(json.dumps(document))
