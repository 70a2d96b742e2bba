"""Strict parser of a batch's output: for each item a complete and valid report, or the reason why there is none.

`runner/batch.py` lists the events. The lines of an item are the report of a run without a batch, which `runner_report`
reads.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sweeps.batches import NotReached
from sweeps.errors import RunnerError
from workers.runtimes.interface import BatchOutcome
from workers.runtimes.torchscript import runner_report

_MARKS = ("batch", "item", "artifact", "batch_end")
_MAX_MARK_BYTES = 200
_SHA256 = re.compile(r"[0-9a-f]{64}")


def parse(stdout: bytes, artifacts: Sequence[str]) -> list[BatchOutcome]:
    """See `BatchRuntime.parse_batch`. Invalid lines cost only the item that they belong to, unless they hide the start
    of an item."""
    if len(stdout) > runner_report.MAX_BYTES:
        raise RunnerError(
            "garbled", f"the runner printed {len(stdout)} bytes; at most {runner_report.MAX_BYTES} are read"
        )
    first, *lines = _lines(stdout)
    batch = _mark(first)
    if batch.get("event") != "batch":
        raise _refusal(stdout)
    revision = batch.get("revision")
    if type(revision) is not int or not 0 < revision < 10_000 or batch.get("items") != len(artifacts):
        raise RunnerError(
            "garbled", f"the runner began another batch than one of {len(artifacts)} items: {first!r:.99}"
        )
    items = _items(lines)
    if not items:
        raise RunnerError("truncated", "the batch ended before its first item")
    outcomes = [_outcome(item, sha256, revision) for item, sha256 in zip(items, artifacts, strict=False)]
    return [*outcomes, *(NotReached() for _ in artifacts[len(items) :])]


def _lines(stdout: bytes) -> list[bytes]:
    """Return the lines, at least one. Each has its newline, except a last line that was cut off."""
    pieces = stdout.split(b"\n")
    return [piece + b"\n" for piece in pieces[:-1]] + ([pieces[-1]] if pieces[-1] or len(pieces) == 1 else [])


def _mark(line: bytes) -> dict[str, Any]:
    """Return the event of a line that marks the parts of a batch; empty for other lines."""
    if len(line) > _MAX_MARK_BYTES or not line.endswith(b"\n"):
        return {}
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return event if isinstance(event, dict) and event.get("event") in _MARKS else {}


def _refusal(stdout: bytes) -> RunnerError:
    """Return the error of a runner that began no batch."""
    try:
        runner_report.parse(stdout)
    except RunnerError as error:
        if error.kind == "bad_arguments" and "unrecognized" in error.message and "--batch" in error.message:
            return RunnerError("no_batches", "this runner was compiled before there were batches")
        return error
    return RunnerError("garbled", "the runner's report is invalid: it is that of a run alone")


def _items(lines: Sequence[bytes]) -> list[list[bytes]]:
    """Return the lines of each item that the runner began, without the line that begins the item. The list ends before
    an item whose number is not the next one, because it is not known which item such lines belong to."""
    items: list[list[bytes]] = []
    for line in lines:
        mark = _mark(line)
        match mark.get("event"):
            case "item" if mark.get("number") == len(items) and type(mark.get("number")) is int:
                items.append([])
            case "item" | "batch" | "batch_end":
                break
            case _ if items and not line.endswith(b"\n") and _has_ended(items[-1]):
                break  # the first line of the next item was cut off
            case _ if items:
                items[-1].append(line)
            case _:
                break
    return items


def _has_ended(lines: Sequence[bytes]) -> bool:
    return bool(lines) and lines[-1].startswith((b'{"event": "end"', b'{"event": "error"'))


def _outcome(lines: Sequence[bytes], sha256: str, revision: int) -> BatchOutcome:
    artifact = _mark(lines[0]) if lines else {}
    has_artifact = artifact.get("event") == "artifact"
    try:
        if has_artifact:
            _check(artifact.get("sha256"), sha256)
        parsed = runner_report.parse(b"".join(lines[1:] if has_artifact else lines))
    except RunnerError as error:
        return error
    if not has_artifact or not parsed.samples_ns:
        return RunnerError("garbled", "an item of the batch reports no artifact or no samples")
    return replace(parsed, runner=f"{parsed.runner} batch {revision}")


def _check(reported: object, expected: str) -> None:
    if not (isinstance(reported, str) and _SHA256.fullmatch(reported)):
        raise RunnerError("garbled", f"the artifact's sha256 is none: {reported!r:.80}")
    if reported != expected:
        raise RunnerError(
            "wrong_artifact", f"the runner loaded a file with the sha256 {reported[:12]}, asked for was {expected[:12]}"
        )
