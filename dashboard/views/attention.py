"""Two boxes on the page Fleet: what runs now, and what needs attention, from the journal, the quarantine book and the
workspace's lock."""

import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import streamlit as st

from dashboard import data, fleet_data, links, running
from dashboard.markdown_escape import line, words
from dashboard.running import Running
from dashboard.source import Source
from dashboard.views import watch
from sweeps.errors import EdgeSweepError, StoreError
from sweeps.launching.away_devices import away_now
from sweeps.launching.driver import find
from sweeps.launching.live_report import Live, LiveDevice
from sweeps.quarantine import QuarantineBook
from sweeps.workspace import Workspace

MOST = fleet_data.MOST_TROUBLES
"""Most lines in a box."""


class Need(NamedTuple):
    """Line of the box of what needs attention."""

    text: str
    """Text of the line, in Markdown."""
    icon: str
    page: str = ""
    """Name of the page with details; empty if there is none."""
    parameters: Mapping[str, str] = {}


def show(now: Source, root: Path, run: Running) -> None:
    """Draw the two boxes side by side, or one below the other. `run`: the driver's state, without details from the
    journal."""
    latest = [sweep.name for sweep in data.sweeps(now)[: fleet_data.TROUBLED]]
    measured = now.measured
    local_sweeps = tuple(name for name in latest if name in measured.sweeps)
    called = fleet_data.called(measured.path, measured.plans, local_sweeps)
    with st.container(horizontal=True, gap="medium", key="attention"):
        with st.container(border=True, width="stretch", key="runs-now"):
            st.caption("Runs now")
            watch.watched(root, lambda: _runs(root, called))
        with st.container(border=True, width="stretch", key="needs-attention"):
            st.caption("Needs attention")
            needs = list(_needs(now, root, run, called))
            for need in needs[:MOST]:
                if not need.page or not links.link(need.page, need.text, icon=need.icon, **need.parameters):
                    st.markdown(f"{need.icon} {need.text}")
            standing = fleet_data.standing(now)
            more = len(needs) - MOST + standing.troubled - len(standing.troubles)
            if more > 0:
                st.caption(f"and {more:,} more")
            if not needs:
                st.markdown(
                    ":material/check_circle: Nothing: no job failed or is untrusted, no device is away or quarantined."
                )


def _runs(root: Path, called: Mapping[str, str]) -> None:
    run = Running(find(Workspace(root)))
    driver, live = run.driver, run.driver.live
    if driver.state == "idle":
        sweep = f" **{words(driver.sweep)}** was {run.words.lower()}." if run.words in ("Paused", "Stopped") else ""
        st.markdown(f"Nothing.{sweep}")
        if not sweep or not links.link("live", "Go on with it", icon=":material/monitoring:", sweep=driver.sweep):
            links.link("launch", "Launch a sweep", icon=":material/rocket_launch:")
        return
    if driver.state != "running" or live is None or live.ended:
        st.markdown("A run is beginning." if driver.state != "ending" else "A run is ending.")
        links.link("live", "Watch it", icon=":material/monitoring:")
        return
    st.markdown(f"**{words(live.sweep)}**")
    now_s = time.time()
    jobs: Mapping[str, tuple[str, str]] = {}
    with suppress(StoreError):  # without the journal's table, jobs keep the names that the driver reports
        keys = tuple(sorted({device.job for device in live.devices}))
        jobs = fleet_data.under_way(Workspace(root).journal, live.sweep, keys)
    for device in live.devices[:MOST]:
        doing = doing_now(device, now_s, live, jobs)
        st.text(line(f"{called.get(device.name, device.name)}: {doing} ({device.done} of {device.total} steps)"))
    if not live.devices and live.step:
        st.text(line(live.step))
    links.link("live", "Watch it", icon=":material/monitoring:", sweep=live.sweep)


def doing_now(device: LiveDevice, now_s: float, live: Live, jobs: Mapping[str, tuple[str, str]]) -> str:
    """Return the work of one device in a few words, or the conditions that it waits for. `jobs`: the jobs' names, from
    `dashboard.running.in_words`."""
    if device.away:
        return "away"
    if lacking := device.lacks(now_s):
        return "; ".join(lacking)
    return running.doing(device, live, jobs)


def _needs(now: Source, root: Path, run: Running, called: Mapping[str, str]) -> Iterator[Need]:
    def name_of(name: str) -> str:
        return words(called.get(name, name))

    if run.trouble:
        yield Need(words(run.trouble), ":material/error:", "live", {"sweep": run.driver.sweep})
    with suppress(EdgeSweepError):
        for record in QuarantineBook().records():
            if record.quarantine is not None:
                yield Need(f"{name_of(record.name)} is quarantined {words(record.quarantine.text)}", ":material/block:")
    gone = away_now(Workspace(root))
    for name in gone.devices:
        yield Need(f"{name_of(name)}: {words(gone.text(name))}", ":material/link_off:")
    for trouble in fleet_data.standing(now).troubles:
        parameters = {"sweep": trouble.sweep, "device": trouble.device_id, "model": trouble.model}
        counts = [f"{trouble.failed} failed"] * bool(trouble.failed) + [f"{trouble.untrusted} not trusted"] * bool(
            trouble.untrusted
        )
        text = f"{words(trouble.device)}, {words(trouble.model)}: {', '.join(counts)}"
        yield Need(text, ":material/warning:", "decide", parameters)
    for sweep in data.sweeps(now)[: fleet_data.TROUBLED]:
        lag = fleet_data.lag(str(root), sweep.name)
        if lag is not None and lag.jobs:
            yield Need(words(lag.text), ":material/schedule:")
