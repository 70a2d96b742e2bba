"""The page Live: what runs on each device, what waits and why, what ended last; and the buttons to pause, stop and
resume."""

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd
import streamlit as st

from dashboard import running
from dashboard.arguments import server_options
from dashboard.links import link
from dashboard.markdown_escape import NOTHING, line, words
from dashboard.rights import person, role
from dashboard.roles import Role
from dashboard.running import Running
from dashboard.views import watch
from dashboard.views.tables import draw_table, text_width
from dashboard.words import device_names
from sweeps.device_facts import DeviceFacts
from sweeps.errors import EdgeSweepError
from sweeps.launching.driver import stop
from sweeps.launching.live_report import LiveDevice
from sweeps.launching.record import StartRequest
from sweeps.launching.start import last_lines, resume
from sweeps.launching.sweep_commands import command_hints
from sweeps.records import Conditions
from sweeps.text import duration
from sweeps.workspace import Workspace

MOST_CARDS = 40


def show(root: Path) -> None:
    """Draw the page."""
    st.title("Live", anchor=False)
    draw(root)


def draw(root: Path, *, brief: bool = False) -> None:
    """Draw what runs now, and update it while it runs; while nothing runs, wait for a run to begin. `brief`: draw only
    a line for each device and a link to the page Live."""
    every_s = running.read(root).every_s
    st.fragment(_current, run_every=every_s)(root, every_s, brief)
    if every_s is None:
        watch.watched(root)


def _current(root: Path, every_s: int | None, brief: bool) -> None:
    now = running.read(root)
    if now.every_s != every_s:
        st.rerun()  # the sweep has begun or ended, so updates need another interval
    _state(now)
    _buttons(root, now)
    _problem(now)
    live = now.driver.current_report
    if live is not None and live.builds_total:
        under_way = f", {len(live.building)} under way" if live.building else ""
        st.text(f"Builds: {live.builds_done} of {live.builds_total}{under_way}")
    if brief:
        _briefly(now)
        return
    with st.container(horizontal=True, gap="medium", key="devices-now"):
        for facts in now.devices[:MOST_CARDS]:
            _device(facts, now)
    if len(now.devices) > MOST_CARDS:
        st.caption(f"{len(now.devices) - MOST_CARDS} more devices: `edgesweep status` lists all jobs.")
    _last(now)


def _state(now: Running) -> None:
    driver = now.driver
    st.subheader(f"{words(driver.sweep)} · {now.words}" if driver.sweep else now.words, anchor=False)
    if driver.state == "idle" and not driver.sweep:
        st.text("Next step: start a sweep on the page Launch, or with edgesweep run sweep.yaml.")
    elif driver.launched and driver.launch is not None:
        st.caption(f"Started by {words(driver.launch.by)} at {_clock(driver.launch.started_s)} UTC")
    else:
        st.caption("Started in a terminal")
    if now.unread and driver.state == "idle":
        st.text(line(f"Its jobs cannot be read: {now.unread}"))
    if driver.end_request is not None and driver.state == "running":
        st.caption(f"Asked to by {words(driver.end_request.by)}. What was measured is kept.")


def _buttons(root: Path, now: Running) -> None:
    if now.driver.state == "idle" and not now.can_resume:
        return
    may = role()
    stopping = now.driver.is_asked
    least = Role.LAUNCH if now.driver.launched else Role.OPERATE
    if may < least:
        needed = "launch sweeps" if least is Role.LAUNCH else "operate this computer"
        st.caption(f"You may look. Pausing and stopping is for who may {needed}.")
        return
    with st.container(horizontal=True):
        if now.can_resume:
            _button("Resume", "play_arrow", lambda: _resume(root))
        elif not stopping:
            _button("Pause", "pause", lambda: _stop(root, now, "pause", least))
            _button("Stop", "stop", lambda: _stop(root, now, "stop", least))
        elif may >= Role.OPERATE:
            _button("Stop at once", "stop_circle", lambda: _stop(root, now, "stop", Role.OPERATE, at_once=True))


def _button(label: str, icon: str, act: Callable[[], None]) -> None:
    if st.button(label, icon=f":material/{icon}:", key=f"live {label}"):
        try:
            act()
        except EdgeSweepError as error:
            problem("That was not done.", error)
        else:
            st.rerun()


def _stop(root: Path, now: Running, action: str, needed: Role, at_once: bool = False) -> None:
    if role() < needed or now.driver.pid is None:
        raise EdgeSweepError("you may not do that", "log in, or open the link that `edgesweep dashboard` has printed")
    request = StartRequest(
        what="pause" if action == "pause" else "stop", by=person(), at_s=time.time(), pid=now.driver.pid
    )
    stop(Workspace(root), request, at_once)


def _resume(root: Path) -> None:
    if role() < Role.LAUNCH:
        raise EdgeSweepError("you may not do that", "log in, or open the link that `edgesweep dashboard` has printed")
    resume(Workspace(root), person(), server_options().models)


def problem(title: str, error: EdgeSweepError, sweep: str | None = None) -> None:
    """Draw an error, as text without Markdown. `sweep`: the sweep that the error concerns, if it is known."""
    st.error(title, icon=":material/error:")
    for part in error.message.splitlines():
        st.text(line(part))
    if error.next_step:
        st.text(
            f"Next step: {line(command_hints(Workspace(server_options().workspace), sweep).typed(error.next_step))}"
        )


