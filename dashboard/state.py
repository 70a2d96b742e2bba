"""The state of a page, kept in its URL, so that people can send a link to what they see. Values from a URL are never
trusted."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import streamlit as st

from dashboard.markdown_escape import line, words
from dashboard.style import hidden_but, hidden_unless, hidden_unless_pressed
from sweeps.text import digits


def chosen(
    name: str,
    label: str,
    options: Sequence[str],
    shown: Callable[[str], str] = line,
    *,
    default: str | None = None,
    usual: str | None = None,
) -> str:
    """Draw a select box and return its value, which is the URL parameter `name` and stays chosen on other pages.

    `options` (at least one): the values as in the URL; `shown` returns their display text. For any other value in the
    URL, a warning is drawn, and the `default` or the first option is chosen. With `usual`, that option is not written
    into the URL, and a choice is dropped when another option becomes the usual one or another page is shown.
    """
    # Streamlit drops the value of a box that was not drawn.
    is_new = _key(name) not in st.session_state or st.session_state.get(_default(name)) != usual
    if usual is not None and url_value(name) is None and is_new:
        st.session_state[_key(name)] = usual
    st.session_state[_default(name)] = usual
    value = _begin(name, options, usual or default)
    box(label, options, _key(name), shown)
    return _end(name, st.session_state.get(_key(name), value), options, value, usual)


def box(label: str, options: Sequence[Any], key: str, shown: Callable[[Any], str]) -> Any:
    """Draw a select box and return its value. Containers that belong to the selection (`selected`) are hidden while the
    box in the browser shows another option than the one they were drawn for.

    No two boxes of a page may have the same label.
    """
    value = st.selectbox(label, options, key=key, format_func=shown, disabled=len(options) == 1)
    st.session_state.setdefault(_BOXES, {})[label] = hidden_unless(label, shown(value))
    return value


@contextmanager
def boxes_tied() -> Iterator[None]:
    """Draw a page in the `with` block. The style rules of its boxes are written last: until then, content of an earlier
    selection stays hidden; afterwards only content of this run is visible."""
    st.session_state[_BOXES], st.session_state[_SELECTED] = {}, []
    yield
    rules = [rule for rule in st.session_state[_BOXES].values() if rule]
    if keys := st.session_state[_SELECTED]:
        rules.append(hidden_but(keys))
    if rules:
        st.html("<style>{}</style>".format("\n".join(rules)))


def selected(*parts: object) -> str:
    """Return the key of a container whose content belongs to a selection, identified by `parts`, so that content of
    another selection is never visible in it."""
    key = f"now-{hashlib.sha256(repr(parts).encode()).hexdigest()[:12]}"
    st.session_state.setdefault(_SELECTED, []).append(key)
    return key


def segment(name: str, label: str, options: Sequence[str], shown: Callable[[str], str] = words) -> str:
    """Draw a row of buttons for a few options and return the pressed option, which is kept as by `chosen`. `shown`
    returns Markdown."""
    value = _begin(name, options, None)
    st.pills(label, options, key=_key(name), format_func=shown, required=True, wrap=True)
    value = _end(name, st.session_state.get(_key(name)) or value, options, value)
    st.session_state.setdefault(_BOXES, {})[label] = hidden_unless_pressed(_key(name), options.index(value))
    return value


def switch(name: str, label: str) -> bool:
    """Draw a toggle and return its state. It is on if the URL has the parameter `name`."""
    in_url, key = url_value(name), _key(name)
    if in_url != st.session_state.get(_last_in_url(name)) or key not in st.session_state:
        st.session_state[key] = in_url is not None
    is_on = st.toggle(label, key=key)
    put(name, ON if is_on else None)
    return is_on


def url_value(name: str) -> str | None:
    """Return the value of a URL parameter, unchecked."""
    return st.query_params.get(name)


def put(name: str, value: str | None) -> None:
    """Write a parameter into the URL, or remove it if `value` is `None`."""
    if value is None:
        st.query_params.pop(name, None)
    elif st.query_params.get(name) != value:
        st.query_params[name] = value
    st.session_state[_last_in_url(name)] = value


def _begin(name: str, options: Sequence[str], default: str | None) -> str:
    """Set and return the value of a widget: a new value in the URL comes first, then the widget's value, then the last
    value in the URL, then the default."""
    in_url, before, key = url_value(name), st.session_state.get(_last_in_url(name)), _key(name)
    if in_url is not None and in_url not in options:
        st.warning("The address of this page asks for something that is not here.", icon=":material/link_off:")
        st.text(f"{line(name)}: {line(in_url[:200])}")
    if in_url in options and (in_url != before or key not in st.session_state):
        st.session_state[key] = in_url
    elif st.session_state.get(key) not in options:
        st.session_state[key] = next(option for option in (before, default, options[0]) if option in options)
    return str(st.session_state[key])


def _end(name: str, value: str, options: Sequence[str], before: str, usual: str | None = None) -> str:
    value = value if value in options else before
    put(name, None if value == usual else value)
    return value


def _key(name: str) -> str:
    return f"chosen {name}"


def _last_in_url(name: str) -> str:
    return f"in the URL {name}"


def text(name: str, label: str, placeholder: str, *, forgets: tuple[str, ...] = ()) -> str:
    """Draw a text field and return its value, which is the URL parameter `name`. When the text changes, the parameters
    in `forgets` are reset."""
    in_url, key = url_value(name), _key(name)
    if in_url != st.session_state.get(_last_in_url(name)) or key not in st.session_state:
        st.session_state[key] = (in_url or "")[:MOST_CHARACTERS]
    value = st.text_input(label, key=key, placeholder=placeholder, on_change=forget, args=forgets)
    st.session_state.setdefault(_BOXES, {})[label] = hidden_unless(label, value)
    put(name, value[:MOST_CHARACTERS] or None)
    return value[:MOST_CHARACTERS]


def number(name: str, label: str, default: float | None) -> float | None:
    """Draw a field for a number of at least 0 and return its value, which is the URL parameter `name`; `None` if the
    field is empty.

    The URL has only a value that differs from the `default`; there `none` means an empty field. It is a text field,
    because only for text fields the browser exposes what is being typed, and because the typed digits are kept. Its
    length has no limit, because Streamlit would show the limit in the same place as the hint that a text was not
    entered yet.
    """
    in_url, key = url_value(name), _key(name)
    value = default if in_url is None else _number(in_url)
    if in_url is not None and value is None and in_url != NO_NUMBER:
        st.warning("The address of this page asks for something that is no number.", icon=":material/link_off:")
        st.text(f"{line(name)}: {line(in_url[:200])}")
        value = default
    if in_url != st.session_state.get(_last_in_url(name)) or key not in st.session_state:
        st.session_state[key] = _digits(value)
    # The field shows the default of another place, so it gets the present default.
    elif in_url is None and st.session_state.get(_default(name)) != default:
        st.session_state[key] = _digits(default)
    st.session_state[_default(name)] = default
    text = st.text_input(label, key=key, placeholder="no limit", on_change=_entered, args=(name,), autocomplete="off")
    if refused := st.session_state.pop(_refused(name), None):
        st.warning("That is no number of at least 0. Write it like 0.27, or nothing for no limit.")
        st.text(line(refused[:MOST_CHARACTERS]))
    value = _number(text)
    st.session_state[_entry(name)] = text
    st.session_state.setdefault(_BOXES, {})[label] = hidden_unless(label, text)
    put(name, None if value == default else NO_NUMBER if value is None else _digits(value))
    return value


def _entered(name: str) -> None:
    """Accept the entered text; if it is no number, restore the field's former text."""
    text = str(st.session_state[_key(name)])
    value = _number(text)
    if value is None and text.strip():
        st.session_state[_refused(name)] = text
        st.session_state[_key(name)] = st.session_state.get(_entry(name), "")
    else:
        st.session_state[_key(name)] = _digits(value)


def forget(*names: str) -> None:
    """Remove parameters from the URL, and the values of their widgets."""
    for name in names:
        put(name, None)
        st.session_state.pop(_key(name), None)


_BOXES = "what the boxes of this page show"
"""Key in the session for the boxes' style rules, by label."""
_SELECTED = "what this run has drawn of a selection"
"""Key in the session for the keys of the containers that belong to a selection."""
ON = "1"
MOST_NUMBER = 1e9
MOST_CHARACTERS = 200
NO_NUMBER = "none"


def _number(text: str) -> float | None:
    """Parse a number; `None` if the text is no number that a field accepts."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 <= value <= MOST_NUMBER else None


def _digits(value: float | None) -> str:
    """Return the text of a number in a field; empty for `None`."""
    return "" if value is None else digits(value)


def _default(name: str) -> str:
    return f"default of {name}"


def _entry(name: str) -> str:
    return f"in the field {name}"


def _refused(name: str) -> str:
    return f"no number for {name}"
