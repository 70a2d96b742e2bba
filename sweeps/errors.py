"""The errors that EdgeSweep raises on purpose.

    EdgeSweepError                 what happened + the next step; the command line prints both and exits 1
    ├── SpecError                  the sweep file is wrong (file, line, allowed values); exit code 2
    ├── WorkspaceError             the workspace cannot be used (held by another process, not writable)
    ├── ModelError                 a model or its weights cannot be loaded
    ├── DataError                  calibration or evaluation data cannot be used
    ├── BuildError                 one variant cannot be built: becomes Failed("build", kind, message)
    ├── DeviceError                a device cannot be reached or a program on it went wrong
    │   ├── HostError              a host of devices, or the lab's head, cannot be used: all its devices wait
    │   └── RunnerError            the runner ended without a complete report: becomes Failed("run", kind, message)
    ├── ClusterError               Ray cannot start or lost a worker
    └── StoreError                 the journal or MLflow cannot be read or written
        └── NoResultsError         there is no such sweep in MLflow, or nothing in it yet

Errors cross process boundaries (Ray), so each one survives pickling: all state is in `args`.
"""

import difflib
from collections.abc import Iterable
from functools import partial

_BEGINNING = 3
_SIMILAR = 0.6
"""The cutoff of `difflib.get_close_matches`."""

RETRIED_KINDS = ("not_ready", "bad_model", "bad_data")
"""The kinds of failures whose cause may be gone by the next run, which retries them without `--retry-failed`."""

FINAL_KINDS = frozenset({*RETRIED_KINDS, "not_possible"})
"""The kinds of failures that are not retried within the same run."""


HOST_KINDS = frozenset({"adb_server", "adb_version"})
"""The kinds of `DeviceError` with a cause on the host of the devices. They affect all devices of the host at once."""

QUEUED_KIND = "queued"
"""The kind of `DeviceError` for a device of a lab that another driver uses now; this driver waits in the queue for
it."""

LAB_KINDS = frozenset({"head_away", "host_away", "host_disk", "host_leaving", "lease_lost", QUEUED_KIND})
"""The kinds of `DeviceError` of a lab: the device cannot be reached through the lab, which says nothing about the
device itself."""

ABSENT_KINDS = (
    HOST_KINDS
    | LAB_KINDS
    | frozenset(
        {
            "ambiguous_serial",
            "another_device",
            "broken_transport",
            "changed_host_key",
            "leased",
            "mode_stays",
            "no_permissions",
            "no_shell_v2",
            "offline",
            "orphan",
            "quarantined",
            "unauthorized",
            "unknown_host_key",
            "unresponsive",
        }
    )
)
"""The kinds of `DeviceError` for a device that cannot be used now. No job caused them, and no job fails because of
them."""

OWN_KINDS = frozenset({"disconnected", "mode_stays", "offline", "orphan", "rebooted", "unresponsive"})
"""The kinds of `DeviceError` that are faults of one device itself, or of its cable. Repeated ones quarantine it."""


class EdgeSweepError(Exception):
    """An error raised on purpose: a sentence about what happened, and the next step."""

    kind = "refused"
    """One of `sweeps.failure_kinds.FAILURES`, for programs: snake_case and stable."""
    exit_code = 1

    def __init__(self, message: str, next_step: str = "") -> None:
        super().__init__(message, next_step)
        self.message = message
        self.next_step = next_step

    def __str__(self) -> str:
        return f"{self.message}\n  -> {self.next_step}" if self.next_step else self.message

    @property
    def one_line(self) -> str:
        return f"{self.message} ({self.next_step})" if self.next_step else self.message

    @property
    def document(self) -> dict[str, str]:
        """The error as a JSON document."""
        return {"kind": self.kind, "message": self.message, "next_step": self.next_step}


