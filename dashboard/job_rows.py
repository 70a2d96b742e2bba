"""The rows of the page Result, computed from the journal's records of one job. Pure; texts are for elements without
Markdown."""

import shlex
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from dashboard.markdown_escape import NOTHING, line
from sweeps.command_hints import RUN
from sweeps.device_facts import DeviceFacts
from sweeps.errors import RETRIED_KINDS
from sweeps.failure_kinds import FAILS_AGAIN, remedy
from sweeps.journal.attempts import DatedBlock
from sweeps.journal.job_history import Sentinel
from sweeps.launching.sweep_commands import command_hints
from sweeps.manifest import Manifest
from sweeps.protocol.clock import figure_ns
from sweeps.ranking.eligibility import evaluated_by
from sweeps.records import Block, Conditions
from sweeps.results import ResultRow
from sweeps.workspace import Workspace

PIXELS = 900
"""Most columns of samples in a chart, about its width in pixels."""

_NEXT_STEPS = {
    "load": "see that the model's source and weights can be read",
    "build": "the message says what the toolchain refused: change the model or take the combination out of the sweep",
    "verify": "the built file does not answer as the model does: compare its precision and engine with others that do",
    "push": "see that the device has room and stays connected",
    "run": "see whether other builds run on this device: if none does, it is the device",
    "evaluate": "see that the evaluation images can be read, and that the device has room for them",
}


