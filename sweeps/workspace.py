"""The workspace: the folder with all files of EdgeSweep. Only this module knows the file names in it."""

import fcntl
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from sweeps.errors import WorkspaceError

DEFAULT_ROOT, ROOT_VARIABLE = "edgesweep-data", "EDGESWEEP_WORKSPACE"
"""The usual workspace of a folder, and what names another one."""
BUILD_LOG = "build.log"
"""Beside an artifact's manifest."""
_TRACKING_VARIABLE = "MLFLOW_TRACKING_URI"
_LOOKS, _LOOK_S = 10, 0.02


def _reason_against(address: str) -> str:
    """Why nothing can answer at an address, whatever runs; empty for a URI that can be used."""
    if not address.isprintable() or " " in address.partition("://")[2].partition("/")[0]:
        return "it has spaces or control characters"
    try:
        parts = urlsplit(address)
    except ValueError:
        return "its host is no name and no IP address"
    try:
        port = parts.port
    except ValueError:
        return "its port is no number from 0 to 65535"
    if parts.scheme in ("http", "https") and not parts.hostname:
        return "it names no host"
    if parts.scheme in ("http", "https") and port is None and parts.netloc.endswith(":"):
        return "its port is missing"
    return ""


@dataclass(frozen=True, slots=True)
class Workspace:
    """A folder with the journal, MLflow's database, artifacts, weights and logs."""

    root: Path

    @classmethod
    def open(cls, root: Path) -> "Workspace":
        """Create the folder if it is missing. Raises `WorkspaceError` if that fails."""
        root = root.expanduser().resolve()
        # Both have a meaning for sqlalchemy in a database's URI: the database would be created in another folder.
        if found := re.search(r"\?|%[0-9A-Fa-f]{2}", str(root)):
            raise WorkspaceError(
                f"the workspace {root} cannot be used: MLflow does not accept {found[0]!r} in a path",
                "give another folder with --workspace",
            )
        try:
            root.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise WorkspaceError(
                f"the workspace {root} cannot be created: {error.strerror}",
                "give another folder with --workspace",
            ) from error
        return cls(root)

    @property
    def journal(self) -> Path:
        return self.root / "journal.sqlite"

    @property
    def tracking_uri(self) -> str:
        """MLflow's URI: `MLFLOW_TRACKING_URI` if it is set, otherwise a sqlite database in the workspace.

        Raises `WorkspaceError` if the variable holds no address.
        """
        named = os.environ.get(_TRACKING_VARIABLE)
        if not named:
            return f"sqlite:///{self.root / 'mlflow.sqlite'}"
        if reason := _reason_against(named):
            # Without the address: it may hold a password, and where that begins is not known of what is no address.
            raise WorkspaceError(
                f"{_TRACKING_VARIABLE} is no address: {reason}",
                "write it as http://HOST:PORT or sqlite:///FILE, or unset it to keep results in the workspace",
            )
        return named

    @property
    def mlflow_artifacts(self) -> Path:
        return self.root / "mlflow-artifacts"

    @property
    def published(self) -> Path:
        """Which jobs were published, for `status`: only the publisher writes it, and it may be deleted."""
        return self.root / "published.sqlite"

    @property
    def published_as(self) -> Path:
        """What tells this workspace from others that publish to the same MLflow (`sweeps.store.owner`)."""
        return self.root / "published-as"

    @property
    def verdicts(self) -> Path:
        """Who won where, for overviews: made from the journal by whoever reads, and may be deleted."""
        return self.root / "verdicts.sqlite"

    @property
    def artifacts(self) -> Path:
        return self.root / "artifacts"

    def artifact(self, build_key: str) -> Path:
        return self.artifacts / build_key

    @property
    def profiles(self) -> Path:
        """Profiles and captures of builds, apart from all measurements: one folder per build."""
        return self.root / "profiles"

    @property
    def weights(self) -> Path:
        """Weights that EdgeSweep trained or settled itself."""
        return self.root / "weights"

    @property
    def references(self) -> Path:
        """Logits of fp32 eager models on evaluation sets."""
        return self.root / "references"

    @property
    def calibrations(self) -> Path:
        """Blocks by which `edgesweep noise` knows the noise of devices: one file per device and fingerprint."""
        return self.root / "noise"

    @property
    def temporary(self) -> Path:
        """For large files of one moment."""
        return self.root / "tmp"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    def failed_build_log(self, build_key: str) -> Path:
        """Of a build that failed or runs: what it printed. That of one that succeeded is beside its manifest."""
        return self.logs / "builds" / f"{build_key}.log"

    def build_log(self, build_key: str) -> Path | None:
        """What a build printed; `None` if that is not known."""
        for log in (self.artifact(build_key) / BUILD_LOG, self.failed_build_log(build_key)):
            if log.is_file() and not log.is_symlink():
                return log
        return None

    @property
    def live(self) -> Path:
        """What the driver does now: only the driver writes it."""
        return self.root / "live.json"

    @property
    def launches(self) -> Path:
        """The sweep files that were started from the browser, and who started them."""
        return self.root / "launches"

    @property
    def driver_lock(self) -> Path:
        return self.root / "driver.lock"

    def holder(self) -> int | None:
        """The process id of the driver that has the lock; 0 if it is not known, `None` if there is no driver."""
        found = look(self.driver_lock)
        if found is None:
            return None
        return int(found) if found.isdecimal() else 0

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Lock the workspace for one driver. The kernel releases the lock when its process dies.

        Raises `WorkspaceError` with the process id of the holder if it is locked already.
        """
        try:
            handle = self.driver_lock.open("a+", encoding="utf-8")
        except OSError as error:
            raise WorkspaceError(
                f"the workspace {self.root} cannot be written: {error.strerror}",
                "give another folder with --workspace",
            ) from error
        with handle:
            if not take(handle):
                handle.seek(0)
                holder = handle.read(20).strip() or "unknown"
                raise WorkspaceError(
                    f"the workspace {self.root} is locked by process {holder}",
                    "wait until it has finished, or give another folder with --workspace",
                )
            handle.seek(0)
            handle.truncate()
            handle.write(f"{os.getpid()}\n")
            handle.flush()
            yield


def take(lock: IO[str] | int) -> bool:
    """Whether an open file's lock is this process's now. Whoever only looks has it for a moment (`look`)."""
    for _ in range(_LOOKS):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_LOOK_S)
        else:
            return True
    return False


def look(file: Path) -> str | None:
    """The content of a lock that a process has now; `None` if none has it. `take` waits for whoever looks."""
    try:
        handle = file.open(encoding="utf-8", errors="replace")
    except OSError:
        return None
    with handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return handle.read(20).strip()
    return None
