"""Data manifests as MLflow's datasets: which images the figures of a run are of."""

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from sweeps.store.tag_text import cut

if TYPE_CHECKING:
    from mlflow.entities import Dataset, DatasetInput

# MLflow's limit is 36 characters. As many are in the manifest's file name.
_DIGEST_LENGTH = 16
_NAME_LENGTH = 250
_CONTEXT = "mlflow.data.context"
"""MLflow's tag for what the run did with the dataset."""
_AS_LOADED = re.compile(r"; as loaded for ([0-9a-f]{64})$")


def file_name(manifest_id: str) -> str:
    """Return the manifest's name among the artifacts of the sweep's own run."""
    return f"data-{manifest_id[:_DIGEST_LENGTH]}.json"


def datasets_of(parent_id: str, manifest_id: str, text: str) -> dict[str, "Dataset"]:
    """The dataset of one manifest, by the ids that jobs and builds may call it.

    Its source is the manifest among the artifacts of the sweep's own run, by the run's id and not by a path: it stays
    true when a workspace moves. A set that is only known after a download is called by the id that the plan gave it.
    """
    from mlflow.entities import Dataset

    try:
        manifest = json.loads(text)
    except ValueError:
        manifest = None
    known = manifest if isinstance(manifest, dict) else {}
    source = known.get("source")
    name = source if isinstance(source, str) and source.strip() else "images"
    digest = manifest_id[:_DIGEST_LENGTH]
    dataset = Dataset(
        name=cut(name, _NAME_LENGTH),
        digest=digest,
        source_type="local",
        source=json.dumps({"uri": f"runs:/{parent_id}/{file_name(manifest_id)}"}),
        profile=json.dumps({"images": _count(known)}),
    )
    planned = _AS_LOADED.search(name)
    return dict.fromkeys([manifest_id, *([planned[1]] if planned else [])], dataset)


def inputs_of(
    datasets: Mapping[str, "Dataset"], *, evaluation_id: str | None, calibration_id: str | None
) -> list["DatasetInput"]:
    """The datasets that a job's figures depend on, as far as they are known."""
    from mlflow.entities import DatasetInput, InputTag

    used = {"evaluation": evaluation_id, "calibration": calibration_id}
    return [
        DatasetInput(datasets[manifest_id], [InputTag(_CONTEXT, context)])
        for context, manifest_id in used.items()
        if manifest_id is not None and manifest_id in datasets
    ]


def _count(manifest: Mapping[str, object]) -> int | None:
    count, images = manifest.get("count"), manifest.get("images")
    if isinstance(count, int):
        return count
    return len(images) if isinstance(images, list) else None
