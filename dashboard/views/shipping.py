"""The box with the cost of shipping one, two or three builds of a model to all devices."""

from collections.abc import Mapping

import streamlit as st

from dashboard import fleet_data, state
from dashboard.markdown_escape import words
from dashboard.source import Source
from sweeps.ranking.shipping_costs import Choice

AT_ONCE = 24
"""Most devices for which the costs are computed without a switch."""
NAMED = 3
"""Most devices that are named of those where no chosen build may ship."""


def show(now: Source, sweep: str, model: str, places: Mapping[str, str]) -> None:
    """Draw the box. `places`: the display names of the model's devices, by id."""
    with st.container(border=True, key="shipping"):
        st.caption(f"If one build of {words(model)} has to do for all devices")
        if len(places) > AT_ONCE and not state.switch("ship", f"Compare the builds on all {len(places)} devices"):
            return
        costs = fleet_data.costs(now, sweep, model, tuple(places))
        if costs.shipping is None:
            st.header("None may ship", anchor=False)
            st.text("No build may ship on any device yet.")
            return
        first, *rest = costs.shipping.choices
        st.header(_named(first, costs), anchor=False)
        st.markdown(_cost(first, costs, places))
        for choice in rest:
            cost = _cost(choice, costs, places)
            st.markdown(f"With {len(choice.setups)} builds: **{_named(choice, costs)}**. {cost}")
        if not rest:
            st.markdown("More builds would not be faster anywhere.")
        if not costs.shipping.is_exact:
            st.caption("Of the most promising builds only: there are too many to combine all of them.")


def _named(choice: Choice, costs: fleet_data.Costs) -> str:
    return " and ".join(words(costs.names[setup]) for setup in choice.setups)


def _cost(choice: Choice, costs: fleet_data.Costs, places: Mapping[str, str]) -> str:
    without = [name for device, name in places.items() if not _ships(choice, costs, device)]
    where = f"May ship on every device ({choice.covers} of {len(places)})"
    if without:
        more = f" and {len(without) - NAMED} more" if len(without) > NAMED else ""
        named = ", ".join(words(name) for name in without[:NAMED])
        where = f"May ship on {choice.covers} of {len(places)} devices, not on {named}{more}"
    if choice.worst < 1.005:
        return f"{where}; no device of these has a faster one that may."
    worst = f"at worst {choice.worst:.2f}× the time of that device's own best (on {words(places[choice.worst_device])})"
    return f"{where}; {worst}, {choice.mean:.2f}× on average."


def _ships(choice: Choice, costs: fleet_data.Costs, device: str) -> bool:
    cells = costs.cells.get(device, {})
    return any((cell := cells.get(setup)) is not None and cell.state == "ships" for setup in choice.setups)
