"""The page Devices: each device's facts and state, who uses it, and how fast it was over time."""

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from dashboard import data, device_rows, history_cache, job_rows, state
from dashboard.charts import job_charts as drawing
from dashboard.charts.drawing import Spec
from dashboard.links import link
from dashboard.markdown_escape import line, words
from dashboard.source import Source
from dashboard.style import Palette, palette
from dashboard.views import empty, hosts, page_head
from dashboard.views.tables import draw_table, table_height, text_width
from sweeps.errors import StoreError
from sweeps.journal.job_history import KnownDevice
from sweeps.launching.away_devices import AwayDevices, away_now
from sweeps.launching.sweep_commands import running_now
from sweeps.locks import host_lock_owner, phone_name
from sweeps.quarantine import DeviceRecord, QuarantineBook
from sweeps.ranking.overview import PlaceVerdict
from sweeps.workspace import Workspace

MOST = 20
"""Number of devices that the page draws at a time, so that it is as quick with thousands."""
MOST_PLACES = 40
"""Most places of one device that are listed with links."""
_COUNT_PX = 66
_STATES = {
    "winner": "has a winner",
    "tied": "tied",
    "provisional": "leads so far",
    "waiting": "waits",
    "none": "no winner",
}


def show(root: Path) -> None:
    """Draw the page."""
    page_head.head("Devices", "What each device is, whether it is well, who uses it, and what was measured there.")
    records = _records()
    now = data.source(root)
    if (now is None or not now.plans) and not records:
        empty.show(root)
        hosts.show(root)
        return
    _show(root, now, records)
    hosts.show(root)


def _show(root: Path, now: Source | None, records: dict[str, DeviceRecord]) -> None:
    devices = history_cache.devices(now) if now is not None and now.plans else ()
    if not devices and not records:
        st.info("The copy of an MLflow server has results, and no facts of devices.", icon=":material/inbox:")
        st.text("They are in the journal of the workspace that measured them.")
        return
    gone = away_now(Workspace(root))
    by_id = {device.facts.device_id: device for device in devices}
    names = _names(by_id, records)
    shown = _shown(names, _unit_of(devices))
    if not shown:
        st.info("No device is called so.", icon=":material/search_off:")
        return
    chosen = state.url_value("device") or ""
    offered = [*shown, *([chosen] if chosen in names and chosen not in shown else [])]
    offered_devices = [by_id[key] for key in offered if key in by_id]
    holders = {
        device.facts.device_id: process
        for device in offered_devices
        if (process := host_lock_owner(phone_name(device.facts.device_id))) is not None
    }
    on = tuple(sorted({place for device in offered_devices for place in device.place_ids}))
    verdicts = data.verdicts_on(now, on) if now is not None and on else ()
    with st.container(key=state.selected(tuple(shown)) if len(shown) < len(names) else None):
        shown_records = {key: record for key, record in records.items() if key in shown}
        rows = device_rows.overview(
            [by_id[key] for key in shown if key in by_id], verdicts, shown_records, holders, gone
        )
        _overview(rows, len(names), root)
    device_id = state.chosen("device", "Device", offered, lambda key: names[key])
    # Streamlit keeps the content of a key until it is drawn again, so another device needs another key.
    with st.container(key=state.selected(device_id), gap="medium"):
        _device(now, by_id.get(device_id), records.get(device_id), holders.get(device_id), gone, verdicts)


def _names(devices: Mapping[str, KnownDevice], records: Mapping[str, DeviceRecord]) -> dict[str, str]:
    """Return a unique display name for each device, by id."""
    names = {key: line(f"{device.facts.device_class} · {device.facts.name}") for key, device in devices.items()}
    names |= {
        key: line(f"{record.name} (in no sweep of this workspace)")
        for key, record in records.items()
        if key not in devices
    }
    counts = Counter(names.values())
    return {key: f"{name} · {line(key)}" if counts[name] > 1 else name for key, name in names.items()}


