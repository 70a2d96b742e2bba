"""The page Decide: what to ship on one device, and how sure that is."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import streamlit as st

from dashboard import data, state
from dashboard.markdown_escape import line, words
from dashboard.source import Source
from dashboard.views import empty, objective_sidebar, ranking, registry, watch
from dashboard.words import device_names
from sweeps.errors import EdgeSweepError
from sweeps.journal.result_place import Place
from sweeps.label_kinds import readiness
from sweeps.quarantine import QuarantineBook
from sweeps.ranking.values import DeviceRanking

RANKING = "Ranking"


def show(root: Path) -> None:
    """Draw the page."""
    now = data.source(root)
    if now is None or not now.plans:
        empty.show(root)
        return
    choices = st.container(horizontal=True, gap="medium", key="choices")
    with choices:
        sweep = state.chosen("sweep", "Sweep", [row.name for row in data.sweeps(now)])
        places = data.places(now, root, sweep)
        if not places.devices:
            st.info("This sweep has no jobs.", icon=":material/inbox:")
            return
    names = device_names(places.devices)
    with choices:
        device_id = state.chosen("device", "Device", list(names), lambda key: names.get(key, line(key)))
        model = state.chosen("model", "Model", list(places.models[device_id]))
    place = Place(sweep, device_id, model)
    chosen = objective_sidebar.choose(data.spec(now, sweep).objective)
    ranked = data.ranked(now, place, chosen)
    entries = ranked.ranking.devices
    part = 0
    if len(entries) > 1:
        sets = _sets(entries)
        part = int(
            state.chosen(
                "part",
                "Conditions (only comparable results are ranked together)",
                [str(number) for number in range(len(entries))],
                lambda number: sets[int(number)],
            )
        )
    # Streamlit keeps the content of a key until it is drawn again, so another place needs another key.
    with st.container(key=state.selected(place, part, chosen), gap="medium"):
        _warn_of_quarantine(device_id)
        if not entries:
            _nothing_yet(now, place, names[device_id])
            watch.awaited(root, now)
            return
        view = _choose_view()
        if view == RANKING:
            ranking.show(root, now, ranked, chosen, part)
        else:
            registry.draw_view(next(entry for entry in registry.views() if entry.title == view), ranked, entries[part])
        _measured(entries[part])


def _nothing_yet(now: Source, place: Place, device: str) -> None:
    waiting = data.waiting(now, place)
    with st.container(border=True, key="recommendation"):
        st.caption(f"Nothing is known yet of {words(device)}")
        st.header("Waiting", anchor=False)
        st.text(f"None of its {len(waiting)} jobs has a result. The first one is shown here once it ends.")
        for name in waiting[:5]:
            st.text(line(name))


def _warn_of_quarantine(device_id: str) -> None:
    """Draw a warning if the user who runs this dashboard has the device in quarantine; sweeps of other users may still
    use it."""
    with suppress(EdgeSweepError):
        kept_out = QuarantineBook().quarantine(device_id)
        if kept_out is not None:
            st.warning("This device is quarantined: sweeps leave it alone.", icon=":material/block:")
            st.text(line(f"{kept_out.text}; {kept_out.way_out}"))


def _choose_view() -> str:
    """Draw the choice of a view, if other packages add some, and return its title."""
    titles = [RANKING, *(view.title for view in registry.views())]
    if len(titles) == 1:
        return RANKING
    return state.chosen("view", "View", titles, usual=RANKING)


def _measured(device: DeviceRanking) -> None:
    with st.expander("How it was measured"):
        conditions = device.conditions
        st.text(
            line(
                f"preset {conditions.preset}, runtime {conditions.runtime_version}, {conditions.exec_context}, "
                f"{_readiness(device)}{_fixed(conditions.fixed_performance)}, fingerprint {device.fingerprint}"
            )
        )


def _sets(entries: Sequence[DeviceRanking]) -> list[str]:
    """Return a name for each set of conditions, composed of the conditions in which the sets differ; sets with equal
    names are numbered."""
    conditions = [entry.conditions for entry in entries]
    states = list(dict.fromkeys(entry.fingerprint for entry in entries))
    aspects: list[Sequence[str]] = [
        [f"protocol {each_set.preset}" for each_set in conditions],
        [f"runtime {each_set.runtime_version}" for each_set in conditions],
        [_readiness(entry) for entry in entries],
        [_fixed(each_set.fixed_performance).removeprefix(", ") or "usual performance" for each_set in conditions],
        [f"the device's state {states.index(entry.fingerprint) + 1}" for entry in entries],
        [f"programs run as {each_set.exec_context}" for each_set in conditions],
    ]
    differing = [words for words in aspects if len(set(words)) > 1]
    names = [", ".join(words[number] for words in differing) for number in range(len(entries))]
    return [line(name if names.count(name) == 1 else f"{number}. {name}") for number, name in enumerate(names, 1)]


def _readiness(device: DeviceRanking) -> str:
    return readiness(device.conditions.gate, {label for candidate in device.ranking for label in candidate.trust})


def _fixed(mode: str) -> str:
    return f", fixed performance {mode}" if mode else ""
