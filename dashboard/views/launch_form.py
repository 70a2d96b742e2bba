"""The sweep file that Launch starts, and the form beside it: a change in either appears in the other."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import streamlit as st

from dashboard import state
from dashboard.markdown_escape import line, words
from dashboard.rights import role
from dashboard.roles import Role
from dashboard.sweep_address import of_address, to_address
from dashboard.sweep_form import (
    AXES,
    FIELDS,
    MORE,
    MOST_ROUNDS,
    PRESETS,
    SIDES,
    Shown,
    SweepForm,
    read,
    write,
)
from dashboard.views import launch_devices
from sweeps.report.explanations import meaning
from sweeps.spec import catalog
from sweeps.spec.grid import GridSpec
from sweeps.workspace import Workspace

TEXT = "launch file"
"""Key in the session for the sweep file's text, from which the form's values are computed."""
MOST_CHARACTERS = 65_536
NEW, KEPT, EXAMPLE = "new", "kept", "example"
_LEFT = "launch file as it was left"
"""Key in the session for a copy of the text, because Streamlit drops a widget's value while another page is shown."""
_BASE, _ASKED = "launch base", "launch asked"
"""Keys in the session for the file that the text began with, and for the fields in the page's URL."""
_EXAMPLES = Path(catalog.__file__).parents[1] / "specs"
_LABELS = {
    "name": "Name",
    "source": "Model: torchvision's name, or module:function",
    "arguments": "Its arguments",
    "weights": "Weights (or a checkpoint's path)",
    "side": "Input: pixels a side",
    "images": "Images (or a folder's path)",
    "precisions": "Precision",
    "layouts": "Layout",
    "backends": "Backend",
    "threads": "Threads",
    "runtimes": "Runtime",
    "quantizations": "How int8 is made",
    "qengines": "Kernels of int8",
    "granularities": "Scales of int8",
    "interfaces": "Inputs and outputs of int8",
    "captures": "How TorchScript is made",
    "formats": "File format",
    "preferences": "What NNAPI compiles for",
    "graph_optimizations": "What ONNX Runtime does to the graph",
    "cpus": "CPUs",
    "devices": "Devices (type any name)",
    "preset": "Protocol",
    "rounds": "Rounds, at least",
    "gate": "Before a block",
    "budget": "Budget (or minutes on each device)",
}
_PRESET_S = "as the protocol has it"
_GATES = {"": "Wait until the device is ready", "none": "Measure it as it is"}
_BUDGETS = {
    "": f"Rounds of all jobs: {_PRESET_S}",
    "full": "All rounds of all jobs",
    "race": "A race: who cannot win, leaves",
}


def begin(root: Path, may: Role) -> None:
    """Draw the choice of a file to begin with, and apply fields in the page's URL if they are new."""
    files = _files(root) if may >= Role.LAUNCH else {NEW: ("A new sweep", SweepForm().text())}
    chosen = state.chosen("file", "Begin with", list(files), lambda key: line(files[key][0]), default=NEW)
    text = st.session_state.get(TEXT, st.session_state.get(_LEFT))
    is_new = text is None or st.session_state.get(_BASE) != chosen or may < Role.LAUNCH
    if is_new:
        text = files[chosen][1]
    in_url = {name: text_in_url for name in FIELDS if (text_in_url := state.url_value(name)) is not None}
    if in_url != st.session_state.get(_ASKED):
        text = _as_asked(str(text), in_url)
    st.session_state[_BASE] = chosen
    st.session_state[TEXT] = st.session_state[_LEFT] = text
    _into_address(str(text), files[chosen][1])


def draw(root: Path, may: Role) -> None:
    """Draw the form. Each change is written into the file, whose other lines stay as they are."""
    text = st.session_state[TEXT]
    shown = read(text)
    off = may < Role.LAUNCH or shown is None
    if shown is None:
        st.caption("The file is not YAML: what is wrong stands below it. The form waits until it is corrected.")
        shown = Shown(SweepForm(), FIELDS, ())
    for name in FIELDS:
        value = getattr(shown.form, name)
        st.session_state[_key(name)] = list(value) if isinstance(value, tuple) else value
    if may >= Role.LAUNCH and not off:
        st.caption("A change here is written into the file beside; its other lines stay as they are.")
        if shown.hidden:
            names = ", ".join(_LABELS[name].partition(":")[0].partition(" (")[0].lower() for name in shown.hidden)
            st.caption(f"Only the file can show: {names}.")
        if shown.beside:
            st.caption(f"Also in the file: {', '.join(map(words, shown.beside))}.")
    hidden = frozenset(FIELDS) if off else frozenset(shown.hidden)
    for name in ("name", "source", "arguments"):
        st.text_input(_LABELS[name], max_chars=1000, **_common(name, hidden))
    _pick("weights", ("demo", "random", "pretrained"), hidden)
    st.number_input(_LABELS["side"], *SIDES, **_common("side", hidden))
    _pick("images", ("digits", "synthetic"), hidden)
    for name in (axis for axis in AXES if axis not in MORE):
        _axis(name, hidden)
    with st.expander("More axes", expanded=any(st.session_state[_key(name)] for name in MORE)):
        st.caption("Where nothing is chosen, an axis has its usual value.")
        for name in MORE:
            _axis(name, hidden)
    launch_devices.draw(root, may, st.session_state[_key("devices")], _LABELS["devices"], _common("devices", hidden))
    st.segmented_control(_LABELS["preset"], PRESETS, **_common("preset", hidden))
    more = ("rounds", "gate", "budget")
    with st.expander("More of the protocol", expanded=any(st.session_state[_key(name)] for name in more)):
        st.number_input(_LABELS["rounds"], 1, MOST_ROUNDS, placeholder=_PRESET_S, **_common("rounds", hidden))
        st.selectbox(_LABELS["gate"], tuple(_GATES), format_func=lambda gate: _GATES[gate], **_common("gate", hidden))
        _pick("budget", tuple(_BUDGETS), hidden, _budget_name)
        st.caption("Limits of the gate, times of a block and the rest: in the file.")


