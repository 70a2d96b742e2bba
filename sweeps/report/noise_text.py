"""The differences that a device can tell apart, in a terminal and as JSON; and how many rounds a plan needs for
them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rich.text import Text

from sweeps.batches import FEWEST
from sweeps.device_facts import DeviceFacts
from sweeps.protocol.batch_noise import DECIDE_UP_TO, BatchSpread
from sweeps.protocol.presets import PRESETS, Protocol
from sweeps.protocol.resolvable_difference import MOST_ROUNDS, Calibration, rounds_for, told_apart
from sweeps.protocol.rounds_for_noise import rounds_by_device
from sweeps.records import Block
from sweeps.report.terminal_tables import cells, new_table, open_console
from sweeps.spec.protocol import ProtocolSpec
from sweeps.text import duration, plain

_ROUNDS = (3, 5, 10)
_PRESETS = ("quick", "full", "race")


def trace_text(blocks: Sequence[Block]) -> str:
    """Return the samples of these blocks as CSV, in the format that infra/racing.md describes. Each block is one
    process."""
    lines = ["process,sample_ns"]
    for number, block in enumerate(blocks, 1):
        lines += [f"{number},{sample}" for sample in block.samples_ns]
    return "\n".join(lines) + "\n"


def document(facts: DeviceFacts, blocks: Sequence[Block], noise: Calibration) -> dict[str, Any]:
    """Return the document of `edgesweep noise --json`. `blocks`: those from which `noise` was computed."""
    return {
        "device": facts.name,
        "device_id": facts.device_id,
        "fingerprint": facts.fingerprint,
        "latency_p50_ms": round(noise.p50_ms, 6),
        "blocks": noise.blocks,
        "blocks_left_out": noise.left_out,
        "labels": _labels(blocks),
        "sessions": noise.sessions,
        "device_seconds": round(sum(block.device_seconds + block.conditions.waited_seconds for block in blocks), 3),
        "spread_percent": {
            "block": _percent(noise.block),
            "block_low": _percent(noise.block_low),
            "block_high": _percent(noise.block_high),
            "process": _percent(noise.process),
            "sampling": _percent(noise.sampling),
            "slow": None if noise.slow is None else _percent(noise.slow),
            "session": _percent(noise.session),
            "session_is_assumed": noise.sessions == 1,
        },
        "told_apart": [
            {
                "rounds": rounds,
                "difference_percent": _percent(told_apart(noise.block, rounds)),
                "difference_of_sessions_percent": _percent(noise.told_apart_in_sessions(rounds)),
                "device_seconds_of_a_build": round(rounds * noise.block_s, 3),
            }
            for rounds in _ROUNDS
        ],
        "presets": [advice(noise, _in_a_sweep(noise, PRESETS[name])) for name in _PRESETS],
    }


def batch_document(spread: BatchSpread | None) -> dict[str, Any] | None:
    """Return the entry `batches` of `edgesweep noise --json`."""
    if spread is None:
        return None
    return {
        "builds": spread.variants,
        "rounds": spread.rounds,
        "spread_percent": _percent(spread.spread),
        "upper_percent": _percent(spread.upper),
        "process_percent": _percent(spread.noise),
        "decide": spread.decide,
    }


def batch_text(device: str, spread: BatchSpread) -> str:
    """Return the content of `batch_document` as text for people."""
    verdict = (
        "batches decide races that begin now, where all builds can share a process"
        if spread.decide
        else f"batches only screen, processes of their own decide (batches decide from {_share(DECIDE_UP_TO)} on)"
    )
    return (
        f"{device}: ratios of {spread.variants} builds in one process lie {_share(spread.spread)} from those in "
        f"processes of their own, at most {_share(spread.upper)} (upper 90 % bound, {spread.rounds} rounds): {verdict}"
    )


def race_text(device: str, spread: BatchSpread, separate: Sequence[str], few: Sequence[str] = ()) -> str:
    """Return for people how races that begin now would end on that device. `separate`: models whose builds cannot all
    share a process; `few`: models whose builds are too few programs for batches."""
    shown = (
        f"a process that builds share changes their ratios by at most {_share(spread.upper)} "
        f"(upper 90 % bound, {spread.rounds} rounds of edgesweep noise --batches)"
    )
    if not spread.decide:
        most = _share(DECIDE_UP_TO)
        return f"{device}: batches screen, and processes of their own decide: {shown}, more than {most}"
    but = f", but not for {', '.join(separate)}, whose builds cannot all share one" if separate else ""
    but += f", {'nor' if but else 'but not'} for {', '.join(few)}, whose builds are fewer" if few else ""
    return f"{device}: batches decide races of {FEWEST} programs or more{but}: {shown}"


def advice(noise: Calibration, protocol: Protocol) -> dict[str, Any]:
    """Return the difference that the rounds of a protocol tell apart on that device, and the number of rounds for a
    difference of 5 %, for `--json`. A race decides by other rules, so its rounds have no such difference (`None`)."""
    spread, races = noise.block_under(protocol), protocol.budget == "race"
    needed = rounds_for(spread)
    return {
        "preset": protocol.preset,
        "rounds": protocol.rounds,
        "most_rounds": protocol.last_round,
        "block_spread_percent": _percent(spread),
        "difference_percent": None if races or protocol.rounds < 2 else _percent(told_apart(spread, protocol.rounds)),
        "rounds_for_5_percent": needed,
        "device_seconds_of_a_build": None if needed is None else round(needed * noise.block_s_under(protocol), 3),
    }


def advice_text(device: str, noise: Calibration, protocol: Protocol) -> str:
    """Return the content of `advice` as text for people: one line below a plan."""
    spread, rounds = noise.block_under(protocol), protocol.rounds
    source = f"by the {noise.blocks} blocks of edgesweep noise"
    if protocol.budget == "race":
        return f"{device}: in a round, blocks of one build differ by {_share(spread)} (standard deviation), {source}"
    now = f", and {rounds} tell {_share(told_apart(spread, rounds))} apart" if rounds > 1 else ""
    planned = _rounds_text(protocol)
    return f"{device}: to tell 5 % apart takes {_rounds(rounds_for(spread))}; this sweep has {planned}{now}, {source}"


def print_noise(facts: DeviceFacts, blocks: Sequence[Block], noise: Calibration) -> None:
    out = open_console()
    slow = "not known yet: measure longer" if noise.slow is None else f"{_share(noise.slow)}: rounds cancel them"
    assumed = (
        "assumed: measure again another day" if noise.sessions == 1 else "seen, and assumed as far as they are few"
    )
    lines = [
        f"{facts.name}: {noise.blocks} blocks of one build, p50 {noise.p50_ms:.3f} ms"
        + (f"; {noise.left_out} more are left out for their labels" if noise.left_out else ""),
        f"spread of blocks in a round    {_share(noise.block)} (95 %: {_share(noise.block_low)} to "
        f"{_share(noise.block_high)}); between processes {_share(noise.process)}, from samples "
        f"{_share(noise.sampling)}",
        f"slow changes in a session      {slow}",
        f"spread of sessions ({noise.sessions})         {_share(noise.session)} ({assumed})",
    ]
    if labels := _labels(blocks):
        lines.append("trust labels (blocks)          " + ", ".join(f"{name} ({n})" for name, n in labels.items()))
    for line in lines:
        out.print(Text(plain(line)))
    table = new_table("It tells apart builds that differ by", ">rounds", ">in one sweep", ">in two sessions", ">takes")
    for rounds in _ROUNDS:
        inside, across = told_apart(noise.block, rounds), noise.told_apart_in_sessions(rounds)
        table.add_row(*cells(rounds, _share(inside), _share(across), f"{duration(rounds * noise.block_s)} a build"))
    out.print(table)
    for name in _PRESETS:
        protocol = PRESETS[name]
        needed = rounds_for(noise.block_under(protocol))
        takes = f", {duration(needed * noise.block_s_under(protocol))} a build" if needed is not None else ""
        planned = "" if protocol.budget == "race" else f"; a sweep has {_rounds_text(_in_a_sweep(noise, protocol))}"
        out.print(f"5 % with the preset {name}: {_rounds(needed)}{takes}{planned}")
    note = "told apart: shown at 95 % in 4 of 5 sweeps; for a slower model it takes larger differences"
    out.print(Text(note, style="dim"))


def _in_a_sweep(noise: Calibration, protocol: Protocol) -> Protocol:
    """Return a preset with the rounds that it gets on this device, in a sweep file that sets nothing else."""
    return replace(protocol, rounds_on=rounds_by_device(ProtocolSpec(), protocol, {"": noise}, {})).on("")


def _rounds_text(protocol: Protocol) -> str:
    rounds, most = protocol.rounds, protocol.last_round
    return f"{rounds}" if most == rounds else f"{rounds} to {most}"


def _labels(blocks: Sequence[Block]) -> dict[str, int]:
    return dict(Counter(label for block in blocks for label in block.labels))


def _percent(share: float) -> float:
    return round(100 * share, 3)


def _share(share: float) -> str:
    return f"{100 * share:.1f} %"


def _rounds(needed: int | None) -> str:
    return f"more than {MOST_ROUNDS:,} rounds" if needed is None else f"{needed} rounds"
