"""What runs now, and what needs attention: from the journal, the quarantine book and the workspace's lock."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import streamlit as st

from dashboard import data, fleet_data, links
from dashboard.data import Source
from dashboard.device_rows import gone_now
from dashboard.inert import line, words
from dashboard.views import watch
from sweeps.errors import EdgeSweepError
from sweeps.launching.live import Live, read_live
from sweeps.quarantine import QuarantineBook
from sweeps.workspace import Workspace

MOST = fleet_data.MOST_TROUBLES
"""So many lines are shown."""


def running(root: Path) -> str:
    """The sweep that runs in this workspace now; empty if none does."""
    live = _live(root)
    return live.sweep if live is not None else ""


def show(now: Source, root: Path) -> None:
    """Two boxes side by side, or one below the other."""
    latest = tuple(one.name for one in data.sweeps(now)[: fleet_data.TROUBLED])
    called = fleet_data.called(now.path, now.plans, latest)
    with st.container(horizontal=True, gap="medium", key="attention"):
        with st.container(border=True, width="stretch", key="runs-now"):
            st.caption("Runs now")
            watch.watched(root, lambda: _runs(root, called))
        with st.container(border=True, width="stretch", key="needs-attention"):
            st.caption("Needs attention")
            found = list(_needs(now, root, called))
            for text, icon, wanted in found[:MOST]:
                if not wanted or not links.link("decide", text, icon=icon, **wanted):
                    st.markdown(f"{icon} {text}")
            known = fleet_data.standing(now)
            more = len(found) - MOST + known.troubled - len(known.troubles)
            if more > 0:
                st.caption(f"and {more:,} more")
            if not found:
                st.markdown(":material/check_circle: Nothing: no job failed, every phone is trusted and present.")


def _live(root: Path) -> Live | None:
    workspace = Workspace(root)
    live = read_live(workspace.live) if workspace.holder() is not None else None
    return live if live is not None and not live.ended else None


def _runs(root: Path, called: Mapping[str, str]) -> None:
    live = _live(root)
    if live is None:
        busy = Workspace(root).holder() is not None
        st.markdown("A run is beginning." if busy else "Nothing.")
        links.link("launch", "Launch a sweep", icon=":material/rocket_launch:")
        return
    st.markdown(f"**{words(live.sweep)}**")
    for device in live.devices[:MOST]:
        doing = device.running or "; ".join(device.waiting) or ("away" if device.away else "waits for its turn")
        st.text(line(f"{called.get(device.name, device.name)}: {doing} ({device.done} of {device.total})"))
    if not live.devices and live.step:
        st.text(line(live.step))
    links.link("live", "Watch it", icon=":material/monitoring:", sweep=live.sweep)


def _needs(now: Source, root: Path, called: Mapping[str, str]) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Text (Markdown), an icon, and where it is in Decide."""

    def name_of(name: str) -> str:
        return words(called.get(name, name))

    with suppress(EdgeSweepError):
        for record in QuarantineBook().records():
            if record.quarantine is not None:
                yield f"{name_of(record.name)} is quarantined {words(record.quarantine.text)}", ":material/block:", {}
    gone = gone_now(Workspace(root))
    for name in gone.devices:
        yield f"{name_of(name)}: {words(gone.text(name))}", ":material/link_off:", {}
    for one in fleet_data.standing(now).troubles:
        wanted = {"sweep": one.sweep, "device": one.device_id, "model": one.model}
        counts = [f"{one.failed} failed"] * bool(one.failed) + [f"{one.untrusted} not trusted"] * bool(one.untrusted)
        yield f"{words(one.device)}, {words(one.model)}: {', '.join(counts)}", ":material/warning:", wanted
    for sweep in data.sweeps(now)[: fleet_data.TROUBLED]:
        lag = data.lag(str(root), sweep.name)
        if lag is not None and lag.jobs:
            yield f"{words(lag.text)}", ":material/schedule:", {}
