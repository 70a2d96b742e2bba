"""The program's `main`: one run, or with `--batch` several artifacts timed in one process, one after the other.

    python -m workers.runtimes.torchscript.runner --batch requests.jsonl --item-seconds 60

Each line of the file is a JSON array of strings, the arguments of one timing. All lines ask for the same threads and
CPUs, which are set for the process. The order of the lines, which the caller has shuffled, is kept. Each artifact is
loaded, warmed, timed and unloaded before the next, so that memory is that of the largest. The report:

    batch      revision, items: the number of lines
    item       number: of the line, from 0
    artifact   sha256: of the file
    ...        the report of a run alone, from `start` to `end` or `error`
    batch_end  after the last item

An item that reports an error affects no other item. An item that does not end within `--item-seconds` ends the process
by SIGALRM, which works in native code too. A file with a line that cannot be run is refused before anything is run.
"""

import argparse
import gc
import json
import math
import sys
import time
from functools import partial
from pathlib import Path
from typing import IO

from workers.runtimes.torchscript.runner import main as alone
from workers.runtimes.torchscript.runner.events import GiveUp, tell
from workers.runtimes.torchscript.runner.process import end_after, return_memory

REVISION = 1
"""The version of a batch's work around the timing of an item; increased with every change that can change a result. The
runner's own version, which is in job keys, covers only the runs of one artifact."""

MAX_FILE_BYTES = 16 * 1024 * 1024
_WARM_S = 0.1


def main(argv: list[str] | None = None, program: alone.Program | None = None) -> int:
    """Run once or a batch; by default as PyTorch Mobile's runner. Returns the exit code."""
    words = sys.argv[1:] if argv is None else argv
    if not any(word.partition("=")[0] == "--batch" for word in words):
        return alone.main(words, program)
    report = alone.own_report()
    return alone.ended(report, lambda: _run(words, program or alone.pytorch_mobile(), report), "batch_end")


def _run(words: list[str], program: alone.Program, report: IO[str]) -> None:
    options = _arguments(words)
    items = read_items(Path(options.batch))
    alone.begin(items[0], program)
    _warm()
    engine = _default_engine()
    tell(report, "batch", revision=REVISION, items=len(items))
    for number, item in enumerate(items):
        tell(report, "item", number=number)
        end_after(options.item_seconds)
        alone.ended(report, partial(_time, item, engine, program, report))
        gc.collect()
        return_memory()
    end_after(0.0)


def _time(item: argparse.Namespace, engine: str, program: alone.Program, report: IO[str]) -> None:
    _use_engine(engine)
    tell(report, "artifact", sha256=alone.sha256_of(Path(item.model)))
    alone.tell_start(program, report)
    alone.run_model(item, program, report)


def _arguments(words: list[str]) -> argparse.Namespace:
    parser = alone.Parser(prog="runner", description=__doc__.partition("\n")[0], allow_abbrev=False)
    parser.add_argument("--batch", required=True, help="a file with the arguments of one timing on each line")
    parser.add_argument("--item-seconds", type=float, required=True, help="an item that takes longer ends the process")
    options = parser.parse_args(words)
    if not (math.isfinite(options.item_seconds) and options.item_seconds > 0):
        parser.error("--item-seconds is not above 0")
    return options


def read_items(file: Path) -> list[argparse.Namespace]:
    """Return the runs of all lines. Raises `GiveUp("bad_batch")` with the first line that cannot be run."""
    try:
        if file.stat().st_size > MAX_FILE_BYTES:
            raise GiveUp("bad_batch", f"{file} is larger than {MAX_FILE_BYTES} bytes")
        # Names of files need not be UTF-8.
        lines = file.read_bytes().decode("utf-8", "surrogateescape").split("\n")
    except OSError as error:
        raise GiveUp("bad_batch", f"{file} cannot be read: {error.strerror}") from error
    if lines[-1] == "":
        lines.pop()
    if not lines:
        raise GiveUp("bad_batch", f"{file} has no line")
    items = []
    for number, line in enumerate(lines, start=1):
        try:
            items.append(_item(line))
        except GiveUp as give_up:
            raise GiveUp("bad_batch", f"line {number} of the batch: {give_up.message}") from give_up
        if (items[-1].threads, items[-1].cpus) != (items[0].threads, items[0].cpus):
            raise GiveUp("bad_batch", f"line {number} of the batch asks for other threads or CPUs than line 1")
    return items


def _item(line: str) -> argparse.Namespace:
    try:
        words = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise GiveUp("bad_batch", "it is no JSON array of strings") from error
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise GiveUp("bad_batch", "it is no JSON array of strings")
    if {"-h", "--help"} & {*words}:
        raise GiveUp("bad_batch", "it asks for help")  # help would end the process
    item = alone.arguments(words)
    if item.nnapi_devices or item.eval_inputs is not None:
        raise GiveUp("bad_batch", "a batch only times")
    return item


def _warm() -> None:
    """Work on all threads for a moment, so that the first item finds the process in the same state as the other items.

    This starts thread pools, loads kernels into memory and raises the clocks. A run of one artifact has its warm-up for
    that, and so has each item; but without this function, only the first item's warm-up would have to be long enough.
    """
    import torch

    x, weight = torch.ones(1, 32, 56, 56), torch.ones(32, 32, 3, 3)
    ends = time.perf_counter() + _WARM_S
    with torch.inference_mode():
        while time.perf_counter() < ends:
            torch.relu(torch.nn.functional.conv2d(x, weight))


def _default_engine() -> str:
    import torch

    return str(torch.backends.quantized.engine)


def _use_engine(engine: str) -> None:
    """Set the process's own engine, so that an item that asks for no engine does not get that of the item before."""
    import torch

    if torch.backends.quantized.engine != engine:
        torch.backends.quantized.engine = engine
