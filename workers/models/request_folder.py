"""The folder through which the driver and the process that runs a model's code exchange files.

No file is a pickle, and none is trusted: the model's code may write there, too.
"""

import base64
import errno
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from sweeps.errors import DataError, EdgeSweepError, ModelError, in_one_line
from sweeps.spec.model_inputs import ModelSpec
from sweeps.untrusted_file import open_regular, read_regular
from sweeps.whole_file import write_whole
from sweeps.workspace import Workspace
from workers.models.model_code import OwnCode
from workers.models.package import Images, Logits, ModelPackage
from workers.models.process_folder import no_room

_REQUEST_BYTES, _ANSWER_BYTES = 256 * 2**20, 16 * 2**20
"""The most bytes of the request, which has the model's code, and of the answer."""


@dataclass(frozen=True, slots=True)
class Request:
    """The files that the two processes share. None is a pickle, because the user's code may write them."""

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
        inputs = self.read_inputs()
        images = np.load(self.images, mmap_mode="r", allow_pickle=False) if self.images.exists() else None
        model = ModelSpec.model_validate_json(json.dumps(inputs["model"]))
        return model, _code(inputs.get("code")), Workspace(Path(inputs["workspace"])), images

    def ask(self, inputs: Mapping[str, object]) -> None:
        """Add inputs to the request."""
        (self.folder / "request.json").write_text(json.dumps({**self.read_inputs(), **inputs}))

    def read_inputs(self) -> dict[str, Any]:
        file = self.folder / "request.json"
        inputs: dict[str, Any] = json.loads(read_regular(file, _REQUEST_BYTES)) if file.exists() else {}
        return inputs

    def tell(self, title: str, share: float | None) -> None:
        write_whole(self.progress, f"{'' if share is None else share}\t{title}")

    def reply(self, answer: Mapping[str, object]) -> None:
        # The answer is renamed into place: the model's code may have put a pipe there.
        write_whole(self.folder / "answer.json", json.dumps(answer))

    def refuse(self, error: BaseException) -> None:
        if isinstance(error, EdgeSweepError):
            kind = "data" if isinstance(error, DataError) else "model"
            self.reply({"error": kind, "message": error.message, "next_step": error.next_step})
        elif isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
            message, step = no_room(error, self.folder)
            self.reply({"error": "model", "message": message, "next_step": step})
        else:
            message = f"it cannot be loaded: {in_one_line(error)}"
            self.reply({"error": "model", "message": message, "next_step": "correct its code"})

    def code(self) -> OwnCode | None:
        """Return the model's code in the request."""
        return _code(self.read_inputs().get("code"))

    def has_answer(self) -> bool:
        """Tell whether anything exists at the path of the answer."""
        return os.path.lexists(self.folder / "answer.json")

    def answer(self) -> dict[str, Any] | None:
        try:
            answer = json.loads(read_regular(self.folder / "answer.json", _ANSWER_BYTES))
        except (OSError, ValueError, RecursionError):
            return None
        return answer if isinstance(answer, dict) else None

    def reply_made(self, packed: ModelPackage, logits: Logits | None) -> None:
        self.state.write_bytes(packed.state)
        if logits is not None:
            np.save(self.folder / "logits.npy", logits, allow_pickle=False)
        named = {"arguments": dict(packed.arguments), "weights_id": packed.weights_id, "source": packed.model_source}
        self.reply({**named, "weights_text": packed.weights_text, "overwrites_input": packed.overwrites_input})

    def package(self, model: ModelSpec, code: OwnCode | None, answer: Mapping[str, Any]) -> ModelPackage:
        """Return the package that the process made. Raises `ModelError` if the model's code overwrote the files."""
        try:
            state = read_regular(self.state, psutil.virtual_memory().available // 2)
        except (OSError, ValueError) as error:
            raise overwritten(model.source) from error
        match answer:
            case {
                "arguments": dict(arguments),
                "weights_id": str(weights_id),
                "weights_text": str(weights_text),
                "source": str(source),
                "overwrites_input": bool(overwrites_input),
            }:
                return ModelPackage(
                    name=model.name,
                    source=model.source,
                    arguments=arguments,
                    files=code.files if code else {},
                    state=state,
                    weights_id=weights_id,
                    weights_text=weights_text,
                    model_source=source,
                    input_shape=model.input_shape,
                    overwrites_input=overwrites_input,
                )
        raise overwritten(model.source)

    def logits(self, count: int, source: str) -> Logits:
        """Return the logits that the process computed. Raises `ModelError`, also if the model's code overwrote them."""
        file = self.folder / "logits.npy"
        try:
            with open_regular(file):
                # The file is mapped: a header may claim any shape, and mapping compares it with the file's size.
                mapped = np.lib.format.open_memmap(file, mode="r")
        except (OSError, ValueError, EOFError, OverflowError, SyntaxError) as error:
            raise overwritten(source) from error
        if mapped.nbytes > psutil.virtual_memory().available // 2:
            raise overwritten(source)
        if mapped.ndim != 2 or len(mapped) != count or mapped.dtype != np.float32:
            raise ModelError(f"its answers have the shape {list(mapped.shape)}, not ({count}, classes)")
        logits: Logits = np.array(mapped)
        return logits


def has_types(answer: Mapping[str, object], types: Mapping[str, type]) -> bool:
    """Tell whether an answer has all these values, each of exactly the given type."""
    return all(type(answer.get(name)) is kind for name, kind in types.items())


def overwritten(source: str) -> ModelError:
    """Return the error for files that the code of `source` has replaced."""
    return ModelError(
        f"{source}: what was made of it is gone, or is something else",
        "let its code write only files that the module tempfile has made into the folder that TMPDIR names",
    )


def _as_json(code: OwnCode | None) -> dict[str, Any] | None:
    if code is None:
        return None
    return {
        "sha256": code.sha256,
        "files": {name: base64.b64encode(content).decode() for name, content in code.files.items()},
    }


def _code(document: Mapping[str, Any] | None) -> OwnCode | None:
    if document is None:
        return None
    return OwnCode(document["sha256"], {name: base64.b64decode(text) for name, text in document["files"].items()})
