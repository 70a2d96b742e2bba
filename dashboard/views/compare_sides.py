"""What Compare compares: the choice of both sides."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import streamlit as st

from dashboard import compare_rows, data, state
from dashboard.evidence import Side
from dashboard.inert import line, words
from dashboard.source import Source
from dashboard.words import build_names, device_names
from sweeps.journal.result_place import Place
from sweeps.results import ResultRow

FEW = 24
"""So many devices are listed, and those that are chosen."""
EVERY = "\0every"
"""In a box of devices: what lists all of them. No id has this character."""


def suggested(now: Source, root: Path) -> tuple[Side | None, Side | None]:
    """Where the URL names no sides: the best two of the device and model that it names, or of the first with two."""
    wanted = (state.asked("sweep"), state.asked("device"), state.asked("model"))
    verdicts = sorted(
        (one for one in data.verdicts(now, root) if one.ranked),
        key=lambda one: (-sum(one[place] == text for place, text in enumerate(wanted)), -min(one.ranked, 2)),
    )
    if not verdicts:
        return None, None
    place = Place(verdicts[0].sweep, verdicts[0].device_id, verdicts[0].model)
    best = sorted(_timed(now, place), key=lambda row: row.metrics["latency_p50_ms"])
    keys = [row.job_key for row in best if row.job_key != verdicts[0].job_key]
    first = verdicts[0].job_key or (keys.pop(0) if keys else "")
    second = keys[0] if keys else first
    if state.asked("a") is None and state.asked("b") == compare_rows.side_text(place.sweep, first):
        first, second = second, first
    return Side(place, first), Side(place, second)


def _timed(now: Source, place: Place) -> list[ResultRow]:
    return [row for row in data.place_rows(now, place) if row.outcome == "measured" and row.timed]


def choose(letter: str, now: Source, root: Path, suggested: Side | None, *, is_back: bool) -> Side | None:
    """Select boxes, whose choice is one parameter of the URL. `is_back`: the URL asks for nothing."""
    wanted = state.asked(letter)
    keys = [f"{letter} {name}" for name in ("sweep", "device", "model", "job", "date")]
    if wanted is not None and wanted != st.session_state.get(f"compared {letter}"):
        found = _of_url(now, root, wanted)
        if found is None:
            st.warning("The address of this page asks for something that is not here.", icon=":material/link_off:")
            st.text(f"{letter}: {line(wanted[:200])}")
        suggested = found or suggested
        for key in keys:
            st.session_state.pop(key, None)
    elif is_back and keys[0] not in st.session_state:
        # Back on this page, from its menu: as it was left.
        suggested = _of_url(now, root, st.session_state.get(f"compared {letter}", "")) or suggested
    start = suggested if suggested is not None else Side(Place("", "", ""), "")
    side = letter.upper()
    known = {one.name: f"{one.name} · {one.updated:%Y-%m-%d}" for one in data.sweeps(now)}
    sweep = _box(f"{side}: sweep", list(known), keys[0], start.place.sweep, known.get)
    there = data.places(now, root, sweep)
    if not there.devices:
        return None
    names = device_names(there.devices)
    device = _device(side, there.models, keys[1], start.place.place_id, names)
    models = list(there.models[device])
    several = len({model for here in there.models.values() for model in here}) > 1
    model = _box(f"{side}: model", models, keys[2], start.place.model, str) if several else models[0]
    place = Place(sweep, device, model)
    timed = {row.job_key: row for row in _timed(now, place)}
    if not timed:
        st.text("Nothing is timed there yet.")
        return None
    called = build_names(data.place_rows(now, place))
    job_key = _box(f"{side}: variant", list(timed), keys[3], start.job_key, called.get)
    with st.container(key=state.selected(side, place, job_key)):  # the box cuts it where it is narrow
        st.caption(words(called[job_key]))
    session = _date(side, timed[job_key], keys[4], start.session)
    text = compare_rows.side_text(sweep, job_key, session)
    state.put(letter, text)
    st.session_state[f"compared {letter}"] = text
    return Side(place, job_key, session)


def _device(side: str, there: Collection[str], key: str, start: str, names: Mapping[str, str]) -> str:
    """Of many devices the box has a few, and an entry that lists them all: twice some hundred names are what a first
    view of this page would mostly send. `names`: by id."""
    everything = f"{key}: all are listed"
    if st.session_state.get(key) == EVERY:
        st.session_state[everything] = True
        st.session_state[key] = st.session_state.get(f"{key}: before")
    ids = list(there)
    known = _begin(ids, key, start)
    st.session_state[f"{key}: before"] = known
    chosen = {known, *(st.session_state.get(one) for one in ("a device", "b device"))}
    few = [one for number, one in enumerate(ids) if number < FEW or one in chosen]
    is_short = len(ids) > len(few) and everything not in st.session_state
    entry = f"All {len(ids)} devices …"
    options = [*few, EVERY] if is_short else ids
    device = str(state.box(f"{side}: device", options, key, lambda one: names.get(one, entry)))
    if is_short:
        st.caption(f"{len(few)} of {len(ids)} devices: choose “{entry}” to search them.")
    return device


def _date(side: str, row: ResultRow, key: str, start: int) -> int:
    """Which of its sessions counts; 0: all of them, as where it has only one."""
    known = compare_rows.sessions(row)
    if len(known) < 2:
        return 0

    def shown(session: int) -> str:
        blocks = known.get(session, sum(known.values()))
        when = compare_rows.session_text(session) if session else f"all {len(known)} dates"
        return f"{when} ({blocks} block{'s' * (blocks != 1)})"

    return int(_box(f"{side}: measured", [0, *(one for one in known if one)], key, start, shown))


def _box(label: str, options: Any, key: str, start: Any, shown: Any) -> Any:
    _begin(options, key, start)
    return state.box(label, options, key, lambda one: line(str(shown(one))))


def _begin(options: Any, key: str, start: Any) -> Any:
    """What is chosen; at first `start`, if it is one of the options."""
    if st.session_state.get(key) not in options:
        st.session_state[key] = start if start in options else options[0]
    return st.session_state[key]


def _of_url(now: Source, root: Path, text: str) -> Side | None:
    sweep, job_key, wanted = compare_rows.side_of(text)
    found = data.some_rows(now, sweep, (job_key,)).get(job_key)
    if found is None:
        return None
    having = [device for device, models in data.places(now, root, sweep).models.items() if found.model in models]
    for place in (Place(sweep, device, found.model) for device in having):
        row = next((one for one in _timed(now, place) if one.job_key == job_key), None)
        if row is not None:
            sessions = {str(one): one for one in compare_rows.sessions(row)} if wanted else {"": 0}
            return Side(place, job_key, sessions[wanted]) if wanted in sessions else None
    return None
