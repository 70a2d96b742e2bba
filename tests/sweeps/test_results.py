"""A result's name within the table of its device."""

from dataclasses import replace

import pytest


@pytest.mark.parametrize("device", ["", "adb:R5CT", "local"])
@pytest.mark.parametrize("words", ["", " · 2 threads", " · cpus 0-3 · reused input · local"])
def test_the_device_is_no_part_of_a_name_beside_its_own_device(records, device, words):
    name = f"net · cpu{words}{device and f' · {device}'}"
    row = replace(records.row(records.job(0)), name=name, device_word=device)
    assert row.name_here == f"net · cpu{words}"
    assert replace(row, device_word="").name_here == name
