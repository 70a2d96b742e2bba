"""Makes a model in a separate process, so that its code can neither end nor hold up the sweep.

python -P -m workers.models.model_process      as `workers.forks.server` says
"""

import atexit
import errno
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from sweeps.errors import DataError, ModelError
from sweeps.spec.model_inputs import ModelSpec
from sweeps.text import duration, plain
from sweeps.workspace import Workspace
from workers.forks.fork_client import Forks, RefusedError
from workers.forks.limits import Ended, Limits
from workers.forks.server import Program, serve
from workers.models.model_code import OwnCode
from workers.models.package import Images, Logits, ModelPackage
from workers.models.prepared_model import PreparationProgress
from workers.models.process_folder import folder_of_request, no_room
from workers.models.request_folder import Request, overwritten

TRY_IMAGES = "try_images"
"""The program that opens images, and runs no code of the user's."""
LIMITS = Limits(silent_s=600.0, processes=64, memory_bytes="free", output_bytes=64 * 2**20)
"""The limits of that process: a step of the preparation, such as one batch of images, takes less than `silent_s`."""
_IDLE_S = 20.0
"""The idle seconds after which the server of these processes ends, so that builds have its memory."""

FORKS = Forks("workers.models.model_process", _IDLE_S)
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
    """Make a model in a separate process; return its package, and the fp32 eager model's logits for `images`, if given.

    Raises `ModelError`, also if the model's code ends the process, never ends, starts processes without end, or takes
    all memory; and `DataError`.
    """
    # Images take as much room as the data set has pixels: 600 MB for a thousand of 224 x 224.
    with folder_of_request(workspace.temporary) as folder:
        request = Request(folder)
        request.write(model, code, workspace, images)
        answer = ask("make", folder, model.source, progress)
        return request.package(model, code, answer), None if images is None else request.logits(
            len(images), model.source
        )


def ask(
    program: str,
    folder: Path,
    source: str,
    progress: PreparationProgress = lambda *_: None,
    limits: Limits | None = None,
    forks: Forks | None = None,
) -> dict[str, Any]:
    """Run a program in a separate process, on the files in `folder`, and return its answer. `source`: the model whose
    code it runs. Raises `ModelError` and `DataError`."""
    request = Request(folder)

    def report(line: str) -> None:
        share, _, title = line.partition("\t")
        progress(plain(title), _share(share))

    modules = () if program == TRY_IMAGES else _modules(source, request.code())
    try:
        ended = (forks or FORKS).run(
            program, [str(folder)], limits or LIMITS, report, str(request.progress), modules, folder
        )
    except RefusedError as refused:
        raise ModelError(
            f"PyTorch cannot be imported: {refused}", "rename that file, or take its folder off PYTHONPATH"
        ) from refused
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ModelError(f"the process in which {source} was loaded is gone: {error}", "run again") from error
    answer = request.answer() if ended.exit_code == 0 and not ended.beyond else None
    if answer is None and ended.exit_code == 0 and not ended.beyond and request.has_answer():
        raise overwritten(source)
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


def _share(text: str) -> float | None:
    """Return the finished share, from 0 to 1; `None` for any other text, which the model's code may have written."""
    try:
        share = float(text)
    except ValueError:
        return None
    return share if 0.0 <= share <= 1.0 else None


def _modules(source: str, code: OwnCode | None) -> tuple[str, ...]:
    """Return the modules that the model needs and that take seconds to import."""
    named = code is not None and any(b"torchvision" in content for content in code.files.values())
    return ("torchvision",) if ":" not in source or named else ()


def _full_disk(ended: Ended) -> OSError | None:
    """Return the error of a full disk, if it is the last line on the process's stderr: such a process cannot write its
    answer."""
    last_line = ended.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
    codes = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
    return next((OSError(code, os.strerror(code)) for code in codes if f"OSError: [Errno {code}]" in last_line), None)


def _unreadable(folder: str, ended: Ended) -> ModelError:
    """Return the error for a process that only opens images, and failed."""
    how = {"memory": "one of them took all memory that was free", "silent": "one of them cannot be read to its end"}
    crashed = f"one of them ended the process that opened them (exit code {ended.exit_code})"
    return ModelError(
        f"the images in {folder} cannot be opened: {how.get(ended.beyond, crashed)}",
        "look for a damaged or a very large file among them",
    )


def _ended_early(source: str, ended: Ended) -> ModelError:
    """Return the error for a process that ended without an answer."""
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