def draw_file(may: Role) -> str:
    """Draw the sweep file as a text area, and return its text."""
    st.text_area(
        "Sweep file",
        key=TEXT,
        height=520,
        max_chars=MOST_CHARACTERS,
        disabled=may < Role.LAUNCH,
        help="Edit it for all that the form lacks.",
    )
    if may < Role.LAUNCH:
        return SweepForm().text()  # a browser may send anything, and to check a file costs time
    st.session_state[_LEFT] = st.session_state[TEXT]
    return str(st.session_state[TEXT])


def _files(root: Path) -> dict[str, tuple[str, str]]:
    """Return the files that a sweep can begin with, by key: display name and text."""
    files = {NEW: ("A new sweep", SweepForm().text())}
    for kind, folder, about in (
        (KEPT, Workspace(root).launches, "started here"),
        (EXAMPLE, _EXAMPLES, "an example"),
    ):
        for file in sorted(folder.glob("*.yaml")):
            if not file.name.startswith(".") and (text := _text_of(file)) is not None:
                files[f"{kind}:{file.stem}"] = (f"{file.stem} ({about})", text)
    return files


def _text_of(file: Path) -> str | None:
    """Return the text of a file; `None` if it is too large for the page, or cannot be read."""
    try:
        text = file.read_text(encoding="utf-8") if file.stat().st_size <= MOST_CHARACTERS else None
    except (OSError, UnicodeDecodeError):
        return None
    return text


def _as_asked(text: str, in_url: dict[str, str]) -> str:
    """Return the file's text with the field values of the page's URL; for a value that its field cannot have, a warning
    is drawn."""
    for name, in_field in in_url.items():
        shown = read(text)
        try:
            value = of_address(name, in_field[:1000])
        except ValueError:
            st.warning("The address of this page asks for something that is not here.", icon=":material/link_off:")
            st.text(f"{line(name)}: {line(in_field[:200])}")
            continue
        if shown is not None and (name in shown.hidden or getattr(shown.form, name) != value):
            text = write(text, name, value)
    return text


def _into_address(text: str, base: str) -> None:
    """Write the fields that differ from the file that the text began with into the page's URL."""
    shown, begun = read(text), read(base)
    in_url: dict[str, str] = {}
    for name in FIELDS:
        value = None
        if shown is not None and begun is not None and name not in shown.hidden:
            value = getattr(shown.form, name)
            value = None if value == getattr(begun.form, name) else to_address(name, value)
        state.put(name, value)
        if value is not None:
            in_url[name] = value
    st.session_state[_ASKED] = in_url


def _axis(name: str, hidden: frozenset[str]) -> None:
    """Draw the values of an axis as buttons: the catalog's values, and further values that the file has."""
    axis = AXES[name]
    values = {"threads": (1, 2, 4, 8), "cpus": ("all", "big", "little")}.get(axis) or catalog.values(axis)
    usual = ", ".join(map(str, GridSpec.model_fields[axis].default))
    st.pills(
        _LABELS[name],
        list(dict.fromkeys([*values, *st.session_state[_key(name)]])),
        selection_mode="multi",
        format_func=lambda value: words(str(value)),
        help=f"{meaning(axis)}. Usually: {usual}.",
        **_common(name, hidden),
    )


def _pick(name: str, options: tuple[str, ...], hidden: frozenset[str], shown: Callable[[str], str] = line) -> None:
    own = st.session_state[_key(name)]
    every = list(dict.fromkeys([*options, own]))
    st.selectbox(_LABELS[name], every, accept_new_options=True, format_func=shown, **_common(name, hidden))


def _budget_name(budget: str) -> str:
    return _BUDGETS.get(budget) or line(f"{budget} minutes on each device")


def _common(name: str, hidden: frozenset[str]) -> dict[str, Any]:
    return {"key": _key(name), "disabled": name in hidden, "on_change": _write, "args": (name,)}


def _write(name: str) -> None:
    shown = read(st.session_state[TEXT])
    value = st.session_state[_key(name)]
    if role() < Role.LAUNCH or shown is None or name in shown.hidden:
        return  # a browser may send anything
    if name in ("weights", "images", "side", "gate") and value is None:
        return  # an emptied box: it shows again what the file has
    st.session_state[TEXT] = write(st.session_state[TEXT], name, value if value is not None else "")


def _key(name: str) -> str:
    return f"launch {name}"
