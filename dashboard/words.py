"""Display names of builds, devices and figures, with everything that distinguishes two of them. Pure.

All functions return one line of plain text, for elements without Markdown.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping

from dashboard.markdown_escape import line
from sweeps.label_kinds import TRUST
from sweeps.metrics import METRICS
from sweeps.results import ResultRow
from sweeps.spec import catalog, toolchains

_CALLED = {
    "cpu": "CPU",
    "nnapi": "NNAPI",
    "metal": "Metal",
    "qnnpack": "QNNPACK",
    "onednn": "oneDNN",
    "nchw": "NCHW",
    "nhwc": "NHWC",
    "nchw16c": "NCHW16c",
    "script": "scripted",
    "trace": "traced",
    "mixed": "partly traced",
    "static_fx": "static",
    "static_eager": "static, eager mode",
    "qat": "trained quantized",
    "per_tensor": "per tensor",
    "per_channel": "per channel",
    "pt": "full format",
    "ptl": "lite format",
}
_USUALLY_UNSAID = {"cpu", "static_fx", "none", ""}


def _called(value: str) -> str:
    return line(_CALLED.get(value, value))


def _numbers(row: ResultRow) -> str:
    return _called(row.precision)


def _threads(row: ResultRow) -> str:
    return f"{row.threads} thread" + "s" * (row.threads != 1) if row.threads else ""


def _text(name: str) -> Callable[[ResultRow], str]:
    def word(row: ResultRow) -> str:
        value = getattr(row, name)
        return "" if value in ("none", "") else _called(value)

    return word


def _either(name: str, yes: str, no: str) -> Callable[[ResultRow], str]:
    return lambda row: yes if getattr(row, name) else no


_ALWAYS: tuple[Callable[[ResultRow], str], ...] = (
    lambda row: "" if row.backend in _USUALLY_UNSAID else _called(row.backend),
    _numbers,
    lambda row: "" if row.quantization in _USUALLY_UNSAID else _called(row.quantization),
    lambda row: _called(row.layout),
    _text("qengine"),
    _threads,
)
_IF_NEEDED: tuple[Callable[[ResultRow], str], ...] = (
    _text("backend"),
    _text("quantization"),
    _text("runtime"),
    _text("capture"),
    _either("fuse", "fused", "not fused"),
    _either("optimize", "optimized", "not optimized"),
    _text("format"),
    _text("granularity"),
    lambda row: f"calibrated on {row.calibration_images}" if row.calibration_images else "calibrated on all",
    _text("interface"),
    _text("preference"),
    _either("relaxed_fp16", "fp16 allowed", "fp32 only"),
    _either("flexible_batch", "any batch", "one batch"),
    _either("reduced_range", "7-bit weights", "8-bit weights"),
    lambda row: f"opset {row.opset}" if row.opset else "usual opset",
    _text("graph_optimization"),
    lambda row: f"built by {line(toolchains.word(row.toolchain))}",
    lambda row: f"run by {line(toolchains.word(row.runner_toolchain))}",
    lambda row: f"cores {line(row.cpus)}",
    _either("reuse_input", "input reused", "input fresh"),
    _text("grid"),
    _text("device_id"),
    *map(_text, ("runtime_version", "runner", "preset", "exec_context", "outcome")),
)


def build_names(rows: Iterable[ResultRow]) -> dict[str, str]:
    """Return a name for each row by its job key, such as `int8 · NHWC · QNNPACK · 4 threads`; all names also have the
    further axes in which otherwise equal names differ. No two rows have the same name: rows that no axis distinguishes
    are numbered."""
    distinct = list({row.job_key: row for row in rows}.values())
    words = {row.job_key: [word for axis in _ALWAYS if (word := axis(row))] for row in distinct}
    for axis in _IF_NEEDED:
        groups: dict[tuple[str, ...], set[str]] = defaultdict(set)
        for row in distinct:
            groups[tuple(words[row.job_key])].add(axis(row))
        if any(len(names) > 1 for names in groups.values()):
            for row in distinct:
                if (word := axis(row)) and word not in words[row.job_key]:
                    words[row.job_key].append(word)
    alike: dict[str, list[str]] = defaultdict(list)
    for key, parts in words.items():
        alike[" · ".join(parts)].append(key)
    return {
        key: f"{name} · {number} of {len(keys)}" if len(keys) > 1 else name
        for name, keys in alike.items()
        for number, key in enumerate(sorted(keys), 1)
    }


def device_names(devices: Mapping[str, str]) -> dict[str, str]:
    """Return the display name of each device by its id; with the id if several devices have the same name."""
    counts = Counter(devices.values())
    return {key: line(name if counts[name] == 1 else f"{name} · {key}") for key, name in devices.items()}


def plain_words(text: str) -> str:
    """Replace the metrics' names in a reason of the ranking by their titles: `Accuracy drop is 0.8 points`."""
    return line(_METRIC.sub(lambda match: _SHORT.get(match[0], METRICS[match[0]].title.lower()), text))


def metric_title(name: str) -> str:
    """Return the metric's title within a sentence, such as `latency (p50)`."""
    return _SHORT.get(name) or line(catalog.metric(name).title)


_SHORT = {
    "latency_p50_ms": "latency (p50)",
    "accuracy_drop_points": "the accuracy drop",
    "top1_percent": "top-1 accuracy",
    "top5_percent": "top-5 accuracy",
    "agreement_percent": "agreement with fp32 eager",
    "artifact_mb": "the file's size",
    "model_rss_mb": "memory",
}
_METRIC = re.compile(rf"\b(?:{'|'.join(sorted(METRICS, key=len, reverse=True))})\b")

TRUST_WORDS = {label.name: label.title for label in TRUST.values()}
"""Title of each trust label, by its name."""


PAIRED = "Paired by round"
PAIRED_HELP = (
    "The latency divided by the winner's in the same rounds: the median of these ratios, with its 95 % interval. It "
    "decides who is told apart. A p50 is over all rounds, so the quotient of two p50s may be another figure"
)
"""Tooltip of ratios that are not the quotients of the figures beside them."""


def wrapped(text: str, width: int) -> list[str]:
    """Wrap text into lines of at most `width` characters. Nothing is lost except dots at the ends of lines, and a part
    between two dots stays together if it fits."""
    lines: list[str] = []
    for part in text.split(" · "):
        dot = " · "
        for word in [part] if len(part) <= width else part.split(" "):
            if lines and len(lines[-1]) + len(dot) + len(word) <= width:
                lines[-1] += f"{dot}{word}"
            else:
                lines += [word[start : start + width] for start in range(0, len(word), width)] or [""]
            dot = " "
    return lines


def setup_names(rows: Iterable[ResultRow]) -> dict[tuple[str, ...], str]:
    """Return the names of builds (see `build_names`) by `ResultRow.setup`: a build that runs in the same way on several
    devices has one name."""
    by_setup = {row.setup: row for row in rows}
    names = build_names(by_setup.values())
    return {setup: names[row.job_key] for setup, row in by_setup.items()}
