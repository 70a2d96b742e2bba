"""Writes one run to MLflow."""

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from sweeps.errors import StoreError
from sweeps.journal.journal import Journal
from sweeps.json_records import document
from sweeps.manifest import FILE_NAME, Manifest
from sweeps.records import Block
from sweeps.store import run_content
from sweeps.store.run_content import PUBLISHED, RunContent
from sweeps.store.sweep_tags import PARENT
from sweeps.store.tag_text import cut
from sweeps.store.uri import redact
from sweeps.temporary import temporary_folder
from sweeps.workspace import BUILD_LOG, Workspace

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import DatasetInput, Metric


_LOG_BYTES = 66_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """The rest of a run beside its content."""

    blocks: Sequence[Block] = ()
    manifest: Manifest | None = None
    datasets: Sequence["DatasetInput"] = field(default=())
    model_id: str | None = None
    """The id of the artifact, which MLflow calls a logged model."""
    build_log: Path | None = None


def write_run(
    client: "MlflowClient", experiment_id: str, parent_id: str, content: RunContent, beside: Beside, stamp_s: float
) -> str:
    """Write a finished run, dated with its measurement and stamped with `stamp_s`. Returns its id.

    All tags are there from the start: a run that a killed driver leaves says what it was to be.
    """
    from mlflow.entities import LoggedModelInput, Metric, Param

    start_ms, end_ms = _dates_ms(content, stamp_s)
    run = client.create_run(
        experiment_id,
        start_time=start_ms,
        run_name=cut(content.row.name, 250),
        tags={PARENT: parent_id, **content.tags},
    )
    run_id = str(run.info.run_id)
    # One request may have at most 1,000 metrics.
    medians = enumerate(content.block_medians_ms[-900:])
    client.log_batch(
        run_id,
        metrics=[
            *(Metric(name, value, end_ms, 0) for name, value in content.metrics.items()),
            *(Metric(run_content.BLOCK_MEDIAN, ms, end_ms, step) for step, (_, ms) in medians),
            stamp(stamp_s),
        ],
        params=[Param(name, value) for name, value in content.params.items()],
    )
    if beside.datasets or beside.model_id:
        models = [LoggedModelInput(beside.model_id)] if beside.model_id else None
        client.log_inputs(run_id, datasets=list(beside.datasets), models=models)
    if files := _files(content, beside):
        upload(client, run.info.artifact_uri, files)
    client.set_terminated(run_id, status=content.status, end_time=end_ms)
    return run_id


def build_log_of(journal: Journal, build_key: str) -> Path | None:
    """Return the file with a build's output, if it is in the journal's workspace."""
    return Workspace(journal.path.parent).build_log(build_key)


def later_than(stamped_s: float) -> float:
    """Now, in seconds since 1970, but after the last stamp: clocks go back, and those of writers differ."""
    return round(max(time.time(), stamped_s + 0.001), 3)


def stamp(stamp_s: float) -> "Metric":
    """The metric that tells readers of a change."""
    from mlflow.entities import Metric

    return Metric(PUBLISHED, stamp_s, int(stamp_s * 1000), 0)


def upload(client: "MlflowClient", artifact_uri: str, files: Mapping[str, str | Path]) -> None:
    """Upload texts and files, by name, to the place of a run or of a logged model. Raises `StoreError`.

    By its address and not by the run's id, with which MLflow would read the whole run first.
    """
    from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

    with temporary_folder() as folder:
        for name, content in files.items():
            (folder / name).parent.mkdir(exist_ok=True)
            if isinstance(content, Path):
                (folder / name).symlink_to(content.resolve())
            else:
                (folder / name).write_text(content, encoding="utf-8")
        try:
            get_artifact_repository(artifact_uri, tracking_uri=client.tracking_uri).log_artifacts(str(folder))
        except Exception as error:  # noqa: BLE001  # every object store has its own errors
            raise _no_artifacts("accept", error) from None


def uploaded(client: "MlflowClient", artifact_uri: str, folder: str) -> dict[str, int | None]:
    """The files in a folder of a run, by name in the run, with their sizes in bytes. Raises `StoreError`."""
    from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

    try:
        entries = get_artifact_repository(artifact_uri, tracking_uri=client.tracking_uri).list_artifacts(folder)
    except Exception as error:  # noqa: BLE001  # as in `upload`
        raise _no_artifacts("list", error) from None
    return {entry.path: entry.file_size for entry in entries if not entry.is_dir}


def _no_artifacts(verb: str, error: Exception) -> StoreError:
    return StoreError(
        f"MLflow does not {verb} artifacts: {redact(str(error), '')}",
        "check the server's artifact store and its credentials; the journal keeps everything",
    )


def _dates_ms(content: RunContent, stamp_s: float) -> tuple[int, int]:
    """Start and end of the measurement; of a combination that was skipped, when that was told."""
    if content.measured is None:
        return int(stamp_s * 1000), int(stamp_s * 1000)
    return int(content.measured.start_s * 1000), int(content.measured.end_s * 1000)


def _files(content: RunContent, beside: Beside) -> dict[str, str | Path]:
    files: dict[str, str | Path] = {}
    if beside.blocks:
        samples = {"job_key": content.row.job_key, "blocks": [document(block) for block in beside.blocks]}
        files["samples.json"] = json.dumps(samples, allow_nan=False)
    if beside.manifest is not None:
        files[FILE_NAME] = beside.manifest.model_dump_json(indent=2)
    with suppress(OSError):
        if beside.build_log is not None and (log := beside.build_log.read_bytes()[-_LOG_BYTES:]):
            files[BUILD_LOG] = log.decode("utf-8", "replace")
    return files
