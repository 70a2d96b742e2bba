"""Verifies each artifact in a fresh process, under its own engine: its outputs must still be those of the user's
model."""

import atexit
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from sweeps.errors import BuildError, RunnerError
from sweeps.manifest import Verification
from sweeps.temporary import temporary_folder
from sweeps.variant import INSTALLED, Variant
from workers.models.accuracy import sqnr_db
from workers.models.package import BuildInputs, Logits
from workers.runtimes.forks import ForkServer
from workers.runtimes.interface import RunReport, RunRequest
from workers.toolchains.environments import command_within

MAX_TOP1_LOST_POINTS = 5.0
DEADLINE_S = 1800.0
_LOG_BYTES = 16_384

_PROCESSES = ForkServer()
atexit.register(_PROCESSES.close)


class RunRefused(BuildError):  # noqa: N818  # says what happened
    """The runner could not load or run an artifact. `log`: the other output of its library."""

    log = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standard:
    """The reference logits that an artifact is compared with."""

    logits: Logits
    """The logits, (N, classes), on the verification images."""
    against: str
    """The origin of the logits: `fp32 eager`, or `fp16-rounded eager`."""
    least_sqnr_db: float


def least_sqnr_db(variant: Variant, *, settled: bool) -> float:
    """Return the signal-to-noise ratio, in dB, below which an artifact counts as broken. `settled`: the weights are
    random, which amplifies rounding errors."""
    if variant.precision == "int8":
        return 10.0
    if variant.backend == "metal":
        return 30.0 if settled else 35.0
    return 35.0 if variant.relaxed_fp16 or variant.precision == "fp16" else 60.0


def verify(
    variant: Variant,
    request: RunRequest,
    command: Callable[[RunRequest], list[str]],
    parse: Callable[[bytes], RunReport],
    inputs: BuildInputs,
    standard: Standard,
) -> tuple[Verification, int]:
    """Evaluate the saved model on the verification images with the runner, and compare it with `standard`.

    Returns the figures and the number of classes. Raises `BuildError`: `low_sqnr` and `accuracy_lost` with the figures,
    `invalid_output`, `crashed_on_load`, `crashed_on_run`, `timeout`, or the kind that the runner reported. Each message
    names the library that ran the artifact, with its version.
    """
    with temporary_folder() as folder, _named(variant, inputs):
        images, answers = folder / "inputs.bin", folder / "logits.bin"
        images.write_bytes(np.ascontiguousarray(inputs.verification, dtype="<f4").tobytes())
        argv = command_within(command(_evaluating(request, images, answers)), variant.runner_toolchain)
        report = _run(argv, parse)
        classes = report.eval_classes or 0
        logits: Logits = np.fromfile(answers, dtype="<f4").reshape(-1, max(classes, 1))
    return judge(variant, report.engine_ran, logits, inputs, standard), classes


def judge(variant: Variant, engine: str, logits: Logits, inputs: BuildInputs, standard: Standard) -> Verification:
    """Compare the logits of an artifact with those of `standard`. Raises `BuildError` as `verify` does."""
    with _named(variant, inputs):
        _check_answers(logits, standard.logits)
        return _judge(variant, engine, logits, inputs, standard)


def _check_answers(logits: Logits, reference: Logits) -> None:
    if logits.shape != reference.shape:
        raise BuildError(
            "invalid_output",
            f"the artifact answers {logits.shape}, the eager model {reference.shape} (images, classes)",
        )
    if not np.isfinite(logits).all():
        bad = int((~np.isfinite(logits).all(axis=1)).sum())
        raise BuildError("invalid_output", f"{bad} of {len(logits)} images get an answer that is not finite")


@contextmanager
def _named(variant: Variant, inputs: BuildInputs) -> Iterator[None]:
    """Add to errors in the block the name and version of the library that ran the artifact."""
    try:
        yield
    except BuildError as error:
        library = _library(variant, inputs)
        if library in error.message:
            raise
        raise BuildError(error.kind, f"{library}: {error.message}", error.next_step) from error


def _library(variant: Variant, inputs: BuildInputs) -> str:
    if variant.runner_toolchain != INSTALLED:
        return variant.runner_toolchain.replace("==", " ")
    # PyTorch's own runtimes are a part of torch.
    package = variant.runtime if variant.runtime in inputs.versions else "torch"
    return f"{package} {inputs.versions.get(package, '')}".strip()


def warm_up() -> None:
    """Start the process from which verifications are forked; otherwise the first verification starts it."""
    _PROCESSES.start()


def _evaluating(request: RunRequest, images: Path, answers: Path) -> RunRequest:
    return replace(request, eval_inputs=str(images), eval_outputs=str(answers))


def _run(argv: list[str], parse: Callable[[bytes], RunReport]) -> RunReport:
    try:
        ended = _PROCESSES.run(argv, DEADLINE_S)
    except subprocess.TimeoutExpired as error:
        raise BuildError("timeout", f"verification took longer than {DEADLINE_S:.0f} s") from error
    try:
        return parse(ended.stdout)
    except RunnerError as error:
        if ended.returncode >= 0 and error.kind not in ("no_report", "truncated"):
            raise _refused(error.kind, error.message, error.next_step, ended.stderr) from error
        loaded = b'"event": "load"' in ended.stdout
        how = f"signal {-ended.returncode}" if ended.returncode < 0 else f"exit code {ended.returncode}"
        tail = ended.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        message = f"the runner died of {how} while it {'ran' if loaded else 'loaded'} the artifact"
        kind = "crashed_on_run" if loaded else "crashed_on_load"
        raise _refused(kind, ": ".join([message, *tail]), "", ended.stderr) from error


def _refused(kind: str, message: str, next_step: str, stderr: bytes) -> RunRefused:
    refused = RunRefused(kind, message, next_step)
    refused.log = stderr[-_LOG_BYTES:].decode("utf-8", "replace")
    return refused


def _judge(variant: Variant, engine: str, logits: Logits, inputs: BuildInputs, standard: Standard) -> Verification:
    reference, labels = standard.logits, inputs.verification_labels
    sqnr = sqnr_db(reference, logits)
    top1 = reference_top1 = None
    if labels is not None and len(labels):
        top1 = 100.0 * float(np.mean(logits.argmax(axis=1) == labels))
        reference_top1 = 100.0 * float(np.mean(reference.argmax(axis=1) == labels))
    if sqnr is None and not np.array_equal(reference, logits):
        raise BuildError(
            "low_sqnr", "the eager model answers 0 on every verification image, so nothing can be compared with it"
        )
    figures = "equal to the bit" if sqnr is None else f"SQNR {sqnr:.1f} dB"
    if top1 is not None and reference_top1 is not None:
        figures += f", top-1 {top1:.1f} % (eager {reference_top1:.1f} %)"
    under = "" if engine == "none" else f" under {engine}"
    images = f"on {len(logits)} images{under}"
    needed = standard.least_sqnr_db
    if sqnr is not None and sqnr < needed:
        raise BuildError("low_sqnr", f"{figures} {images}; at least {needed:.0f} dB are asked for")
    if (
        variant.precision == "int8"
        and top1 is not None
        and reference_top1 is not None
        and reference_top1 - top1 > MAX_TOP1_LOST_POINTS
    ):
        raise BuildError("accuracy_lost", f"{figures} {images}; at most {MAX_TOP1_LOST_POINTS:.0f} points may be lost")
    return Verification(
        images=len(logits),
        engine=engine,
        sqnr_db=sqnr,
        top1_percent=top1,
        reference_top1_percent=reference_top1,
        against=standard.against,
    )
