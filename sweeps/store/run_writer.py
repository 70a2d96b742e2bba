"""Writes one run to MLflow."""

import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sweeps.errors import StoreError
from sweeps.json_records import document
from sweeps.manifest import FILE_NAME, Manifest
from sweeps.records import Block
from sweeps.store import run_content
from sweeps.store.run_content import ATTEMPT_KEY, JOB_KEY, RECORD, RunContent
from sweeps.store.uri import redact

if TYPE_CHECKING:
    from mlflow import MlflowClient


def write_run(
    client: "MlflowClient",
    experiment_id: str,
    parent_id: str,
    content: RunContent,
    blocks: Sequence[Block],
    manifest: Manifest | None,
) -> str:
    """Write a finished run with the content, the samples of the blocks and the artifact's manifest. Returns its id."""
    from mlflow.entities import Metric, Param, RunTag

    identity = {RECORD: "job", JOB_KEY: content.row.job_key, ATTEMPT_KEY: content.attempt_key}
    run = client.create_run(
        experiment_id,
        run_name=run_content.cut(content.row.name, 250),
        tags={"mlflow.parentRunId": parent_id, **identity},
    )
    run_id = str(run.info.run_id)
    now_ms = int(time.time() * 1000)
    metrics = [Metric(name, value, now_ms, 0) for name, value in content.metrics.items()]
    # One request may have at most 1,000 metrics.
    metrics += [
        Metric(run_content.BLOCK_MEDIAN, ms, now_ms, step)
        for step, (_, ms) in enumerate(content.block_medians_ms[-900:])
    ]
    client.log_batch(
        run_id,
        metrics=metrics,
        params=[Param(name, value) for name, value in content.params.items()],
        tags=[RunTag(name, value) for name, value in content.tags.items()],
    )
    files = {}
    if blocks:
        samples = {"job_key": content.row.job_key, "blocks": [document(block) for block in blocks]}
        files["samples.json"] = json.dumps(samples, allow_nan=False)
    if manifest is not None:
        files[FILE_NAME] = manifest.model_dump_json(indent=2)
    if files:
        upload(client, run_id, files)
    client.set_terminated(run_id, status=content.status)
    return run_id


def upload(client: "MlflowClient", run_id: str, files: dict[str, str]) -> None:
    """Upload texts, by file name, as artifacts of a run. Raises `StoreError`."""
    with tempfile.TemporaryDirectory(prefix="edgesweep-") as folder:
        for name, text in files.items():
            (Path(folder) / name).write_text(text, encoding="utf-8")
        try:
            client.log_artifacts(run_id, folder)
        except Exception as error:  # noqa: BLE001  # every object store has its own errors
            raise StoreError(
                f"MLflow does not accept artifacts: {redact(str(error), '')}",
                "check the server's artifact store and its credentials; the journal keeps everything",
            ) from None
