"""The workspace: the folder with all files of EdgeSweep. Only this module knows the file names in it."""

import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from sweeps.errors import WorkspaceError
from sweeps.locks import GLANCE_S, LockedError, locked, owner

DEFAULT_ROOT, ROOT_VARIABLE = "edgesweep-data", "EDGESWEEP_WORKSPACE"
"""The default workspace in the current folder, and the environment variable that selects another one."""
BUILD_LOG = "build.log"
"""The name of the log next to an artifact's manifest."""
_TRACKING_VARIABLE = "MLFLOW_TRACKING_URI"


def _reason_against(address: str) -> str:
    """Return why an address can never be reached, as text; empty for a URI that can be used."""
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
        # In a database URI, `?` and `%` have a meaning for sqlalchemy: the database would be created in another folder.
        if escape := re.search(r"\?|%[0-9A-Fa-f]{2}", str(root)):
            raise WorkspaceError(
                f"the workspace {root} cannot be used: MLflow does not accept {escape[0]!r} in a path",
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
        """The URI of MLflow: `MLFLOW_TRACKING_URI` if it is set, otherwise a sqlite database in the workspace.

        Raises `WorkspaceError` if the variable does not contain a valid address.
        """
        named = os.environ.get(_TRACKING_VARIABLE)
        if not named:
            return f"sqlite:///{self.root / 'mlflow.sqlite'}"
        if reason := _reason_against(named):
            # The message does not show the address: it may contain a password, whose place in an invalid address is not
            # known.
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
        """The file with the jobs that were published, for `status`: only the publisher writes it, and it may be
        deleted."""
        return self.root / "published.sqlite"

    @property
    def published_as(self) -> Path:
        """The file with the name that distinguishes this workspace from others that publish to the same MLflow
        (`sweeps.store.owner`)."""
        return self.root / "published-as"

    @property
    def verdicts(self) -> Path:
        """The file with the winners of all sweeps, for overviews: readers compute it from the journal, and it may be
        deleted."""
        return self.root / "verdicts.sqlite"

    @property
    def artifacts(self) -> Path:
        return self.root / "artifacts"

    def artifact(self, build_key: str) -> Path:
        return self.artifacts / build_key

    @property
    def profiles(self) -> Path:
        """The folder of profiles and captures of builds, separate from all measurements: one folder per build."""
        return self.root / "profiles"

    @property
    def weights(self) -> Path:
        """The folder of weights that EdgeSweep trained or settled itself."""
        return self.root / "weights"

    @property
    def references(self) -> Path:
        """The folder of logits of fp32 eager models on evaluation sets."""
        return self.root / "references"

    @property
    def calibrations(self) -> Path:
        """The folder of blocks from which `edgesweep noise` computes the noise of devices: one file per device and
        fingerprint."""
        return self.root / "noise"

    @property
    def temporary(self) -> Path:
        """The folder of large temporary files."""
        return self.root / "tmp"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    def failed_build_log(self, build_key: str) -> Path:
        """Return the file with the output of a build that failed or is running. The log of a build that succeeded is
        next to its manifest."""
        return self.logs / "builds" / f"{build_key}.log"

    def build_log(self, build_key: str) -> Path | None:
        """Return the log of a build; `None` if there is none."""
        for log in (self.artifact(build_key) / BUILD_LOG, self.failed_build_log(build_key)):
            if log.is_file() and not log.is_symlink():
                return log
        return None

    @property
    def live(self) -> Path:
        """The file with the current state of the driver: only the driver writes it."""
        return self.root / "live.json"

    @property
    def launches(self) -> Path:
        """The folder of the sweep files that were started from the browser, and who started them."""
        return self.root / "launches"

    @property
    def driver_lock(self) -> Path:
        return self.root / "driver.lock"

    def holder(self) -> int | None:
        """Return the process id of the driver that holds the lock; 0 if not known, `None` if there is no driver."""
        return owner(self.driver_lock)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the lock of the workspace for one driver. The kernel releases the lock when the driver's process ends.

        Raises `WorkspaceError` with the process id of the holder if it is locked already.
        """
        with ExitStack() as stack:
            try:
                self.root.stat()  # A missing folder must not be created just for its lock.
                stack.enter_context(locked(self.driver_lock, wait_s=GLANCE_S))
            except LockedError as error:
                raise WorkspaceError(
                    f"the workspace {self.root} is locked by process {error.process or 'unknown'}",
                    "wait until it has finished, or give another folder with --workspace",
                ) from error
            except OSError as error:
                raise WorkspaceError(
                    f"the workspace {self.root} cannot be written: {error.strerror}",
                    "give another folder with --workspace",
                ) from error
            yield
