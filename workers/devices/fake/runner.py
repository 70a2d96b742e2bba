"""The arguments and the report of the runner on a simulated phone, as in the runner contract. It runs nothing."""

import argparse
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from workers.devices.fake.block_length import BlockLength
from workers.devices.fake.physics import SimulatedBlock

NAME = "simulated"
VERSION = "1"
"""The version, increased with every change that can change a figure."""

BATCH_REVISION = 1

ERROR_EXIT = 3


class GiveUp(Exception):  # noqa: N818  # no error of this program: it becomes the last line of the report
    """An error that ends the run with an `error` line."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(kind, message)
        self.kind = kind
        self.message = message

    def report(self) -> bytes:
        return _lines([{"event": "error", "kind": self.kind, "message": self.message}])


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise GiveUp("bad_arguments", message)


def arguments(argv: Sequence[str], cores: int) -> argparse.Namespace:
    """Parse the flags that the simulation needs; `cpus` becomes a list of CPU numbers. Raises `GiveUp`."""
    parser = _Parser(allow_abbrev=False, add_help=False)
    parser.add_argument("--model", required=True)
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("--engine", default="none")
    parser.add_argument("--warmup", type=int, default=0)
    parser.add_argument("--warmup-seconds", type=float, default=0.0)
    parser.add_argument("--iter", type=int, default=1)
    parser.add_argument("--min-seconds", type=float, default=0.0)
    parser.add_argument("--max-seconds", type=float, default=60.0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cpus", default="all")
    parser.add_argument("--input-dims", type=_dims, required=True)
    parser.add_argument("--eval-inputs")
    parsed, _ = parser.parse_known_args(argv)
    if parsed.iter < 1 or parsed.threads < 1 or parsed.warmup < 0:
        parser.error("--iter and --threads must be at least 1, --warmup at least 0")
    if parsed.backend != "cpu":
        raise GiveUp("backend_missing", f"a simulated phone has no backend {parsed.backend}")
    parsed.cpus = _cpus(parsed.cpus, cores)
    return parsed


def length(parsed: argparse.Namespace) -> BlockLength:
    """Return the length of warm-up and timing by these arguments."""
    return {
        "warmup_iterations": parsed.warmup,
        "warmup_seconds": parsed.warmup_seconds,
        "iterations": parsed.iter,
        "min_seconds": parsed.min_seconds,
        "max_seconds": parsed.max_seconds,
    }


def report(parsed: argparse.Namespace, block: SimulatedBlock, samples_ns: Sequence[float], torch: str) -> bytes:
    """Return the complete report of this block, with `samples_ns` as its samples."""
    return _lines(
        [
            {"event": "start", "runner": NAME, "runner_version": VERSION, "torch": torch},
            {"event": "load", "load_ns": block.load_ns},
            {"event": "first_inference", "ns": block.first_inference_ns},
            {"event": "warmup", "ns": block.warmup_ns.tolist()},
            {"event": "sample", "ns": samples_ns},
            {
                "event": "ran",
                "backend": parsed.backend,
                "reference": False,
                "engine": parsed.engine,
                "threads": parsed.threads,
                "cpus": parsed.cpus,
            },
            {"event": "end"},
        ]
    )


def batch_items(argv: Sequence[str]) -> list[list[str]] | None:
    """Return the arguments of each item of a batch, in order; `None` if these are the arguments of a single run.

    Raises `GiveUp`.
    """
    parser = _Parser(allow_abbrev=False, add_help=False)
    parser.add_argument("--batch")
    parsed, _ = parser.parse_known_args(argv)
    if parsed.batch is None:
        return None
    try:
        items = [json.loads(line) for line in Path(parsed.batch).read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError) as error:
        raise GiveUp("bad_batch", f"{parsed.batch} cannot be read: {error}") from error
    if not items or not all(isinstance(item, list) and all(isinstance(word, str) for word in item) for item in items):
        raise GiveUp("bad_batch", f"{parsed.batch} has no arguments")
    return items


def batch_report(reports: Sequence[tuple[str | None, bytes]]) -> bytes:
    """Return the report of a batch, from the sha256 of each item's artifact, if it exists, and the item's own
    report."""
    parts = [_lines([{"event": "batch", "revision": BATCH_REVISION, "items": len(reports)}])]
    for number, (sha256, item_report) in enumerate(reports):
        artifact = [] if sha256 is None else [{"event": "artifact", "sha256": sha256}]
        parts += [_lines([{"event": "item", "number": number}, *artifact]), item_report]
    return b"".join([*parts, _lines([{"event": "batch_end"}])])


def _cpus(text: str, cores: int) -> list[int]:
    if text == "all":
        return list(range(cores))
    chosen = sorted({int(word) for word in text.split(",")}) if re.fullmatch(r"\d+(,\d+)*", text) else []
    if not chosen or chosen[-1] >= cores:
        raise GiveUp("bad_cpus", f"the CPUs {text!r} are not available: a simulated phone has {cores} of one kind")
    return chosen


def _dims(text: str) -> tuple[int, ...]:
    dims = tuple(int(word) for word in text.split(","))
    if min(dims) < 1:
        raise ValueError
    return dims


def _lines(events: Sequence[Mapping[str, object]]) -> bytes:
    return "".join(f"{json.dumps(event)}\n" for event in events).encode()
