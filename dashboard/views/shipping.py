"""What it costs to ship one, two or three builds of a model to all phones."""

import streamlit as st

from dashboard import data
from dashboard.data import Source
from dashboard.inert import words
from sweeps.ranking.shipping import Choice, Shipping

AT_ONCE = 24
"""Of so many phones it is computed without being asked for."""


def show(now: Source, sweep: str, model: str, places: tuple[str, ...]) -> None:
    """`places`: the devices of the model."""
    with st.container(border=True, key="shipping"):
        st.caption(f"If one build of {words(model)} has to do for all phones")
        if len(places) > AT_ONCE and not st.toggle(f"Compare the builds on all {len(places)} phones", key="ship-all"):
            return
        found = data.costs(now, sweep, model, places)
        if found.shipping is None:
            st.header("None may ship", anchor=False)
            st.text("No build may ship on any phone yet.")
            return
        first, *others = found.shipping.choices
        st.header(_named(first, found), anchor=False)
        st.markdown(_cost(first, found.shipping))
        for choice in others:
            st.markdown(
                f"With {len(choice.setups)} builds: **{_named(choice, found)}**. {_cost(choice, found.shipping)}"
            )
        if not others:
            st.markdown("More builds would not be faster anywhere.")
        if not found.shipping.is_exact:
            st.caption("Of the most promising builds only: there are too many to combine all of them.")


def _named(choice: Choice, found: data.Costs) -> str:
    return " and ".join(words(found.names[setup]) for setup in choice.setups)


def _cost(choice: Choice, plan: Shipping) -> str:
    all_of_them = "May ship on every phone" if choice.covers == plan.devices else "May ship on"
    where = f"{all_of_them} ({choice.covers} of {plan.devices})"
    if choice.worst < 1.005:
        return f"{where}, and no phone has a faster one that may."
    return f"{where}; at worst {choice.worst:.2f}× the time of that phone's own best, {choice.mean:.2f}× on average."
