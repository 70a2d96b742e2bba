"""Makes a model in a process of its own: whatever its code does, it neither ends nor holds up the sweep.

python -P -m workers.models.apart      as `workers.forks.server` says
"""

import atexit
import base64
import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sweeps.errors import DataError, EdgeSweepError, ModelError
from sweeps.spec.inputs import ModelSpec
from sweeps.text import duration, plain
from sweeps.workspace import Workspace
from workers.forks.client import Forks, RefusedError
from workers.forks.limits import Ended, Limits
from workers.forks.server import Program, serve
from workers.models.code import OwnCode
from workers.models.package import Images, Logits, ModelPackage
from workers.models.prepared import PreparationProgress
from workers.models.room import folder_of_request, no_room

TRY_IMAGES = "try_images"
"""The program that opens images, and runs no code of the user's."""
LIMITS = Limits(silent_s=600.0, processes=64, memory_bytes="free", output_bytes=64 * 2**20)
"""A step of the preparation, such as one batch of images, does not take longer."""
_IDLE_S = 20.0
"""Then the server ends, so that builds have its memory."""

FORKS = Forks("workers.models.apart", _IDLE_S)
atexit.register(FORKS.close)


def start() -> None:
    """Start importing torch for the first model, and return at once."""
    FORKS.start()


def make(
    model: ModelSpec,
    code: OwnCode | None,
    workspace: Workspace,
    progress: PreparationProgress,
    images: Images | None = None,
) -> tuple[ModelPackage, Logits | None]:
    """The model with its weights, and the fp32 eager model's outputs for `images`.

    Raises `ModelError`, also if its code ends the process, never ends, starts processes without end, or takes all
    memory; and `DataError`.
    """
    # Images take as much room as the data set has pixels: 600 MB for a thousand of 224 x 224.
    with folder_of_request(workspace.temporary) as folder:
        request = Request(folder)
        request.write(model, code, workspace, images)
        answer = asked("make", folder, model.source, progress)
        return request.package(model, code, answer), None if images is None else request.logits(len(images))


def asked(
    program: str,
    folder: Path,
    source: str,
    progress: PreparationProgress = lambda *_: None,
    limits: Limits | None = None,
    forks: Forks | None = None,
) -> dict[str, Any]:
    """The answer of a program that runs the code of `source` and has its files in `folder`. Raises `ModelError`."""
    request = Request(folder)

    def told(line: str) -> None:
        share, _, title = line.partition("\t")
        progress(title, float(share) if share else None)

    modules = () if program == TRY_IMAGES else _modules(source, _code(request.asked().get("code")))
    try:
        ended = (forks or FORKS).run(
            program, [str(folder)], limits or LIMITS, told, str(request.progress), modules, folder
        )
    except RefusedError as refused:
        raise ModelError(
            f"PyTorch cannot be imported: {refused}", "rename that file, or take its folder off PYTHONPATH"
        ) from refused
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ModelError(f"the process in which {source} was loaded is gone: {error}", "run again") from error
    answer = request.answer() if ended.exit_code == 0 and not ended.beyond else None
    if answer is None and (full := _full_disk(ended)):
        raise ModelError(*no_room(full, folder))
    if answer is None:
        raise _unreadable(source, ended) if program == TRY_IMAGES else _ended_early(source, ended)
    match answer:
        case {"error": "data", "message": str(message), "next_step": str(step)}:
            raise DataError(message, step)
        case {"error": str(), "message": str(message), "next_step": str(step)}:
            raise ModelError(message, step)
    return answer


