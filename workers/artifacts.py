"""The artifact store of one machine, and builds that write to it."""

import contextlib
import hashlib
import os
import shutil
import sys
import tempfile
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from sweeps import manifest as manifests
from sweeps.errors import BuildError, EdgeSweepError, StoreError
from sweeps.manifest import Manifest
from sweeps.records import Failed
from sweeps.untrusted_file import open_regular
from sweeps.variant import Variant
from sweeps.workspace import BUILD_LOG, Workspace
from workers.build_log import recorded
from workers.models.package import BuildInputs
from workers.runtimes import library_check, registry
from workers.runtimes.interface import Runtime
from workers.runtimes.library_errors import located
from workers.toolchains import environments

TRANSIENT_KINDS = frozenset(
    {"worker_lost", "out_of_memory", "os_error", "timeout"}
    | {"no_compiler", "not_compilable", "bad_reference", "not_loadable"}
    | {"runtime_broken"}
)
"""The build failures that the machine's state at the time causes, and not the build: such builds are retried.

The kind `crashed` is not among them: torch's native code would crash again.
"""


SHARED_STAGES = "stages"
"""The folder, beside the artifacts, for stages that several builds of this machine share."""


@dataclass(frozen=True, slots=True)
class PackedArtifact:
    """An artifact as bytes, which can be sent from one machine to another."""

    build_key: str
    files: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class ArtifactStore:
    """A store of artifacts in folders `<root>/<build_key>/`. Each artifact is complete or missing: it is written to
    another folder, which is then renamed."""

    root: Path

    def look(self, build_key: str) -> Manifest | None:
        """Return the manifest of an artifact whose files have the checksums of the manifest; `None` if there is none.
        Changes nothing."""
        folder = self.root / build_key
        try:
            manifest = Manifest.read(folder)
            files = {manifest.file: manifest.file_sha256}
            if manifest.eval is not None:
                files[manifest.eval.file] = manifest.eval.file_sha256
            if manifest.build_key == build_key and all(_sha256(folder / name) == files[name] for name in files):
                return manifest
        except (StoreError, OSError):
            pass
        return None

    def find(self, build_key: str) -> Manifest | None:
        """Return the manifest as `look` does; a damaged artifact is removed, so that it is built again. Only writers
        may call this."""
        folder = self.root / build_key
        # The folder is checked first: an artifact that another thread or process writes meanwhile is complete.
        was_there = folder.is_dir()
        manifest = self.look(build_key)
        if manifest is None and was_there:
            shutil.rmtree(folder)
        return manifest

    def model(self, manifest: Manifest) -> Path:
        return self.root / manifest.build_key / manifest.file

    def pack(self, manifest: Manifest) -> PackedArtifact:
        folder = self.root / manifest.build_key
        names = [manifests.FILE_NAME, manifest.file] + ([manifest.eval.file] if manifest.eval else [])
        names += [BUILD_LOG] if (folder / BUILD_LOG).is_file() else []
        return PackedArtifact(manifest.build_key, {name: (folder / name).read_bytes() for name in names})

    def unpack(self, packed: PackedArtifact) -> Manifest:
        """Store an artifact of another machine. Raises `StoreError` if its checksum differs from the manifest's."""
        if (manifest := self.find(packed.build_key)) is not None:
            return manifest
        with self._new_folder(packed.build_key) as folder:
            for name, content in packed.files.items():
                (folder / Path(name).name).write_bytes(content)
        manifest = self.find(packed.build_key)
        if manifest is None:
            raise StoreError("what was built did not arrive whole", "run the same command again")
        return manifest

    def build(self, build_key: str, variant: Variant, inputs: BuildInputs) -> Manifest:
        """Return the artifact's manifest, after building the artifact if it is missing. Raises `BuildError`.

        The output of the build is stored with the artifact; if the build fails, in the folder of logs.
        """
        if (manifest := self.find(build_key)) is not None:
            return manifest
        log = Workspace(self.root.parent).failed_build_log(build_key)
        with self._new_folder(build_key) as folder:
            shared = self.root.parent / SHARED_STAGES
            with recorded(log):
                try:
                    environments.enter(variant.toolchain)
                    runtime = registry.get(variant.runtime)
                    library_check.check(runtime, variant.toolchain, variant.precision)
                    manifest = _built(runtime, variant, build_key, inputs, folder, shared)
                except EdgeSweepError as error:
                    with contextlib.suppress(OSError):
                        print(f"{type(error).__name__}: {error}", file=sys.stderr)  # noqa: T201  # into the log
                    raise
                except Exception:
                    with contextlib.suppress(OSError):
                        traceback.print_exc()
                    raise
            with contextlib.suppress(OSError):
                log.replace(folder / BUILD_LOG)
            return manifest

    def remove_unfinished(self, pid: int) -> None:
        """Remove the unfinished files of a process of this machine that has ended."""
        for folder in self.root.glob(f".*-{pid}-*"):
            shutil.rmtree(folder, ignore_errors=True)

    def remove_abandoned(self) -> None:
        """Remove the unfinished files of processes of this machine that have ended, perhaps killed with their driver.
        Only the sole user of the folder may call this."""
        for folder in self.root.glob(".*-*-*"):
            pid = folder.name.split("-")[1]
            if pid.isdecimal() and not psutil.pid_exists(int(pid)):
                self.remove_unfinished(int(pid))

    @contextlib.contextmanager
    def _new_folder(self, build_key: str) -> Iterator[Path]:
        self.root.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=f".{build_key[:12]}-{os.getpid()}-", dir=self.root))
        try:
            yield folder
            # If another process has finished the same artifact first, its folder stays.
            with contextlib.suppress(OSError):
                folder.rename(self.root / build_key)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def failure_of_build(root: Path, build_key: str, variant: Variant, inputs: BuildInputs) -> Failed | None:
    """Build on this machine into the folder `root`, and return the failure; `None` if the artifact exists."""
    try:
        ArtifactStore(root).build(build_key, variant, inputs)
        return None
    except BuildError as error:
        return Failed(
            stage="build",
            kind=error.kind,
            message=error.message,
            next_step=error.next_step,
            operator=error.operator,
            file=error.file,
            line=error.line,
        )
    except MemoryError:
        return Failed(stage="build", kind="out_of_memory", message="the build ran out of memory")
    except EdgeSweepError as error:
        return Failed(stage="build", kind="not_buildable", message=error.message)
    except OSError as error:
        return Failed(stage="build", kind="os_error", message=f"{type(error).__name__}: {_first_words(error)}")
    except Exception as error:  # noqa: BLE001  # torch raises anything on a model that it cannot handle
        return Failed(stage="build", kind="exception", message=f"{type(error).__name__}: {_first_words(error)}")


def _built(
    runtime: Runtime, variant: Variant, build_key: str, inputs: BuildInputs, folder: Path, shared: Path
) -> Manifest:
    try:
        return runtime.build(variant, build_key, inputs, folder, shared)
    except BuildError as error:
        if (located_error := located(error, inputs.package.files)) is error:
            raise
        raise located_error from error


def _first_words(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines[:3])[:500]


def _sha256(path: Path) -> str:
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
