"""The button that settles a tie or a provisional choice, for people who may start sweeps; others see the command."""

from pathlib import Path

import streamlit as st

from dashboard import data, links
from dashboard.arguments import server_options
from dashboard.markdown_escape import line, words
from dashboard.ranked_place import Ranked
from dashboard.rights import person, role
from dashboard.roles import Role
from dashboard.views import live
from dashboard.views.launch_form import KEPT
from sweeps.errors import EdgeSweepError
from sweeps.journal.journal import Journal
from sweeps.launching.record import kept_file
from sweeps.launching.start import RETRY, SETTLE, start_again, text_of
from sweeps.launching.sweep_commands import command_hints
from sweeps.launching.text_check import check
from sweeps.ranking.provisional import Settle
from sweeps.ranking.values import DeviceRanking
from sweeps.text import duration
from sweeps.workspace import Workspace

_NOT_KEPT = "the sweep was started in a terminal, so its file is not known here"


def show(root: Path, ranked: Ranked, device: DeviceRanking) -> None:
    """Draw the button or the command that settles a tie; nothing if more rounds would not settle it."""
    rounds = device.rounds_to_settle
    if rounds is None:
        return
    st.markdown("To measure just these until the tie is settled:")
    sweep = ranked.place.sweep
    why = _why_not(root, ranked)
    if why:
        st.code(command_hints(Workspace(root), sweep).typed(device.settle_command), language=None)
        if role() >= Role.LAUNCH:
            st.caption(f"There is no button for it: {words(why)}.")
        return
    pressed = st.button(f"Measure {rounds} more rounds", icon=":material/balance:", key="settle")
    st.caption(f"{_estimate(root, device, rounds)} What else is tied in this sweep gets as many rounds.")
    if not pressed or role() < Role.LAUNCH:
        return  # a browser may send anything
    _start(root, sweep, (SETTLE, str(rounds)))


def show_provisional(root: Path, ranked: Ranked, way: Settle) -> None:
    """Draw the one next step for a place where nothing may win: a button that does it, or a link to the sweep file that
    has to change."""
    sweep = ranked.place.sweep
    st.code(line(command_hints(Workspace(root), sweep).typed(way.timed_text)), language=None, wrap_lines=True)
    if role() < Role.LAUNCH:
        return
    if way.field:
        if kept_file(Workspace(root), sweep).is_file():
            links.link("launch", "Change the sweep file", icon=":material/edit:", file=f"{KEPT}:{sweep}")
        else:
            st.caption(f"There is no button for it: {_NOT_KEPT}.")
    elif why := _why_not(root, ranked):
        st.caption(f"There is no button for it: {words(why)}.")
    else:
        options = (RETRY,) if RETRY in way.command.split() else ()
        label = "Measure what failed or is not trusted again" if options else "Run the sweep again"
        if st.button(label, icon=":material/replay:", key="again"):
            _start(root, sweep, options)


def _start(root: Path, sweep: str, options: tuple[str, ...]) -> None:
    try:
        now = data.source(root)
        if now is not None:
            start_again(Workspace.open(root), data.spec(now, sweep), options, person(), server_options().models)
    except EdgeSweepError as error:
        live.problem("It was not started.", error)
    else:
        links.go("live", sweep=sweep)


def _why_not(root: Path, ranked: Ranked) -> str:
    """Return the reason why the person who looks at the page cannot start the run here; empty if they can."""
    if role() < Role.LAUNCH:
        return "you may look"
    now, sweep = data.source(root), ranked.place.sweep
    if now is None or ranked.objective != data.spec(now, sweep).objective:
        return "a run follows the sweep file's own objective, and another one is chosen here"
    if not now.knows_jobs(sweep):
        return "it was measured in another workspace"
    workspace = Workspace(root)
    if kept_file(workspace, sweep).is_file():
        return ""  # the start says what is wrong with the file
    problems = check(workspace, text_of(workspace, data.spec(now, sweep)), server_options().models).problems
    return problems[0].message if problems else ""


def _estimate(root: Path, device: DeviceRanking, rounds: int) -> str:
    """Return in words how long more rounds will take, estimated from the past blocks of these builds."""
    tied = [candidate for candidate in (device.winner, *device.tied) if candidate is not None and candidate.timed]
    with Journal.open(Workspace(root).journal, read_only=True) as journal:
        seconds = [journal.times.block_seconds(candidate.job_key)[1] for candidate in tied]
    if not all(seconds):
        return f"{rounds} rounds of {len(tied)} builds; how long that takes is not known."
    return f"{rounds} rounds of {len(tied)} builds: about {duration(rounds * sum(seconds))} on this device."
