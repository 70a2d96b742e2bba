"""A result's name within the table of its device."""

from dataclasses import replace

import pytest

from sweeps.results import ResultRow
from sweeps.variant import RunAxes


@pytest.mark.parametrize("device", ["", " · adb:R5CT", " · local"])
@pytest.mark.parametrize(
    ("words", "changes"),
    [
        ("", {}),
        (" · 2 threads", {}),
        (" · 2 threads · big cpus · fresh input · local", {"grid": "local", "reuse_input": False}),
        (" · cpus 0-3 · reused input", {"cpus": "0-3", "reuse_input": True}),
        (" · local", {"grid": "local"}),
    ],
)
def test_the_device_is_no_part_of_a_name_beside_its_own_device(records, device, words, changes):
    job = records.job(0, run=RunAxes(threads=2, cpus="big"))
    row: ResultRow = replace(records.row(job), **changes)
    named = replace(row, name=f"{row.model} · {row.variant}{words}{device}")
    assert named.name_here == f"{row.model} · {row.variant}{words}"
    assert replace(row, name="of an older plan · adb:R5CT").name_here == "of an older plan · adb:R5CT"