def sample_columns(blocks: Sequence[Block], most: int = PIXELS) -> list[dict[str, float]]:
    """Return the timed samples of all blocks side by side, reduced to about `most` columns in all. Each column spans
    its lowest to its highest sample, so that no outlier is lost.

    `at_s`: the middle of the column, in seconds of timed iterations. There are gaps between blocks, because each block
    is a separate process.
    """
    per_column = max(1, -(-sum(len(block.samples_ns) for block in blocks) // most))
    columns: list[dict[str, float]] = []
    for number, (at_s, block) in enumerate(zip(_starts_s(blocks), blocks, strict=True), 1):
        for first in range(0, len(block.samples_ns), per_column):
            part = block.samples_ns[first : first + per_column]
            took_s = sum(part) / 1e9
            ends = {"low_ms": min(part) / 1e6, "high_ms": max(part) / 1e6}
            columns.append({"block": number, "at_s": round(at_s + took_s / 2, 6), **ends, "samples": len(part)})
            at_s += took_s
    return columns


def block_spans(blocks: Sequence[Block]) -> list[dict[str, float]]:
    """Return the position of each block on the axis of `sample_columns` (seconds), with the block's figure (ms)."""
    return [
        {
            "block": number,
            "from_s": round(start_s, 6),
            "to_s": round(start_s + sum(block.samples_ns) / 1e9, 6),
            "figure_ms": figure_ns(block.samples_ns) / 1e6,
        }
        for number, (start_s, block) in enumerate(zip(_starts_s(blocks), blocks, strict=True), 1)
    ]


def warmup_rows(blocks: Sequence[Block], most: int = 200) -> list[dict[str, float | int]]:
    """Return the times of the first inference (iteration 0) and of the first `most` warm-up iterations of each
    block."""
    rows: list[dict[str, float | int]] = []
    for number, block in enumerate(blocks, 1):
        if block.first_inference_ns is not None:
            rows.append({"block": number, "iteration": 0, "ms": block.first_inference_ns / 1e6})
        rows += [
            {"block": number, "iteration": place, "ms": ns / 1e6} for place, ns in enumerate(block.warmup_ns[:most], 1)
        ]
    return rows


def temperature_rows(blocks: Sequence[DatedBlock]) -> list[dict[str, float | int | str]]:
    """Return the temperatures before and after each block (°C), as far as the device has a sensor."""
    rows: list[dict[str, float | int | str]] = []
    for number, block in enumerate(blocks, 1):
        for when, temp_c in (
            ("before", block.block.conditions.temp_start_c),
            ("after", block.block.conditions.temp_end_c),
        ):
            if temp_c is not None:
                rows.append({"block": number, "when": when, "temp_c": temp_c})
    return rows


def sentinel_rows(sentinel: Sentinel) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return, as rows of a chart, a sentinel's blocks and the spans in which the device's own speed had changed."""
    looks = [{"at": _text(look.stored), "ms": look.ms} for look in sentinel.looks]
    at = {look.position: look.stored for look in sentinel.looks}
    spans = [
        {"from": _text(at[span.after]), "to": _text(at[span.until]), "what": "the device changed its speed"}
        for span in sentinel.spans
        if span.after in at and span.until in at
    ]
    return looks, spans


def measured_spans(blocks: Sequence[DatedBlock], least: timedelta) -> list[dict[str, Any]]:
    """Return the spans in which blocks were measured, each at least `least` long. A block ends when it is stored, or
    shortly before."""
    return [
        {
            "from": _text(block.stored - max(least, timedelta(seconds=block.block.device_seconds))),
            "to": _text(block.stored),
            "what": f"block {number} of this job",
        }
        for number, block in enumerate(blocks, 1)
    ]


def block_table(blocks: Sequence[DatedBlock], changed: frozenset[int]) -> list[dict[str, Any]]:
    """Return a table row for each block, in the order of measuring. `changed`: as of `JobEvidence`."""
    return [
        {
            "Block": number,
            "Stored": f"{block.stored:%Y-%m-%d %H:%M:%S}",
            "Round": block.block.round,
            "What for": _purpose(block.block),
            "Figure (ms)": figure_ns(block.block.samples_ns) / 1e6,
            "Samples": len(block.block.samples_ns),
            "Warm-ups": len(block.block.warmup_ns),
            "First inference (ms)": _ms(block.block.first_inference_ns),
            "Load (ms)": _ms(block.block.load_ns),
            "Gate": _gate(block.block.conditions),
            "Waited (s)": block.block.conditions.waited_seconds,
            "°C": _from_to(block.block.conditions.temp_start_c, block.block.conditions.temp_end_c, 1),
            "Thermal status": _from_to(
                block.block.conditions.thermal_status_start, block.block.conditions.thermal_status_end, 0
            ),
            "CPU (MHz)": _from_to(block.block.conditions.cpu_mhz_start, block.block.conditions.cpu_mhz_end, 0),
            "Other load": _percent(block.block.conditions.load_start),
            "Stolen": _percent(block.block.conditions.steal_share),
            "Battery": NOTHING
            if block.block.conditions.battery_percent is None
            else f"{block.block.conditions.battery_percent:.0f} %",
            "CPUs": line(block.block.conditions.cpus),
            "Threads": block.block.threads_ran,
            "Ran on": line(f"{block.block.backend_ran}, {block.block.engine_ran}"),
            "Labels": line(
                ", ".join((*block.block.labels, *(["device_changed"] if block.placed.position in changed else [])))
            ),
        }
        for number, block in enumerate(blocks, 1)
    ]


def next_step(stage: str, kind: str, precision: str = "") -> str:
    """Return the next step after a job of this precision failed in a stage with a kind of failure."""
    if kind in RETRIED_KINDS:
        return f"remove the cause: {RUN} tries it again"
    if kind == "not_possible":
        return "it cannot run there: take the combination out of the sweep file"
    advice = remedy(kind, precision) or _NEXT_STEPS.get(stage, "see the message")
    if kind in FAILS_AGAIN:
        return advice
    return f"{advice}; then {RUN} --retry-failed tries it again"


def repeat_command(row: ResultRow, facts: DeviceFacts, root: str) -> str:
    """Return the shell commands that measure a job again."""
    if row.outcome != "measured" or not row.timed:
        return line(f"{command_hints(Workspace(Path(root)), row.sweep).run} --retry-failed")
    export = ["edgesweep", "export", row.sweep, "--workspace", root, "--device", row.device_id, "--model", row.model]
    check = ["edgesweep", "check", "shipped/manifest.json", "--device", facts.name, "--workspace", root]
    words = [[*export, "--variant", row.name, "--output", "shipped"], check]
    return "\n".join(shlex.join([line(word) for word in command]) for command in words)


def run_url(tracking_uri: str, experiment_id: str, run_id: str) -> str | None:
    """Return the URL of a run's page on an MLflow server, without a password; `None` if results are not on an HTTP
    server."""
    try:
        parts = urlsplit(tracking_uri)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            return None
        host = f"[{parts.hostname}]" if ":" in parts.hostname else quote(parts.hostname, safe=".-")
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return None
    path = quote(parts.path.rstrip("/"), safe="/-._~%")
    return (
        f"{parts.scheme}://{host}{port}{path}/#/experiments/{quote(experiment_id, safe='')}/runs/"
        f"{quote(run_id, safe='')}"
    )


def identity(row: ResultRow | None, manifest: Manifest | None, facts: DeviceFacts) -> list[tuple[str, str]]:
    """Return keys, hashes and versions of a job, each with its title."""
    pairs: list[tuple[str, str]] = []
    if row is not None:
        pairs += [
            ("Job key", row.job_key),
            ("Build key", row.build_key),
            ("Runner", row.runner),
            ("Runtime on the device", row.runtime_version),
            ("Accuracy computed by", evaluated_by(row.executor, row.fingerprint)),
        ]
    pairs += [("Device id", facts.device_id), ("Device fingerprint", facts.fingerprint), ("OS build", facts.os_build)]
    if manifest is not None:
        pairs += [
            ("Model source", manifest.model_source),
            ("Weights", manifest.weights_id),
            ("File", f"{manifest.file}, {manifest.file_bytes:,} bytes"),
            ("sha256 of the file", manifest.file_sha256),
            ("File version", str(manifest.file_version)),
            ("Bytecode version", "" if manifest.bytecode_version is None else str(manifest.bytecode_version)),
            ("Program id", manifest.program_id or ""),
            ("Calibration images", manifest.calibration_id or ""),
            *((f"Version of {name}", version) for name, version in sorted(manifest.versions.items())),
        ]
    return [(line(title), line(value)) for title, value in pairs]


def _starts_s(blocks: Sequence[Block]) -> list[float]:
    took_s = [sum(block.samples_ns) / 1e9 for block in blocks]
    gap_s = 0.02 * sum(took_s) / max(1, len(blocks))
    return [sum(took_s[:number]) + number * gap_s for number in range(len(blocks))]


def _text(when: datetime) -> str:
    return when.isoformat(timespec="milliseconds")


def _purpose(block: Block) -> str:
    if block.confirms:
        return "confirms the winner"
    if block.checks:
        return "checks the batches"
    return "added later" if block.added else "decides"


def _gate(conditions: Conditions) -> str:
    words = {"none": "none", "ready": "passed", "busy": "passed, busy", "timed_out": "timed out"}
    text = words.get(conditions.gate, conditions.gate)
    lacked = ", ".join(lack.text for lack in conditions.lacking)
    return line(f"{text}: {lacked}" if lacked else text)


def _from_to(start: float | None, end: float | None, digits: int) -> str:
    if start is None and end is None:
        return NOTHING
    return " → ".join(NOTHING if value is None else f"{value:.{digits}f}" for value in (start, end))


def _percent(share: float | None) -> str:
    return NOTHING if share is None else f"{100 * share:.0f} %"


def _ms(ns: int | None) -> float | None:
    return None if ns is None else ns / 1e6