def _shown(names: Mapping[str, str], chosen: str | None) -> list[str]:
    """Draw the search for devices if there are many; return the ids of the devices to list: at most `MOST` of the
    matches."""
    if len(names) <= MOST:
        return list(names)
    with st.container(horizontal=True, gap="medium", key="choices"):
        text = state.text("find", "Find", "a part of its name, or several", forgets=("device", "first"))
        parts = text.casefold().split()
        matches = [key for key, name in names.items() if all(part in f"{name} {key}".casefold() for part in parts)]
        starts = [str(start) for start in range(0, len(matches), MOST)]
        start = 0
        if len(starts) > 1:
            at = str(matches.index(chosen) // MOST * MOST) if chosen in matches else None
            of = f"of {len(matches)}"
            start = int(
                state.chosen(
                    "first",
                    "Devices",
                    starts,
                    lambda start: f"{int(start) + 1} to {min(int(start) + MOST, len(matches))} {of}",
                    default=at,
                )
            )
    return matches[start : start + MOST]


def _device(
    now: Source | None,
    device: KnownDevice | None,
    record: DeviceRecord | None,
    process: int | None,
    away: AwayDevices,
    verdicts: tuple[PlaceVerdict, ...],
) -> None:
    left, right = st.columns([1, 1], gap="large")
    with left:
        _use(device, record, process, away)
        _faults(record)
    with right:
        st.subheader("Facts", anchor=False)
        if device is None:
            st.text("No sweep of this workspace has it: its facts are not known here.")
        else:
            pairs = device_rows.fact_pairs(device.facts)
            draw_table(
                pd.DataFrame(pairs, columns=["What", "Value"]),
                hide_index=True,
                key="facts",
                height=table_height(len(pairs)),
            )
    if now is not None and device is not None:
        _history(now, device)
        _measured(device_rows.places_of(device, verdicts))


def _records() -> dict[str, DeviceRecord]:
    """Return the quarantine records of the user who runs this dashboard, by device id."""
    try:
        return {record.device_id: record for record in QuarantineBook().records()}
    except StoreError as error:
        st.warning("The book of quarantines cannot be read.", icon=":material/warning:")
        st.text(f"{line(error.message)}\nNext step: {line(error.next_step)}")
        return {}


def _unit_of(devices: tuple[KnownDevice, ...]) -> str | None:
    """Return the id of the device in the URL. Links from pages about a pool have the pool's id: then the first unit of
    the pool is chosen."""
    place_id = state.url_value("device") or ""
    unit = next((device.facts.device_id for device in devices if place_id == device.place_ids[1]), None)
    if unit is not None:
        state.put("device", unit)
    return unit or place_id or None


def _overview(rows: list[dict[str, Any]], count: int, root: Path) -> None:
    """Draw the table of devices. `count`: the number of all devices."""
    table = pd.DataFrame(rows)
    column = st.column_config
    draw_table(
        table,
        hide_index=True,
        key="devices-table",
        height=table_height(min(len(table), 8)),
        column_config={
            **{name: column.TextColumn(width=text_width(table[name])) for name in ("Device", "Named")},
            **{name: column.NumberColumn(width=_COUNT_PX) for name in ("Ended", "Waiting", "Faults")},
        },
    )
    if len(table) < count:
        st.caption(f"{len(table)} of {count} devices.")
    now = [*running_now(Workspace(root))] or ["No sweep runs in this workspace now, as far as this computer knows"]
    st.text(line(f"{'; '.join(now)}."))
    st.caption(
        "Away is what a run missed. Whether a device that waits is plugged in now, only asking it can tell: "
        "`edgesweep devices`; a lab's hosts, their health and leases stand below where a lab is known (`--lab`)."
    )


def _use(device: KnownDevice | None, record: DeviceRecord | None, process: int | None, away: AwayDevices) -> None:
    st.subheader("Who uses it", anchor=False)
    quarantine = record.quarantine if record else None
    if quarantine is not None:
        st.warning("It is quarantined: sweeps leave it alone.", icon=":material/block:")
        st.text(line(f"{quarantine.text}; {quarantine.way_out}"))
    else:
        st.text("It is not quarantined.")
    if device is None:
        return
    st.text(f"It is at: {device_rows.host_of(device.facts)}")
    name = device.facts.name
    if missed := away.text(name):
        st.text(missed)
    if process is not None:
        st.text(f"Process {process} of this computer measures on it.")
    elif name.startswith("adb:"):
        st.text("No process of this computer measures on it.")
    elif name.startswith("host:"):
        st.text("Its host lends it to one sweep at a time. Who has it now: ask the hosts below, or edgesweep hosts")
    elif name.startswith("ssh:"):
        st.text("The board itself keeps who measures on it. Who has it now: edgesweep devices")


def _faults(record: DeviceRecord | None) -> None:
    st.subheader("Faults", anchor=False)
    if record is None or not record.faults:
        st.text("None of its own is remembered.")
        return
    for fault in reversed(record.faults):
        at = datetime.fromtimestamp(fault.at_s, UTC)
        st.text(line(f"{at:%Y-%m-%d %H:%M} UTC, {fault.kind}: {fault.message}"))


def _history(now: Source, device: KnownDevice) -> None:
    st.subheader("How fast it was over time", anchor=False)
    sentinels = history_cache.sentinels(now, device.facts.device_id)
    if not sentinels:
        st.text("The sentinel has not looked at it yet: whether its speed changed is not known.")
        return
    charts = _charts(now, device.facts.device_id, palette())
    for number, (sentinel, chart) in enumerate(zip(sentinels, charts, strict=True)):
        with st.container(border=True, key=f"history-{number}"):
            st.vega_lite_chart(chart, key=f"sentinel-{number}", width="stretch")
            st.text(" ".join(device_rows.health(sentinel)))
    st.caption(
        "Each point is one look: a process with a small model of EdgeSweep's own. Dashed: their median. Pink: while "
        "the device changed its speed for good. Looks with another runtime or OS have a chart of their own."
    )


@st.cache_resource(max_entries=64, show_spinner=False)
def _charts(now: Source, device_id: str, look: Palette) -> list[Spec]:
    """Return the charts of a device's sentinels. They are cached for all sessions: never change them."""
    pairs = [job_rows.sentinel_rows(sentinel) for sentinel in history_cache.sentinels(now, device_id)]
    return [drawing.sentinel(looks, changed, look) for looks, changed in pairs]


def _measured(verdicts: list[PlaceVerdict]) -> None:
    with st.container(gap="small", key="measured-there"):
        _places(verdicts)


def _places(verdicts: list[PlaceVerdict]) -> None:
    st.subheader("What was measured there", anchor=False)
    if not verdicts:
        st.text("Nothing yet.")
    by_place = device_rows.places(verdicts)
    for parts in by_place[:MOST_PLACES]:
        verdict, states = parts[0], " and ".join(dict.fromkeys(_STATES[part.state] for part in parts))
        with st.container(horizontal=True, gap="medium", vertical_alignment="center"):
            counts = (
                f"{verdict.finished} ended, {verdict.waiting} wait" if verdict.waiting else f"{verdict.finished} ended"
            )
            st.markdown(f"{words(verdict.sweep)} · {words(verdict.model)}: {states}, {counts}")
            where = {"sweep": verdict.sweep, "device": verdict.device_id, "model": verdict.model}
            if verdict.finished:
                link("decide", "Decide", icon=":material/verified:", **where)
                link("result", "Results", icon=":material/science:", **where, job=verdict.job_key or None)
    if len(by_place) > MOST_PLACES:
        st.caption(f"{len(by_place) - MOST_PLACES} more: choose their sweep on the other pages.")