@dataclass(frozen=True, slots=True)
class Request:
    """The files that the two processes share. No pickle: the user's code wrote some of them."""

    folder: Path

    @property
    def progress(self) -> Path:
        return self.folder / "progress"

    @property
    def state(self) -> Path:
        return self.folder / "state.pt"

    @property
    def images(self) -> Path:
        return self.folder / "images.npy"

    def write(self, model: ModelSpec, code: OwnCode | None, workspace: Workspace, images: Images | None = None) -> None:
        self.ask({"model": model.model_dump(mode="json"), "code": _as_json(code), "workspace": str(workspace.root)})
        if images is not None:
            np.save(self.images, images, allow_pickle=False)

    def read(self) -> tuple[ModelSpec, OwnCode | None, Workspace, Images | None]:
        asked = self.asked()
        images = np.load(self.images, mmap_mode="r", allow_pickle=False) if self.images.exists() else None
        model = ModelSpec.model_validate_json(json.dumps(asked["model"]))
        return model, _code(asked["code"]), Workspace(Path(asked["workspace"])), images

    def ask(self, what: Mapping[str, object]) -> None:
        """Adds to what is asked already."""
        (self.folder / "request.json").write_text(json.dumps({**self.asked(), **what}))

    def asked(self) -> dict[str, Any]:
        file = self.folder / "request.json"
        asked: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
        return asked

    def tell(self, title: str, share: float | None) -> None:
        part = self.folder / "progress.part"
        part.write_text(f"{'' if share is None else share}\t{title}")
        part.replace(self.progress)

    def reply(self, answer: Mapping[str, object]) -> None:
        (self.folder / "answer.json").write_text(json.dumps(answer))

    def refuse(self, error: BaseException) -> None:
        if isinstance(error, EdgeSweepError):
            kind = "data" if isinstance(error, DataError) else "model"
            self.reply({"error": kind, "message": error.message, "next_step": error.next_step})
        elif isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
            message, step = no_room(error, self.folder)
            self.reply({"error": "model", "message": message, "next_step": step})
        else:
            words = f"{type(error).__name__}: {error}"[:500]
            self.reply({"error": "model", "message": f"it cannot be loaded: {words}", "next_step": "correct its code"})

    def answer(self) -> dict[str, Any] | None:
        try:
            found = json.loads((self.folder / "answer.json").read_text())
        except (OSError, ValueError):
            return None
        return found if isinstance(found, dict) else None

    def reply_made(self, packed: ModelPackage, logits: Logits | None) -> None:
        self.state.write_bytes(packed.state)
        if logits is not None:
            np.save(self.folder / "logits.npy", logits, allow_pickle=False)
        named = {"arguments": dict(packed.arguments), "weights_id": packed.weights_id, "source": packed.model_source}
        self.reply({**named, "overwrites_input": packed.overwrites_input})

    def package(self, model: ModelSpec, code: OwnCode | None, answer: Mapping[str, Any]) -> ModelPackage:
        return ModelPackage(
            name=model.name,
            source=model.source,
            arguments=answer["arguments"],
            files=code.files if code else {},
            state=self.state.read_bytes(),
            weights_id=answer["weights_id"],
            model_source=answer["source"],
            input_shape=model.input_shape,
            overwrites_input=bool(answer["overwrites_input"]),
        )

    def logits(self, count: int) -> Logits:
        logits: Logits = np.load(self.folder / "logits.npy", allow_pickle=False)
        if logits.ndim != 2 or len(logits) != count or logits.dtype != np.float32:
            raise ModelError(f"its answers have the shape {list(logits.shape)}, not ({count}, classes)")
        return logits


def _modules(source: str, code: OwnCode | None) -> tuple[str, ...]:
    """What takes seconds to import, if the model needs it."""
    named = code is not None and any(b"torchvision" in content for content in code.files.values())
    return ("torchvision",) if ":" not in source or named else ()


def _full_disk(ended: Ended) -> OSError | None:
    """What a process said last that could not even write its answer."""
    said = ended.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
    codes = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
    return next((OSError(code, os.strerror(code)) for code in codes if f"OSError: [Errno {code}]" in said), None)


def _as_json(code: OwnCode | None) -> dict[str, Any] | None:
    if code is None:
        return None
    return {
        "sha256": code.sha256,
        "files": {name: base64.b64encode(content).decode() for name, content in code.files.items()},
    }


def _code(found: Mapping[str, Any] | None) -> OwnCode | None:
    if found is None:
        return None
    return OwnCode(found["sha256"], {name: base64.b64decode(text) for name, text in found["files"].items()})


def _unreadable(folder: str, ended: Ended) -> ModelError:
    """Of a process that only opens images."""
    how = {"memory": "one of them took all memory that was free", "silent": "one of them cannot be read to its end"}
    crashed = f"one of them ended the process that opened them (exit code {ended.exit_code})"
    return ModelError(
        f"the images in {folder} cannot be opened: {how.get(ended.beyond, crashed)}",
        "look for a damaged or a very large file among them",
    )


def _ended_early(source: str, ended: Ended) -> ModelError:
    """Of a process that has not answered."""
    lines = plain(ended.stderr.decode("utf-8", "replace")).strip().splitlines()
    words = f": {lines[-1].strip()[:200]}" if lines else ""
    function = source.rpartition(":")[2]
    match ended.beyond:
        case "silent" | "time":
            return ModelError(
                f"{source} does not come to an end: nothing happened for {duration(ended.limit)}",
                "look for an endless loop, or for something that it waits for",
            )
        case "processes":
            return ModelError(
                f"{source} started more than {ended.limit:.0f} processes, which were ended",
                f"start none in {function}() or where its module is imported",
            )
        case "memory":
            return ModelError(
                f"{source} took more than {ended.limit / 2**30:.1f} GiB of memory, all that was free",
                "make the model smaller, or close other programs",
            )
        case "output":
            return ModelError(
                f"{source} printed more than {ended.limit / 2**20:.0f} MiB", "remove prints from the model's code"
            )
    if ended.exit_code == -signal.SIGKILL:
        return ModelError(
            f"the process of {source} was killed, as a rule because memory was short{words}",
            "close other programs, or make the model smaller",
        )
    if ended.exit_code < 0:
        return ModelError(
            f"{source} crashed its process ({_signal(-ended.exit_code)}){words}",
            f"make {function}() work in Python first",
        )
    return ModelError(
        f"{source} ended its process with exit code {ended.exit_code}{words}",
        f"let {function}() return the model, and take exit() and os._exit() out of its code",
    )


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _programs() -> dict[str, Program]:
    from workers.models.making_process import PROGRAMS  # imports torch

    return PROGRAMS


if __name__ == "__main__":
    serve(_programs, sys.stdin.buffer, sys.stdout.buffer)
