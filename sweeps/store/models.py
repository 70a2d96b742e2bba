"""Artifacts as MLflow's logged models: one for each build of a sweep, whatever the number of its jobs."""

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sweeps.manifest import FILE_NAME, Manifest
from sweeps.spec.label import label_of
from sweeps.store.run_content import MAX_PARAM_LENGTH, RECORD, TAG
from sweeps.store.run_writer import upload
from sweeps.store.tag_text import cut

if TYPE_CHECKING:
    from mlflow import MlflowClient

_BUILD_KEY, _SHA256 = f"{TAG}build_key", f"{TAG}file_sha256"
_REFUSED = re.compile(r"[/:.%\"'\x00-\x1f]")
"""The characters that MLflow does not accept in the name of a logged model, and control characters."""
_NAME_LENGTH = 250
_PAGE = 100
_NOT_FOUND = 404


@dataclass(frozen=True, slots=True)
class LoggedModel:
    """A logged model in MLflow. `ready`: it is whole; a killed driver leaves one that is not."""

    model_id: str
    artifact_uri: str
    ready: bool


Models = dict[tuple[str, str], LoggedModel]
"""By build key and hash of the file: the same build, made again, may be another file."""


def look_up_models(client: "MlflowClient", experiment_id: str) -> Models | None:
    """The logged models of one sweep; `None` if the server is of MLflow 2, which has none."""
    from mlflow.exceptions import MlflowException

    models: Models = {}
    token: str | None = None
    while True:
        try:
            page = client.search_logged_models([experiment_id], max_results=_PAGE, page_token=token)
        except MlflowException as error:
            if error.get_http_status_code() == _NOT_FOUND:
                return None
            raise
        for model in page:
            key = model.tags.get(_BUILD_KEY, ""), model.tags.get(_SHA256, "")
            if all(key) and not (key in models and models[key].ready):
                ready = str(model.status) == "READY"
                models[key] = LoggedModel(str(model.model_id), str(model.artifact_location), ready)
        token = page.token
        if not token:
            return models


def model_of(
    client: "MlflowClient", experiment_id: str, parent_id: str, models: Models | None, manifest: Manifest | None
) -> str | None:
    """The id of the artifact's logged model, which is written if it is not there or not whole.

    It has the manifest and not the file, which stays in the workspace: most builds are never shipped.
    """
    if models is None or manifest is None:
        return None
    key = manifest.build_key, manifest.file_sha256
    model = models.get(key)
    if model is None:
        created = client.create_logged_model(
            experiment_id,
            name=_name(manifest),
            source_run_id=parent_id,
            tags=_tags(manifest),
            params={axis: cut(str(value), MAX_PARAM_LENGTH) for axis, value in manifest.variant.items()},
            model_type=manifest.runtime,
        )
        model = LoggedModel(str(created.model_id), str(created.artifact_location), ready=False)
    if not model.ready:
        upload(client, model.artifact_uri, {FILE_NAME: manifest.model_dump_json(indent=2)})
        client.finalize_logged_model(model.model_id, "READY")
    models[key] = replace(model, ready=True)
    return model.model_id


def _name(manifest: Manifest) -> str:
    """For people: model and variant."""
    return cut(_REFUSED.sub("-", f"{manifest.model} {label_of(manifest.axes)}"), _NAME_LENGTH)


def _tags(manifest: Manifest) -> dict[str, str]:
    tags = {
        RECORD: "artifact",
        _BUILD_KEY: manifest.build_key,
        _SHA256: manifest.file_sha256,
        f"{TAG}file": manifest.file,
        f"{TAG}file_bytes": str(manifest.file_bytes),
        f"{TAG}model_source": manifest.model_source,
        f"{TAG}weights_id": manifest.weights_id,
    }
    return {name: cut(value, MAX_PARAM_LENGTH) for name, value in tags.items()}
