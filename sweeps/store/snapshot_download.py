"""Downloads a file of a run from a server that is not trusted: no more than its bytes, and in a bounded time."""

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from sweeps.errors import StoreError
from sweeps.store.snapshot import sha256_of
from sweeps.store.uri import redact

if TYPE_CHECKING:
    from mlflow import MlflowClient

THROUGH_SERVER = (
    "start an MLflow server, which keeps files for all (`mlflow server --artifacts-destination artifacts`;"
    " infra/server.md), set MLFLOW_TRACKING_URI to its address, and run `edgesweep journal publish SWEEP` where it is"
)
"""The next step where several computers write to one database directly."""
_OF_SERVER = ("mlflow-artifacts", "http", "https")
_OBJECT_STORES = ("s3", "gs", "wasbs", "abfss", "abfs", "oss", "b2", "r2")
_CHUNK = 1 << 16
_LEAST_S, _LEAST_BYTES_PER_S = 60.0, 100_000
"""A download is given up after so long, and so much longer for each byte."""


class ReplacedError(StoreError):
    """The file is not the one that was asked for: its publisher may just replace it."""

    def __init__(self) -> None:
        super().__init__("a snapshot is not the one that its run names", "look again: it may just be replaced")


class ElsewhereError(StoreError):
    """The file is on the disk of another computer, which writes to the database directly."""

    def __init__(self) -> None:
        super().__init__("a snapshot is on another computer's disk", THROUGH_SERVER)


def download(client: "MlflowClient", artifact_uri: str, name: str, size: int, sha256: str, target: Path) -> None:
    """Write the file `name` of a run to `target`, for this user alone to read.

    Raises `StoreError` if the server does not give it; `ElsewhereError` if it is on another computer's disk;
    `ReplacedError` if it has another size or content than the tag of its run says; `OSError` if `target` cannot be
    written.
    """
    target.unlink(missing_ok=True)
    target.touch(mode=0o600)
    try:
        _write(client.tracking_uri, artifact_uri, name, size, target)
    except (StoreError, OSError):
        raise
    except Exception as error:  # noqa: BLE001  # an address that is none, MLflow's errors, and each object store's
        raise _failure(error, client.tracking_uri) from None
    if target.stat().st_size != size or sha256_of(target) != sha256:
        raise ReplacedError


def _write(tracking_uri: str, artifact_uri: str, name: str, size: int, target: Path) -> None:
    from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

    parts = urlsplit(artifact_uri)
    if parts.scheme in ("", "file"):
        _copy(Path(unquote(parts.path)) / name, size, target)
    elif parts.scheme in _OF_SERVER:
        repository = get_artifact_repository(artifact_uri, tracking_uri=tracking_uri)
        _stream(tracking_uri, repository.artifact_uri, name, size, target)
    elif parts.scheme in _OBJECT_STORES:
        _fetch(artifact_uri, tracking_uri, name, size, target)
    else:
        raise StoreError(f"a server keeps results at {parts.scheme}:, which is no store of files", _OTHER_STORE)


_OTHER_STORE = "let an MLflow server keep the artifacts (`mlflow server --artifacts-destination`)"


def _copy(source: Path, size: int, target: Path) -> None:
    """From this computer's disk: MLflow is a database here, or its server is."""
    try:
        if not source.parent.is_dir():
            raise ElsewhereError
        if source.is_symlink() or not source.is_file() or source.stat().st_size > size:
            raise StoreError(f"there is no snapshot at {source}, or it is just replaced", "look again")
        shutil.copyfile(source, target)
    except OSError as error:
        raise StoreError(f"{source} cannot be read: {error.strerror}", THROUGH_SERVER) from error


def _stream(tracking_uri: str, artifact_uri: str, name: str, size: int, target: Path) -> None:
    """Through the tracking server. Not by MLflow's own download, which takes whatever comes."""
    from mlflow.utils.credentials import get_default_host_creds
    from mlflow.utils.rest_utils import http_request
    from requests import RequestException
    from urllib3.exceptions import HTTPError

    # Another server, or one without encryption, would be sent this one's password.
    if urlsplit(artifact_uri)[:2] != urlsplit(tracking_uri)[:2]:
        raise StoreError("a server keeps results on another server", _OTHER_STORE)
    headers = {"Accept-Encoding": "identity"}
    creds = get_default_host_creds(artifact_uri)
    try:
        with http_request(creds, f"/{name}", "GET", stream=True, extra_headers=headers) as response:
            if not response.ok:
                raise StoreError(f"a server does not give a snapshot: status {response.status_code}", _OTHER_STORE)
            with target.open("wb") as file:
                for chunk in _chunks(response.raw, _LEAST_S + size / _LEAST_BYTES_PER_S):
                    if file.tell() + len(chunk) > size:
                        raise ReplacedError
                    file.write(chunk)
    except (HTTPError, RequestException) as error:  # urllib3's own is no OSError: `_chunks` reads below requests
        text = redact(str(error), tracking_uri)
        raise StoreError(f"a server ends a download in the middle: {text:.200}", "look again") from None


def _chunks(raw: "object", limit_s: float) -> Iterator[bytes]:
    """Yield the bytes that have come so far, again and again: a byte now and then holds nobody up for longer than the
    limit."""
    deadline = time.monotonic() + limit_s
    while chunk := raw.read1(_CHUNK):  # type: ignore[attr-defined]
        yield chunk
        if time.monotonic() > deadline:
            raise StoreError(f"a server needs longer than {limit_s:.0f} s for a snapshot", "look again later")


def _fetch(artifact_uri: str, tracking_uri: str, name: str, size: int, target: Path) -> None:
    """From an object store, which says itself how large a file is."""
    from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

    folder = name.rpartition("/")[0]
    try:
        repository = get_artifact_repository(artifact_uri, tracking_uri=tracking_uri)
        sizes = {entry.path: entry.file_size for entry in repository.list_artifacts(folder)}
        if sizes.get(name) != size:
            raise ReplacedError
        shutil.move(repository.download_artifacts(name, str(target.parent)), target)
    except OSError as error:  # of the store's library, as most are
        raise _failure(error, tracking_uri) from None


def _failure(error: Exception, tracking_uri: str) -> StoreError:
    text = redact(str(error), tracking_uri)
    return StoreError(f"a snapshot cannot be downloaded: {text:.200}", _OTHER_STORE)
