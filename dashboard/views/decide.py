"""Decide: what to ship on one device, and how sure that is."""

from collections import Counter
from contextlib import suppress
from pathlib import Path

import streamlit as st

from dashboard import data
from dashboard.data import Ranked
from dashboard.inert import inert, line
from dashboard.views import registry as views
from sweeps.errors import EdgeSweepError
from sweeps.quarantine import QuarantineBook
from sweeps.ranking.values import DeviceRanking
from sweeps.results import ComparisonConditions, SweepInfo
from sweeps.spec.entries import ViewEntry
from sweeps.workspace import Workspace


def show(root: Path) -> None:
    """Draw the page."""
    _header()
    _page(Workspace(root).tracking_uri, root)


def _header() -> None:
    title, refresh = st.columns([6, 1], vertical_alignment="bottom")
    with title:
        st.title("EdgeSweep", anchor=False)
        st.caption("Which build of my model do I ship on which phone, and how sure are we?")
    with refresh:
        if st.button("Refresh", icon=":material/refresh:", help="Read the store again.", width="stretch"):
            data.forget()


def _page(tracking_uri: str, root: Path) -> None:
    found = data.sweeps(tracking_uri)
    if not found:
        st.info("No sweep has been recorded in this workspace yet.", icon=":material/inbox:")
        st.text(f"Workspace: {line(str(root))}")
        st.text("Next step: run `edgesweep demo`, or `edgesweep run sweep.yaml`, then refresh this page.")
        return
    choices = st.columns([2, 2, 2], gap="medium")
    with choices[0]:
        info = _choose_sweep(found)
    if (lag := data.lag(str(root), info.name)) is not None and lag.jobs:
        st.caption(f":material/schedule: {lag.text}.")
    ranked = data.ranked(tracking_uri, info.name, info.updated)
    device = _choose_device(ranked, choices[1:])
    if device is None:
        st.info("This sweep has no finished job yet.", icon=":material/hourglass_empty:")
        st.text("Next step: wait for its first results, then refresh this page.")
        return
    st.caption(
        f"Preset {inert(device.conditions.preset)} · runtime {inert(device.conditions.runtime_version)} · "
        f"{inert(_readiness(device.conditions))} · "
        f"device fingerprint {inert(device.fingerprint)} · updated {info.updated:%Y-%m-%d %H:%M} UTC"
    )
    _warn_of_quarantine(device)
    views.draw_view(_choose_view(), ranked, device)


def _warn_of_quarantine(device: DeviceRanking) -> None:
    """Of the user whose dashboard this is: sweeps that others run may use the device."""
    with suppress(EdgeSweepError):
        kept_out = QuarantineBook().quarantine(device.device_id)
        if kept_out is not None:
            st.warning("This device is quarantined: sweeps leave it alone.", icon=":material/block:")
            st.text(line(f"{kept_out.text}; {kept_out.way_out}"))


def _choose_sweep(found: list[SweepInfo]) -> SweepInfo:
    names = [info.name for info in found]
    chosen = st.selectbox("Sweep", names, format_func=line, key="sweep")
    return found[names.index(chosen) if chosen in names else 0]


def _choose_device(ranked: Ranked, places: list[st.delta_generator.DeltaGenerator]) -> DeviceRanking | None:
    """Choose one ranking: by device, then by model, then by conditions if there are several."""
    rankings, sweep = ranked.ranking.devices, ranked.results.name
    if not rankings:
        return None
    classes = {ranking.device_id: ranking.device for ranking in rankings}
    units = Counter(classes.values())
    names = {key: name if units[name] == 1 else f"{name} · {key}" for key, name in classes.items()}
    with places[0]:
        device_id = st.selectbox(
            "Device", list(names), format_func=lambda key: line(names[key]), key=f"device of {sweep}"
        )
    here = [ranking for ranking in rankings if ranking.device_id == device_id]
    models = list(dict.fromkeys(ranking.model for ranking in here))
    with places[1]:
        model = st.selectbox("Model", models, format_func=line, key=f"model of {sweep}", disabled=len(models) == 1)
    here = [ranking for ranking in here if ranking.model == model]
    if len(here) == 1:
        return here[0]
    conditions = [_conditions(ranking) for ranking in here]
    chosen = st.selectbox(
        "Conditions (only comparable results are ranked together)", conditions, key=f"conditions of {sweep}"
    )
    return here[conditions.index(chosen) if chosen in conditions else 0]


def _choose_view() -> ViewEntry:
    """Choose a view. There is only one, unless another package adds more."""
    offered = views.every()
    if len(offered) == 1:
        return offered[0]
    titles = [view.title for view in offered]
    chosen = st.radio("View", titles, format_func=line, key="view", horizontal=True)
    return offered[titles.index(chosen) if chosen in titles else 0]


def _conditions(ranking: DeviceRanking) -> str:
    found = ranking.conditions
    return line(
        f"preset {found.preset}, runtime {found.runtime_version}, {found.exec_context}, {_readiness(found)}, "
        f"fingerprint {ranking.fingerprint}"
    )


def _readiness(found: ComparisonConditions) -> str:
    mode = f", fixed performance {found.fixed_performance}" if found.fixed_performance else ""
    return ("waited for a ready device" if found.gate == "gated" else "no gate") + mode
