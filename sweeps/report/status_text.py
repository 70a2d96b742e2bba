"""The text of a sweep's progress for a terminal."""

from collections.abc import Mapping
from types import MappingProxyType

from rich.text import Text

from sweeps.command_hints import ANYWHERE, CommandHints
from sweeps.journal.sweep_progress import STATES, SweepStatus
from sweeps.quarantine import Quarantine
from sweeps.report.terminal_tables import ONLY_CHECKED, cells, new_table, open_console
from sweeps.text import plain, shortened

_NONE: Mapping[str, Quarantine] = MappingProxyType({})


def print_status(
    status: SweepStatus,
    quarantined: Mapping[str, Quarantine] = _NONE,
    *,
    verbose: bool = False,
    hints: CommandHints = ANYWHERE,
) -> None:
    """Print the status. `quarantined`: the sweep's devices that are in quarantine now, by name. `verbose`: long reasons
    are not shortened. `hints`: completes commands in advice."""
    console = open_console()
    table = new_table(f"{status.sweep}: status", "job", "state", ">rounds", "reason")
    for job in status.jobs:
        rounds = ONLY_CHECKED if job.emulated else status.rounds_text(job)
        reason = job.reason or job.settled
        if not verbose:
            reason = shortened(reason, hints.typed(f"edgesweep status {status.sweep} -v"))
        reason += f" -> {hints.typed(job.next_step)}" if job.next_step else ""
        table.add_row(*cells(job.name, job.state, rounds, reason))
    console.print(table)
    counts = []
    for state in STATES:
        checked = sum(job.emulated and job.state == state for job in status.jobs)
        counts.append(f"{status.count(state)} {state}" + (f" ({checked} {ONLY_CHECKED})" if checked else ""))
    console.print(f"{', '.join(counts)}, {status.skipped} combinations skipped")
    if status.spent.text:
        console.print(status.spent.text)
    for name, quarantine in quarantined.items():
        console.print(Text(plain(f"{name} is quarantined {quarantine.text}; {quarantine.way_out}")))
