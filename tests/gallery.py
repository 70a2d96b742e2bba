"""Tests around building and measuring share artifacts by their build keys, and answers by artifact and images.

The first test that wants one has it made as the product makes it; the later ones are given the same bytes. Tests of
building and of answering do not come here.
"""

import atexit
import hashlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import fields, replace
from itertools import pairwise
from pathlib import Path
from unittest.mock import patch

import numpy as np

from sweeps.errors import DeviceError
from sweeps.manifest import Manifest
from sweeps.spec import built_in, catalog
from sweeps.variant import Variant
from sweeps.workspace import Workspace
from tests import shared
from workers.artifacts import ArtifactStore
from workers.devices.fake.device import FakeDevice
from workers.devices.interface import Completed
from workers.devices.local import LocalDevice
from workers.runtimes.forks import ForkServer
from workers.runtimes.interface import BuildInputs

_PYTHON = [sys.executable, "-m"]


def bring(workspace: Workspace, build_keys: Iterable[str]) -> None:
    """Copy artifacts that the gallery has, and the eager models' answers, into a workspace."""
    for key in {*build_keys}:
        if (built := _place("artifacts") / key).is_dir() and not workspace.artifact(key).exists():
            shutil.copytree(built, workspace.artifact(key))
    shutil.copytree(_place("references"), workspace.references, dirs_exist_ok=True)


def keep(workspace: Workspace, build_keys: Iterable[str]) -> None:
    """Copy into the gallery those artifacts of a workspace that it has not."""
    for key in {*build_keys}:
        if workspace.artifact(key).is_dir():
            _put(workspace.artifact(key), _place("artifacts") / key)
    for reference in workspace.references.glob("*.npy"):
        _put(reference, _place("references") / reference.name)


def build(artifacts: Path, build_key: str, variant: Variant, inputs: BuildInputs) -> Manifest:
    """Build as `ArtifactStore(artifacts).build` does; what another test had built is copied."""
    known = _place("builds") / key(build_key, variant, inputs)
    if known.is_dir():
        shutil.copytree(known, artifacts / build_key)
    manifest = ArtifactStore(artifacts).build(build_key, variant, inputs)
    _put(artifacts / build_key, known)
    return manifest


def key(build_key: str, variant: Variant, inputs: BuildInputs) -> str:
    """The hash of everything that a build is made of and verified with. The id of the weights stands for them."""
    digest = hashlib.sha256(repr((build_key, variant, replace(inputs.package, state=b""))).encode())
    for field in fields(inputs):
        value = getattr(inputs, field.name)
        if isinstance(value, np.ndarray):
            digest.update(repr((field.name, value.dtype.str, value.shape)).encode() + value.tobytes())
        elif field.name != "package":
            digest.update(repr((field.name, value)).encode())
    return digest.hexdigest()


_RUNNERS = ForkServer()
atexit.register(_RUNNERS.close)


class ForkingHost(LocalDevice):
    """The local device; a Python runner is forked from a process that has imported torch, which takes it seconds."""

    def run(self, argv: Sequence[str], deadline_s: float) -> Completed:
        if list(argv[:2]) != _PYTHON:
            return super().run(argv, deadline_s)
        try:
            ended = _RUNNERS.run([*argv], deadline_s)
        except subprocess.TimeoutExpired as error:
            raise DeviceError("timeout", f"{argv[2]} ran longer than {deadline_s:.0f} s and was killed") from error
        return Completed(exit_code=ended.returncode, stdout=ended.stdout, stderr=ended.stderr)


class RememberingHost(ForkingHost):
    """A host on which an evaluation that ran before is not run again, whichever test asked for it."""

    def run(self, argv: Sequence[str], deadline_s: float) -> Completed:
        options = dict(pairwise(argv))
        if "--eval-outputs" not in options:
            return super().run(argv, deadline_s)
        outputs = Path(options["--eval-outputs"])
        read = [Path(options[flag]) for flag in ("--model", "--eval-inputs")]
        names = {str(outputs): "outputs", **{str(path): _sha256(path) for path in read}}
        digest = hashlib.sha256(repr([names.get(word, word) for word in argv]).encode()).hexdigest()
        known = _place("answers") / digest
        if known.is_dir():
            shutil.copy(known / "outputs", outputs)
            return Completed(exit_code=0, stdout=(known / "stdout").read_bytes(), stderr=b"")
        completed = LocalDevice.run(self, argv, deadline_s)
        if completed.exit_code == 0:
            with tempfile.TemporaryDirectory() as folder:
                shutil.copy(outputs, Path(folder) / "outputs")
                (Path(folder) / "stdout").write_bytes(completed.stdout)
                _put(Path(folder), known)
        return completed


class RememberingPhone(FakeDevice):
    """A simulated phone, which evaluates on a host of that kind."""

    def __init__(self, folder: Path, name: str) -> None:
        super().__init__(folder, name)
        self._host = RememberingHost(folder / f"fake-{name}")


class ForkingPhone(FakeDevice):
    """A simulated phone, which evaluates on a host that forks."""

    def __init__(self, folder: Path, name: str) -> None:
        super().__init__(folder, name)
        self._host = ForkingHost(folder / f"fake-{name}")


def remembering() -> AbstractContextManager[None]:
    """This computer and simulated phones remember evaluations, and fork Python runners."""
    return _instead({"local": RememberingHost, "fake": RememberingPhone})


def forking() -> AbstractContextManager[None]:
    """This computer and simulated phones fork Python runners, and run each."""
    return _instead({"local": ForkingHost, "fake": ForkingPhone})


@contextmanager
def _instead(kinds: Mapping[str, type]) -> Iterator[None]:
    """Devices are of these kinds, where a test has put nothing else in their place."""
    built_ins = {kind: entry for kind, entry in catalog.devices().items() if entry in built_in.BUILT_IN_DEVICES}
    changed = {
        kind: replace(built_ins[kind], target=f"{__name__}:{device_class.__name__}")
        for kind, device_class in kinds.items()
        if kind in built_ins
    }
    with patch.dict(catalog.devices(), changed):
        yield


def _place(name: str) -> Path:
    place = shared.folder() / "gallery" / name
    place.mkdir(parents=True, exist_ok=True)
    return place


def _put(source: Path, target: Path) -> None:
    """Copy a folder whole or not at all. Another worker may have been quicker: then its copy stays."""
    if target.exists():
        return
    with tempfile.TemporaryDirectory(dir=shared.folder()) as folder:
        part = Path(folder) / "part"
        (shutil.copytree if source.is_dir() else shutil.copy)(source, part)
        with suppress(OSError):
            part.rename(target)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