def _problem(now: Running) -> None:
    driver, live = now.driver, now.driver.current_report
    if driver.state != "idle" or driver.launch is None or not driver.launched:
        return
    if live is not None and live.ended in ("finished", "stopped"):
        return
    message = live.problem if live is not None and live.problem else "it ended without saying why"
    problem("The sweep failed.", EdgeSweepError(message, live.next_step if live is not None else ""), driver.sweep)
    if lines := last_lines(Path(driver.launch.log)):
        st.caption("The last lines of its output")
        st.code("\n".join(line(output) for output in lines), language=None)


def _briefly(now: Running) -> None:
    names = device_names({facts.device_id: facts.device_class for facts in now.devices})
    with st.container(gap="small"):
        for facts in now.devices[:MOST_CARDS]:
            st.text(f"{names[facts.device_id]}: {now.progress(facts)}. {_doing(_told_of(facts, now), now)}")
    link("live", "Watch it", icon=":material/monitoring:")


def _told_of(facts: DeviceFacts, now: Running) -> LiveDevice:
    live = now.driver.current_report
    return live.device(facts.name) if live is not None else LiveDevice(name=facts.name)


def _device(facts: DeviceFacts, now: Running) -> None:
    live = _told_of(facts, now)
    failed = now.ended.get(facts.device_id, {}).get("failed")
    with st.container(border=True, height="stretch"):
        st.markdown(f"**{words(facts.device_class)}** · {words(facts.name)}")
        figures = [now.progress(facts), *([f"{failed} failed"] if failed else [])]
        seconds = live.seconds_left(time.time())
        if now.driver.state == "running" and seconds is not None:
            figures.append(f"about {duration(seconds)} left")
        st.text(" · ".join(figures))
        if live.total and now.driver.state != "idle":
            st.progress(min(1.0, live.done / live.total))
        if now.driver.state == "running":
            st.text(_doing(live, now))
        ended = now.ended.get(facts.device_id, {})
        st.caption(words(_weather(now.conditions.get(facts.device_id), ended, now.driver.state == "running")))


def _doing(live: LiveDevice, now: Running) -> str:
    if live.away:
        since = f" since {_clock(live.away_at_s)} UTC" if live.away_at_s else ""
        return f"Away{since}: {line(live.away)}; {live.pending} of its jobs wait for the next run"
    if lacking := live.lacks(time.time()):
        return f"Waiting for {duration(live.waited_s)}: {line('; '.join(lacking))}"
    text = now.doing(live)
    return f"Now: {text}" if live.running else f"{text[:1].upper()}{text[1:]}"


def _weather(conditions: Conditions | None, ended: Mapping[str, int], runs: bool) -> str:
    """Return in words the temperature and the gate of the device's last block. `ended`: the numbers of the device's
    ended jobs by outcome."""
    if conditions is None:
        if ended.get("measured"):
            return "last block: some time ago; the page Result has the blocks of each job"
        return "no block: its jobs failed" if ended.get("failed") else f"no block{' yet' * runs}"
    heat = conditions.temp_end_c if conditions.temp_end_c is not None else conditions.temp_start_c
    parts = [f"{heat:.0f} °C" if heat is not None else "no temperature sensor"]
    if conditions.thermal_status_end is not None:
        parts.append(f"thermal status {conditions.thermal_status_end}")
    parts.append("no gate" if conditions.gate == "none" else "waited for a ready device")
    lacked = "; ".join(lack.text for lack in conditions.lacking)
    parts += [f"lacked {lacked}"] if lacked else []
    return "last block: " + ", ".join(parts)


def _last(now: Running) -> None:
    live = now.driver.current_report
    if now.last:
        st.caption("Ended last")
        builds = now.builds
        devices = device_names({row.device_id: row.device for row in now.last})
        rows = [
            {
                "Build": f"{line(row.model)} · {builds[row.setup]}",
                "Device": devices[row.device_id],
                "Outcome": row.outcome,
                "p50": f"{ms:.3f} ms" if (ms := row.metrics.get("latency_p50_ms")) is not None else NOTHING,
                "Reason": line(row.reason),
            }
            for row in now.last
        ]
        with st.container(key="ended-wide"):
            draw_table(
                pd.DataFrame(rows),
                hide_index=True,
                width="stretch",
                column_config={
                    name: st.column_config.TextColumn(width=text_width(str(row[name]) for row in rows))
                    for name in ("Build", "Device")
                },
            )
        with st.container(key="ended-narrow", gap="small"):  # a narrow screen would cut the table
            for row in rows:
                figure = row["p50"] if row["Outcome"] == "measured" else f"{row['Outcome']}: {row['Reason']}"
                st.text(f"{row['Build']}\n{row['Device']} · {figure}")
    if live is not None and live.notes:
        st.caption("What happened (UTC)")
        advice = command_hints(Workspace(server_options().workspace), live.sweep)
        for note in reversed(live.notes):
            st.text(f"{_clock(note.at_s)}  {line(advice.typed(note.text))}")


def _clock(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%H:%M:%S}"
