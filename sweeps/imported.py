"""The figures of tools that someone ran by hand. They are shown below the ranking with their source, and never ranked.

It is unknown how such a tool was run (which artifact, how warm the device was, which other programs ran), and a mean
has no interval. So imported figures are separate records, and the code that ranks, compares or exports does not read
them.
"""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from sweeps.device_facts import DeviceFacts, canonical_key
from sweeps.errors import EdgeSweepError
from sweeps.stats import median
from sweeps.text import plain
from sweeps.tool_logs.log import ToolLog

NOTE = "Hand-run, imported, not in the ranking"
MAX_WORDS = 200
"""The longest text (characters) that a user may give."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """One run of a tool, from its log and from the options of the person who imported it."""

    model: str
    """The model's name in the sweep file."""
    variant: str
    """The variant in the user's words."""
    device: str
    """The device for people: the class of the sweep's device, otherwise the user's words."""
    device_id: str
    """The id of the device; empty if the sweep has no such device."""
    tool: str
    mean_ms: float
    iterations: int | None
    """The number of iterations behind the mean; `None` if neither the log nor the user gives it."""
    p50_ms: float | None
    """The p50 from the log, or from its iterations; `None` if the log has neither."""
    log: str
    """The file's name, without its folder."""
    log_sha256: str
    imported: str
    """The time of the import: ISO 8601, UTC."""

    @property
    def key(self) -> str:
        """A key that is equal for the same log, variant and device, at whatever time the log is imported."""
        about = (self.model, self.variant, self.device_id or self.device, self.log_sha256)
        return canonical_key({"imported": about})

    @property
    def place(self) -> tuple[str, str]:
        """The device and model of the ranking below which the record is shown, as `ResultRow.place`."""
        return self.device_id, self.model

    @property
    def source(self) -> str:
        """The tool, log and date, for people."""
        return f"{self.tool}, {self.log} ({self.log_sha256[:12]}), {self.imported[:10]}"


def describe(
    log: ToolLog,
    *,
    variant: str,
    device: str,
    model: str | None,
    iterations: int | None,
    models: Sequence[str],
    devices: Sequence[DeviceFacts],
    file_name: str,
    sha256: str,
    now: str,
) -> Imported:
    """Return the record of a log. `models` and `devices` are those of the sweep.

    `variant` may begin with the model, as the names of jobs do. `model` may be `None` if the sweep has only one model,
    or `variant` contains it. Raises `EdgeSweepError` if a text is empty or too long, the model is ambiguous or not in
    the sweep, several devices match, or `iterations` contradicts the log.
    """
    variant = _words("--variant", variant)
    name = _model_of(variant, model, models)
    shown, device_id = _device_of(_words("--device", device), devices)
    if iterations is not None and log.iterations not in (None, iterations):
        raise EdgeSweepError(
            f"the log has {log.iterations} iterations, and --iterations says {iterations}",
            "leave out --iterations: this log has the number",
        )
    return Imported(
        model=name,
        variant=_words("--variant", variant.removeprefix(f"{name} · ")),
        device=shown,
        device_id=device_id,
        tool=log.tool,
        mean_ms=log.mean_ms,
        iterations=log.iterations or iterations,
        p50_ms=median(log.samples_ns) / 1e6 if log.samples_ns else log.p50_ms,
        log=_line(file_name)[:MAX_WORDS],
        log_sha256=sha256,
        imported=now,
    )


def in_order(figures: Sequence[Imported]) -> tuple[Imported, ...]:
    """Return the figures by device and model, the fastest first."""
    return tuple(sorted(figures, key=lambda figure: (figure.device, figure.model, figure.mean_ms, figure.imported)))


def _words(option: str, text: str) -> str:
    words = _line(text)
    if not 0 < len(words) <= MAX_WORDS:
        raise EdgeSweepError(f"{option} has {len(words)} characters", f"give 1 to {MAX_WORDS}")
    return words


def _line(text: str) -> str:
    return plain(" ".join(text.split()))


def _model_of(variant: str, model: str | None, models: Sequence[str]) -> str:
    named = [name for name in models if variant.startswith(f"{name} · ")] if model is None else [model]
    candidates = named or list(models)
    if len(candidates) > 1:
        raise EdgeSweepError(
            f"the sweep has {len(candidates)} models", f"choose one with --model: {', '.join(candidates)}"
        )
    if candidates[0] not in models:
        close = difflib.get_close_matches(candidates[0], models, n=1)
        raise EdgeSweepError(
            f"the sweep has no model {candidates[0]!r}",
            f"did you mean {close[0]!r}?" if close else f"it has: {', '.join(models)}",
        )
    return candidates[0]


def _device_of(text: str, devices: Sequence[DeviceFacts]) -> tuple[str, str]:
    """Return the device for people, and its id; the id is empty unless `text` is the id, name or class of one of the
    sweep's devices."""
    for names in ("device_id", "name", "device_class"):
        matches = [facts for facts in devices if plain(getattr(facts, names)).casefold() == text.casefold()]
        if len(matches) > 1:
            ids = ", ".join(facts.device_id for facts in matches)
            raise EdgeSweepError(f"the sweep has {len(matches)} devices {text!r}", f"choose one by its id: {ids}")
        if matches:
            return matches[0].device_class, matches[0].device_id
    return text, ""