class SpecError(EdgeSweepError):
    """The sweep file is wrong."""

    kind = "bad_sweep_file"
    exit_code = 2

    def __init__(self, message: str, next_step: str = "", problems: Iterable[tuple[int, str]] = ()) -> None:
        """Create the error. `problems`: the problems of a file that was read, each with its line. The message contains
        them, too, with the file's name."""
        super().__init__(message, next_step)
        self.problems = tuple(problems)
        self.args = (message, next_step, self.problems)


class WorkspaceError(EdgeSweepError):
    """The workspace cannot be used."""

    kind = "bad_workspace"


class ModelError(EdgeSweepError):
    """A model or its weights cannot be loaded."""

    kind = "bad_model"


class DataError(EdgeSweepError):
    """Calibration or evaluation data cannot be used."""

    kind = "bad_data"


class _KindError(EdgeSweepError):
    """An error that ends one job. Its `kind` is snake_case, stable, and shown in rankings."""

    def __init__(self, kind: str, message: str, next_step: str = "") -> None:
        super().__init__(message, next_step)
        self.args = (kind, message, next_step)
        self.kind = kind


class BuildError(_KindError):
    """One variant cannot be built."""

    def __init__(
        self, kind: str, message: str, next_step: str = "", *, operator: str = "", file: str = "", line: int = 0
    ) -> None:
        """Create the error. `operator`: the operator that cannot be built, such as `aten::pad`. `file` and `line`: the
        place in the user's code that uses it; empty and 0 if not known."""
        super().__init__(kind, message, next_step)
        self.operator = operator
        self.file = file
        self.line = line

    def __reduce__(self) -> tuple[partial["BuildError"], tuple[str, ...]]:
        return partial(type(self), operator=self.operator, file=self.file, line=self.line), self.args


class DeviceError(_KindError):
    """A device cannot be reached, or a program on it went wrong."""


class HostError(DeviceError):
    """A host of devices, or the head of a lab, cannot be used now, so that all devices behind it wait."""

    def __init__(self, kind: str, host: str, condition: str, next_step: str = "") -> None:
        """Create the error. `host`: its name for people, such as `the host lab-2`. `condition`: the reason, in which
        "it" is the host."""
        super().__init__(kind, f"{host}: {condition}", next_step)
        self.args = (kind, host, condition, next_step)
        self.host = host
        self.condition = condition


class RunnerError(DeviceError):
    """The runner ended without a complete report."""


class ClusterError(EdgeSweepError):
    """Ray cannot start, or lost a worker permanently."""

    kind = "no_cluster"


class StoreError(EdgeSweepError):
    """The journal or MLflow cannot be read or written."""

    kind = "bad_store"


class NoResultsError(StoreError):
    """The sweep is not in MLflow, or has no results yet."""

    kind = "no_results"


def in_one_line(error: BaseException) -> str:
    """Return an unexpected error as one line for people. Line breaks in its text or name cannot add a line."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001  # a model's own exception may fail there, too
        text = ""
    words = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return f"{' '.join(type(error).__name__.split())}: {words}"[:500]


def did_you_mean(word: object, allowed: Iterable[str]) -> str:
    """Return `; did you mean 'x'?`, or an empty string if no allowed word is similar.

    A word that begins with the written text comes first (`latency`: `latency_p50_ms`), and of equally similar words the
    first of `allowed`, which lists the common ones first.
    """
    near = nearest(str(word), allowed)
    return f"; did you mean {near!r}?" if near else ""


def nearest(word: str, allowed: Iterable[str]) -> str:
    """Return the allowed word that was probably meant; empty if none is similar."""
    words, written = list(allowed), word.casefold()
    begins = [
        candidate for candidate in words if len(written) >= _BEGINNING and candidate.casefold().startswith(written)
    ]
    if begins:
        return begins[0]
    ratios = [difflib.SequenceMatcher(None, candidate, word).ratio() for candidate in words]
    best = max(ratios, default=0.0)
    return words[ratios.index(best)] if best >= _SIMILAR else ""
