"""The time of each operator, as a runner with `--profile` reports it: parsed, as a table, and as a trace for Chrome and
Perfetto. Pure, torch-free.

Profiling slows a run down, so none of its figures is a latency. The lines of such a run, besides `start` and `end` or
`error`, in order:

    profile          iteration_ns: a list; besides, the profile of a runtime in its own form
    operator         name, where: the delegate or provider, start_ns, ns
"""

import json
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sweeps.errors import RunnerError
from sweeps.stored_profiles import LABEL, StoredOperator

_MAX_BYTES = 256 * 1024 * 1024
_MAX_NS = 2**63 - 1
"""The largest time that a 64-bit clock can report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorRun:
    """One run of one operator. `ns` includes the operators that it calls, `self_ns` does not."""

    name: str
    where: str
    """The delegate or provider that runs the operator; empty if there is only one."""
    start_ns: int
    ns: int
    self_ns: int = 0
    depth: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """All runs of operators of one name, per iteration."""

    name: str
    where: str
    calls: float
    self_us: float
    percent: float
    """The share of the time of all operators, in percent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    runner: str
    runtime_version: str
    iteration_ns: tuple[int, ...]
    runs: tuple[OperatorRun, ...]

    def operators(self) -> list[Operator]:
        """Return the operators, the slowest first."""
        own_ns: dict[tuple[str, str], list[int]] = {}
        for run in self.runs:
            own_ns.setdefault((run.name, run.where), []).append(run.self_ns)
        times = max(len(self.iteration_ns), 1)
        own = {key: _per_iteration(times_ns, times) for key, times_ns in own_ns.items()}
        whole = sum(own.values())
        operators = [
            Operator(
                name=name,
                where=where,
                calls=len(times_ns) / times,
                self_us=own[name, where] / 1e3,
                percent=100.0 * own[name, where] / whole if whole else 0.0,
            )
            for (name, where), times_ns in own_ns.items()
        ]
        return sorted(operators, key=lambda operator: (-operator.self_us, operator.name, operator.where))

    def trace(self, title: str) -> dict[str, Any]:
        """Return the profile in the Trace Event Format, which chrome://tracing and ui.perfetto.dev open."""
        named = {"name": "process_name", "ph": "M", "pid": 1, "args": {"name": title}}
        first = min((run.start_ns for run in self.runs), default=0)
        events = [
            {
                "name": run.name,
                "cat": run.where or "operator",
                "ph": "X",
                "ts": (run.start_ns - first) / 1e3,
                "dur": run.ns / 1e3,
                "pid": 1,
                "tid": 1,
            }
            for run in self.runs
        ]
        return {"traceEvents": [named, *events], "displayTimeUnit": "ns", "otherData": {"label": LABEL}}


OwnForm = Callable[[Mapping[str, Any], int], Iterable[OperatorRun]]
"""A function that reads the operators from a runtime's own form of the `profile` line, for so many iterations. Raises
`ValueError`."""


def parse(stdout: bytes, own: OwnForm = lambda line, iterations: ()) -> Profile:
    """Return the profile in a runner's output. Raises `RunnerError`: the error that the runner reports, else
    `no_report`, `truncated`, `garbled` or `no_profile`."""
    events = list(_events(stdout))
    if not events:
        raise RunnerError("no_report", "the runner printed nothing")
    last = events[-1]
    if last.get("event") == "error":
        kind = str(last.get("kind"))[:64]
        raise RunnerError(kind, str(last.get("message", ""))[:500])
    if last.get("event") != "end":
        raise RunnerError("truncated", "the profile has no end")
    try:
        start = next(event for event in events if event["event"] == "start")
        profile = next(event for event in events if event["event"] == "profile")
        iteration_ns = tuple(nanoseconds(ns) for ns in profile["iteration_ns"])
        runs = [*(_run(event) for event in events if event["event"] == "operator"), *own(profile, len(iteration_ns))]
        if not runs:
            raise RunnerError("no_profile", "the runner told no operator: its library was compiled without profiling")
        return Profile(
            runner=f"{start['runner']} {start['runner_version']}",
            runtime_version=str(start["torch"]),
            iteration_ns=iteration_ns,
            runs=tuple(nested(runs)),
        )
    except (AttributeError, KeyError, RecursionError, StopIteration, TypeError, ValueError) as error:
        raise RunnerError("garbled", f"the profile is invalid: {type(error).__name__}: {error}"[:500]) from error


def nanoseconds(value: object, *, times: int = 1) -> int:
    """Return in ns a time that a profile reports in units of `times` ns. Raises `ValueError` for a value that no 64-bit
    clock can report."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value * times <= _MAX_NS:
        raise ValueError(f"{value!r:.40} is no time")
    return int(value) * times


def nested(runs: Sequence[OperatorRun]) -> list[OperatorRun]:
    """Return the runs in order of time, each with its depth, and with its own time, without the runs that it called."""
    ordered = sorted(runs, key=lambda run: (run.start_ns, -run.ns))
    inner = [0] * len(ordered)
    depth = [0] * len(ordered)
    open_: list[int] = []
    for index, run in enumerate(ordered):
        while open_ and run.start_ns >= ordered[open_[-1]].start_ns + ordered[open_[-1]].ns:
            open_.pop()
        if open_:
            inner[open_[-1]] += run.ns
        depth[index] = len(open_)
        open_.append(index)
    return [
        replace(run, depth=deep, self_ns=max(run.ns - within, 0))
        for run, deep, within in zip(ordered, depth, inner, strict=True)
    ]


def kept_operators(profile: Profile) -> tuple[StoredOperator, ...]:
    """Return the operators as a workspace stores them, the slowest first."""
    return tuple(
        StoredOperator(
            name=operator.name,
            where=operator.where,
            calls_per_iteration=operator.calls,
            self_us_per_iteration=operator.self_us,
            percent=operator.percent,
        )
        for operator in profile.operators()
    )


def iteration_p50_us(iteration_ns: Sequence[int]) -> float | None:
    return statistics.median(iteration_ns) / 1e3 if iteration_ns else None


def _per_iteration(times_ns: Sequence[int], iterations: int) -> float:
    """Return the median time per iteration, so that one run that another program held up does not count. If iterations
    have different numbers of runs, return the mean."""
    each, rest = divmod(len(times_ns), iterations)
    if rest or not each:
        return sum(times_ns) / iterations
    return statistics.median(sum(times_ns[start : start + each]) for start in range(0, len(times_ns), each))


def _events(stdout: bytes) -> Iterator[dict[str, Any]]:
    if len(stdout) > _MAX_BYTES:
        raise RunnerError("garbled", f"the profile has more than {_MAX_BYTES} bytes")
    for line in stdout.decode("utf-8", "replace").splitlines():
        try:
            event = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise RunnerError("garbled", f"a line of the profile is no JSON: {line[:100]}") from error
        if not isinstance(event, dict) or not isinstance(event.get("event"), str):
            raise RunnerError("garbled", f"a line of the profile is no event: {line[:100]}")
        yield event


def _run(event: Mapping[str, Any]) -> OperatorRun:
    start, ns = nanoseconds(event["start_ns"]), nanoseconds(event["ns"])
    return OperatorRun(name=str(event["name"])[:200], where=str(event.get("where", ""))[:100], start_ns=start, ns=ns)
