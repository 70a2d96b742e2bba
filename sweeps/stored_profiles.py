"""The profiles and captures that a workspace keeps, separate from all measurements: for each build, device and way to
run the build.

Each consists of a document (`StoredProfile`) and a file next to it: the trace of a profile, or the recording of a
capture.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sweeps.device_facts import canonical_key
from sweeps.errors import StoreError
from sweeps.variant import RunAxes
from sweeps.whole_file import write_whole
from sweeps.workspace import Workspace

LABEL = "profiled"
"""The trust label of all results that were measured while a profiler ran (`sweeps.label_kinds`)."""
_KEY = re.compile(r"[0-9a-f]{8,64}")
_MAX_BYTES = 16_000_000
_Figure = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class StoredOperator(BaseModel):
    """The total time of all runs of operators with one name, per iteration, without the operators that they call."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    name: str
    where: str
    calls_per_iteration: _Figure
    self_us_per_iteration: _Figure
    percent: _Figure
    """The percentage of the time of all operators."""


class StoredProfile(BaseModel):
    """The content of one profiled or captured run. None of its figures is a latency."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    job: str
    build_key: str
    device: str
    device_id: str
    threads: int
    cpus: str
    reuse_input: bool
    runner: str
    runtime: str
    iterations: int
    profiled_iteration_p50_us: _Figure | None
    operators: tuple[StoredOperator, ...] = ()
    """The operators, the slowest first; only for a profile, not for a capture."""
    capture: str = ""
    """The program that recorded the capture; empty for a profile."""
    suffix: Annotated[str, Field(pattern=r"^[a-z0-9-]{1,20}(\.[a-z0-9-]{1,20}){0,2}$")]
    """The suffix of the file next to the document."""

    def is_of(self, build_key: str, device_id: str, run: RunAxes) -> bool:
        """Tell whether the profile is of this build, on this device, run in this way."""
        of_it = (self.build_key, self.device_id, self.threads, self.cpus, self.reuse_input)
        return of_it == (build_key, device_id, run.threads, run.cpus, run.reuse_input)


@dataclass(frozen=True, slots=True)
class ProfileFiles:
    """A document with the file next to it, which may be missing."""

    profile: StoredProfile
    file: Path

    @property
    def document(self) -> Path:
        return self.file.with_name(f"{_stem(self.profile)}.json")


def place(workspace: Workspace, profile: StoredProfile) -> Path:
    """Return the path of the file next to the document. Its folder is created. Raises `StoreError`."""
    if not _KEY.fullmatch(profile.build_key):
        raise StoreError(f"{profile.build_key[:80]!r} is no key of a build")
    folder = workspace.profiles / profile.build_key
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _not_written(folder, error) from error
    return folder / f"{_stem(profile)}.{profile.suffix}"


def store(workspace: Workspace, profile: StoredProfile) -> Path:
    """Write the document; it replaces an earlier one of the same run. Return its path. Raises `StoreError`."""
    path = place(workspace, profile).with_name(f"{_stem(profile)}.json")
    try:
        write_whole(path, profile.model_dump_json(indent=2) + "\n")
    except OSError as error:
        raise _not_written(path, error) from error
    return path


def store_trace(workspace: Workspace, profile: StoredProfile, trace: object) -> Path:
    """Write the document, and a trace as JSON next to it. Return the trace's path. Raises `StoreError`."""
    path = place(workspace, profile)
    try:
        write_whole(path, json.dumps(trace) + "\n")
    except OSError as error:
        raise _not_written(path, error) from error
    store(workspace, profile)
    return path


def profiles_of_build(workspace: Workspace, build_key: str) -> Sequence[ProfileFiles]:
    """Return all profiles of one build, the newest first. A damaged document is left out: it can be recorded again."""
    folder = workspace.profiles / build_key
    if not _KEY.fullmatch(build_key) or not folder.is_dir():
        return ()
    profiles: list[tuple[int, ProfileFiles]] = []
    for path in folder.glob("*.json"):
        try:
            # A name with a dot is that of a trace next to a document.
            if (
                "." in path.stem
                or not path.is_file()
                or path.is_symlink()
                or (state := path.stat()).st_size > _MAX_BYTES
            ):
                continue
            profile = StoredProfile.model_validate_json(path.read_bytes())
        except (OSError, ValidationError):
            continue
        if profile.build_key == build_key and path.stem == _stem(profile):
            profiles.append((state.st_mtime_ns, ProfileFiles(profile, path.with_name(f"{path.stem}.{profile.suffix}"))))
    return [stored for _, stored in sorted(profiles, key=lambda pair: -pair[0])]


def profiles_of_run(workspace: Workspace, build_key: str, device_id: str, run: RunAxes) -> Sequence[ProfileFiles]:
    """Return those of `profiles_of_build` that belong to one job: of its device, and run in the same way."""
    return [
        stored for stored in profiles_of_build(workspace, build_key) if stored.profile.is_of(build_key, device_id, run)
    ]


def _stem(profile: StoredProfile) -> str:
    """Return a file name that is readable, and different for each device and way to run the build."""
    run = [profile.device_id, profile.threads, profile.cpus, profile.reuse_input]
    words = re.sub(r"[^A-Za-z0-9]+", "-", profile.device_id).strip("-")[:60]
    kind = re.sub(r"[^a-z0-9]+", "-", profile.capture) or "operators"
    return f"{words}-{canonical_key({'run': run})[:8]}-{kind}"


def _not_written(path: Path, error: OSError) -> StoreError:
    return StoreError(f"{path} cannot be written: {error.strerror}", "make room there")
