"""The ranking of a device class, with one winner for all its units."""

from collections.abc import Mapping
from pathlib import Path

import pandas as pd
import streamlit as st

from dashboard import data, rows, state
from dashboard.markdown_escape import NOTHING, inert, words
from dashboard.source import Source
from dashboard.views.tables import draw_table, table_height
from sweeps.journal.result_place import Place
from sweeps.ranking.device_classes import ClassRanking
from sweeps.ranking.values import DeviceRanking


def show_all(now: Source, root: Path, place: Place, device: DeviceRanking) -> None:
    """Draw the ranking of the device's class, if several of its units were measured; for many units only after a switch
    is turned on."""
    by_unit = data.places(now, root, place.sweep).models
    units = tuple(
        Place(place.sweep, unit, place.model)
        for unit, models in sorted(by_unit.items())
        if any(part.fingerprint == device.fingerprint for part in models.get(place.model, ()))
    )
    if len(units) < 2 or place not in units:
        return
    if len(units) > data.MOST_UNITS and not state.switch("class", f"Rank all {len(units)} units of this class"):
        return
    classes, names = data.device_class(now, place.sweep, units)
    for number, pooled in enumerate(classes):
        show(pooled, names, number)


def show(pooled: ClassRanking, names: Mapping[tuple[str, ...], str], number: int) -> None:
    """Draw the ranking of one class. `names`: names of the builds, by setup. `number`: the index of the class on the
    page."""
    st.subheader("All units of this class", anchor=False)
    st.caption(
        f"{len(pooled.units)} units of {inert(pooled.device)}, each a replicate: p50 divided by the class "
        "winner's, paired by round on each unit; the median over units."
    )
    if not pooled.winner:
        st.text("No variant may win on every unit.")
        return
    st.markdown(f"**Ship on all of them:** {words(names[pooled.entries[0].setup])}")
    table = rows.pooled(pooled, names)
    draw_table(
        pd.DataFrame(
            {
                "Rank": table["place"].replace("", NOTHING),
                "Variant": table["variant"],
                "Units": table["units"],
                "May win on": table["passes_on"],
                "× best of class": table["ratio"],
                "Between units": table["between_units"],
                "95 % interval": table["interval_text"],
            }
        ),
        hide_index=True,
        height=table_height(len(table)),
        key=f"class-table-{number}",
        column_config={"× best of class": st.column_config.NumberColumn(format="%.2f×")},
    )
    for text in pooled.in_batches:
        st.caption(inert(text))
