"""The state of a page, which is in its URL: a view can be sent, and what a URL asks for is never trusted."""

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
    """A select box whose value is the parameter `name` of the URL, and stays chosen on other pages.

    `options` (at least one) are what the URL has; `shown` makes their text for people. A URL that asks for anything
    else gets a line that says so, and the `default`, or the first option. The `usual` option is not in the URL, and
    what was chosen does not stay where another one is usual, nor while another page is shown.
    """
    # Streamlit forgets the value of a box that was not drawn.
    is_new = _key(name) not in st.session_state or st.session_state.get(_default(name)) != usual
    if usual is not None and asked(name) is None and is_new:
        st.session_state[_key(name)] = usual
    st.session_state[_default(name)] = usual
    value = _begin(name, options, usual or default)
    box(label, options, _key(name), shown)
    return _end(name, st.session_state.get(_key(name), value), options, value, usual)


def box(label: str, options: Sequence[Any], key: str, shown: Callable[[Any], str]) -> Any:
    """A select box. What belongs to a selection is hidden as long as the box shows another option than the chosen one.

    No two boxes of a page have the same label.
    """
    value = st.selectbox(label, options, key=key, format_func=shown, disabled=len(options) == 1)
    st.session_state.setdefault(_BOXES, {})[label] = hidden_unless(label, shown(value))
    return value


@contextmanager
def boxes_tied() -> Iterator[None]:
    """Draw a page in it. The styles of its boxes come last: until they are new, what was there before stays hidden.
    Once they are new, only what this run has drawn is seen."""
    st.session_state[_BOXES], st.session_state[_SELECTED] = {}, []
    yield
    rules = [rule for rule in st.session_state[_BOXES].values() if rule]
    if keys := st.session_state[_SELECTED]:
        rules.append(hidden_but(keys))
    if rules:
        st.html("<style>{}</style>".format("\n".join(rules)))


def selected(*parts: object) -> str:
    """The key of a container whose content belongs to a selection: never is that of another one seen in it."""
    key = f"now-{hashlib.sha256(repr(parts).encode()).hexdigest()[:12]}"
    st.session_state.setdefault(_SELECTED, []).append(key)
    return key


def segment(name: str, label: str, options: Sequence[str], shown: Callable[[str], str] = words) -> str:
    """A row of buttons for a few options, whose value is kept as that of `chosen`. `shown` makes Markdown."""
    value = _begin(name, options, None)
    st.pills(label, options, key=_key(name), format_func=shown, required=True, wrap=True)
    value = _end(name, st.session_state.get(_key(name)) or value, options, value)
    st.session_state.setdefault(_BOXES, {})[label] = hidden_unless_pressed(_key(name), options.index(value))
    return value


def switch(name: str, label: str) -> bool:
    """A toggle that is on where the URL has the parameter `name`."""
    in_url, key = asked(name), _key(name)
    if in_url != st.session_state.get(_last_in_url(name)) or key not in st.session_state:
        st.session_state[key] = in_url is not None
    is_on = st.toggle(label, key=key)
    put(name, ON if is_on else None)
    return is_on


def asked(name: str) -> str | None:
    """The value that the URL has, unchecked."""
    return st.query_params.get(name)


def put(name: str, value: str | None) -> None:
    """Write a parameter into the URL, or take it out."""
    if value is None:
        st.query_params.pop(name, None)
    elif st.query_params.get(name) != value:
        st.query_params[name] = value
    st.session_state[_last_in_url(name)] = value


def _begin(name: str, options: Sequence[str], default: str | None) -> str:
    """Let the URL decide where it is new, then what was chosen, then what was chosen on another page."""
    in_url, before, key = asked(name), st.session_state.get(_last_in_url(name)), _key(name)
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
    """A field for text whose value is the parameter `name` of the URL. What was chosen of `forgets` goes with the text
    that stood there."""
    in_url, key = asked(name), _key(name)
    if in_url != st.session_state.get(_last_in_url(name)) or key not in st.session_state:
        st.session_state[key] = (in_url or "")[:MOST_CHARACTERS]
    value = st.text_input(label, key=key, placeholder=placeholder, on_change=forget, args=forgets)
    st.session_state.setdefault(_BOXES, {})[label] = hidden_unless(label, value)
    put(name, value[:MOST_CHARACTERS] or None)
    return value[:MOST_CHARACTERS]


def number(name: str, label: str, default: float | None) -> float | None:
    """A field for a number of at least 0 whose value is the parameter `name` of the URL; `None` is no number.

    Only what is not the `default` is in the URL; there `none` is no number. It is a field for text: only of such a one
    the browser says what stands in it while somebody types, and its digits are those that count. Its length has no
    limit: that would be told beside it, as something is that was not entered.
    """
    in_url, key = asked(name), _key(name)
    value = default if in_url is None else _number(in_url)
    if in_url is not None and value is None and in_url != NO_NUMBER:
        st.warning("The address of this page asks for something that is no number.", icon=":material/link_off:")
        st.text(f"{line(name)}: {line(in_url[:200])}")
        value = default
    if in_url != st.session_state.get(_last_in_url(name)) or key not in st.session_state:
        st.session_state[key] = _digits(value)
    # The default of another place.
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
    """Text that is no number leaves the field as it was."""
    text = str(st.session_state[_key(name)])
    value = _number(text)
    if value is None and text.strip():
        st.session_state[_refused(name)] = text
        st.session_state[_key(name)] = st.session_state.get(_entry(name), "")
    else:
        st.session_state[_key(name)] = _digits(value)


def forget(*names: str) -> None:
    """Take parameters out of the URL, and what was chosen with them."""
    for name in names:
        put(name, None)
        st.session_state.pop(_key(name), None)


_BOXES = "what the boxes of this page show"
"""The boxes' rules of style, by label."""
_SELECTED = "what this run has drawn of a selection"
"""Keys of containers."""
ON = "1"
MOST_NUMBER = 1e9
MOST_CHARACTERS = 200
NO_NUMBER = "none"


def _number(text: str) -> float | None:
    """The number of the text; `None` if it is no number that a field takes."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 <= value <= MOST_NUMBER else None


def _digits(value: float | None) -> str:
    """The text of a number in a field."""
    return "" if value is None else digits(value)


def _default(name: str) -> str:
    return f"default of {name}"


def _entry(name: str) -> str:
    return f"in the field {name}"


def _refused(name: str) -> str:
    return f"no number for {name}"
