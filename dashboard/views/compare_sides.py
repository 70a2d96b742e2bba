"""The choice of the two sides on the page Compare."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import streamlit as st

from dashboard import compare_rows, data, state
from dashboard.history_cache import Side
from dashboard.markdown_escape import line, words
from dashboard.source import Source
from dashboard.words import build_names, device_names
from sweeps.journal.result_place import Place
from sweeps.results import ResultRow

FEW = 24
"""Number of devices that a box lists at first, besides those that are chosen."""
EVERY = "\0every"
"""Option of a box of devices that lists all devices. No device id has its first character."""


def suggested(now: Source, root: Path) -> tuple[Side | None, Side | None]:
    """Return the sides to compare if the URL names none: the two best results of the place that fits the URL's sweep,
    device and model best, and that has two results if possible."""
    in_url = (state.url_value("sweep"), state.url_value("device"), state.url_value("model"))
    verdicts = sorted(
        (verdict for verdict in data.verdicts(now, root) if verdict.ranked),
        key=lambda verdict: (
            -sum(verdict[place] == text for place, text in enumerate(in_url)),
            -min(verdict.ranked, 2),
        ),
    )
    if not verdicts:
        return None, None
    place = Place(verdicts[0].sweep, verdicts[0].device_id, verdicts[0].model)
    best = sorted(_timed(now, place), key=lambda row: row.metrics["latency_p50_ms"])
    keys = [row.job_key for row in best if row.job_key != verdicts[0].job_key]
    first = verdicts[0].job_key or (keys.pop(0) if keys else "")
    second = keys[0] if keys else first
    if state.url_value("a") is None and state.url_value("b") == compare_rows.side_text(place.sweep, first):
        first, second = second, first
    return Side(place, first), Side(place, second)


def _timed(now: Source, place: Place) -> list[ResultRow]:
    return [row for row in data.place_rows(now, place) if row.outcome == "measured" and row.timed]


def choose(letter: str, now: Source, root: Path, suggested: Side | None, *, is_back: bool) -> Side | None:
    """Draw the select boxes of one side and return the side, which is one URL parameter. `suggested`: the first choice.
    `is_back`: the URL has no parameters, because the user came back by the menu."""
    in_url = state.url_value(letter)
    keys = [f"{letter} {name}" for name in ("sweep", "device", "model", "job", "date")]
    if in_url is not None and in_url != st.session_state.get(f"compared {letter}"):
        side_of_url = _of_url(now, root, in_url)
        if side_of_url is None:
            st.warning("The address of this page asks for something that is not here.", icon=":material/link_off:")
            st.text(f"{letter}: {line(in_url[:200])}")
        suggested = side_of_url or suggested
        for key in keys:
            st.session_state.pop(key, None)
    elif is_back and keys[0] not in st.session_state:
        # The page restores the choice that it had when the user left it by the menu.
        suggested = _of_url(now, root, st.session_state.get(f"compared {letter}", "")) or suggested
    start = suggested if suggested is not None else Side(Place("", "", ""), "")
    side = letter.upper()
    titles = {row.name: f"{row.name} · {row.updated:%Y-%m-%d}" for row in data.sweeps(now)}
    sweep = _box(f"{side}: sweep", list(titles), keys[0], start.place.sweep, titles.get)
    places = data.places(now, root, sweep)
    if not places.devices:
        return None
    names = device_names(places.devices)
    device = _device(side, places.models, keys[1], start.place.place_id, names)
    models = list(places.models[device])
    several = len({model for by_model in places.models.values() for model in by_model}) > 1
    model = _box(f"{side}: model", models, keys[2], start.place.model, str) if several else models[0]
    place = Place(sweep, device, model)
    timed = {row.job_key: row for row in _timed(now, place)}
    if not timed:
        st.text("Nothing is timed there yet.")
        return None
    called = build_names(data.place_rows(now, place))
    job_key = _box(f"{side}: variant", list(timed), keys[3], start.job_key, called.get)
    with st.container(key=state.selected(side, place, job_key)):  # a narrow box cuts the name
        st.caption(words(called[job_key]))
    session = _date(side, timed[job_key], keys[4], start.session)
    text = compare_rows.side_text(sweep, job_key, session)
    state.put(letter, text)
    st.session_state[f"compared {letter}"] = text
    return Side(place, job_key, session)


def _device(side: str, devices: Collection[str], key: str, start: str, names: Mapping[str, str]) -> str:
    """Draw a box of devices and return the chosen id. A box of many devices lists only a few of them and an option that
    lists all, because otherwise the first view of this page would send hundreds of names, twice. `names`: display names
    by id."""
    everything = f"{key}: all are listed"
    if st.session_state.get(key) == EVERY:
        st.session_state[everything] = True
        st.session_state[key] = st.session_state.get(f"{key}: before")
    ids = list(devices)
    current = _begin(ids, key, start)
    st.session_state[f"{key}: before"] = current
    chosen = {current, *(st.session_state.get(box) for box in ("a device", "b device"))}
    few = [device_id for number, device_id in enumerate(ids) if number < FEW or device_id in chosen]
    is_short = len(ids) > len(few) and everything not in st.session_state
    entry = f"All {len(ids)} devices …"
    options = [*few, EVERY] if is_short else ids
    device = str(state.box(f"{side}: device", options, key, lambda device_id: names.get(device_id, entry)))
    if is_short:
        st.caption(f"{len(few)} of {len(ids)} devices: choose “{entry}” to search them.")
    return device


def _date(side: str, row: ResultRow, key: str, start: int) -> int:
    """Draw a box of a result's sessions and return the start of the chosen one; 0 means all sessions, also if the
    result has only one."""
    sessions = compare_rows.sessions(row)
    if len(sessions) < 2:
        return 0

    def shown(session: int) -> str:
        blocks = sessions.get(session, sum(sessions.values()))
        when = compare_rows.session_text(session) if session else f"all {len(sessions)} dates"
        return f"{when} ({blocks} block{'s' * (blocks != 1)})"

    return int(_box(f"{side}: measured", [0, *(session for session in sessions if session)], key, start, shown))


def _box(label: str, options: Any, key: str, start: Any, shown: Any) -> Any:
    _begin(options, key, start)
    return state.box(label, options, key, lambda option: line(str(shown(option))))


def _begin(options: Any, key: str, start: Any) -> Any:
    """Return the chosen option; at first `start`, if it is one of the options, otherwise the first one."""
    if st.session_state.get(key) not in options:
        st.session_state[key] = start if start in options else options[0]
    return st.session_state[key]


def _of_url(now: Source, root: Path, text: str) -> Side | None:
    sweep, job_key, date = compare_rows.side_of(text)
    stored = data.some_rows(now, sweep, (job_key,)).get(job_key)
    if stored is None:
        return None
    having = [device for device, models in data.places(now, root, sweep).models.items() if stored.model in models]
    for place in (Place(sweep, device, stored.model) for device in having):
        row = next((timed for timed in _timed(now, place) if timed.job_key == job_key), None)
        if row is not None:
            sessions = {str(session): session for session in compare_rows.sessions(row)} if date else {"": 0}
            return Side(place, job_key, sessions[date]) if date in sessions else None
    return None
