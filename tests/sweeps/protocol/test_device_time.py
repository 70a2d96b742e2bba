"""The parts of a device's time are where it went."""

from dataclasses import replace

import pytest

from sweeps.protocol.device_time import Spent, spent


def test_the_parts_of_a_block_add_up_to_its_time(records):
    block = replace(records.block(records.job(0), 0, ms=5.0), device_seconds=3.0, samples_ns=(250_000_000,) * 4)
    waited = replace(block, conditions=replace(block.conditions, waited_seconds=7.0))
    time = spent([block, waited])
    assert time.timed_s == pytest.approx(2.0)
    assert time.warming_up_s == pytest.approx(2 * (0.009 + 0.05))
    assert time.loading_s == pytest.approx(2 * 0.02)
    assert time.measuring_s == pytest.approx(6.0)
    assert time.waiting_s == 7.0
    assert time.text == (
        "device time 6 s: 33 % timed iterations, 2 % warm-up, 1 % loading, 64 % starting processes; and 7 s of waiting"
    )


def test_a_stock_tool_does_not_report_its_load_and_no_part_is_below_zero(records):
    block = replace(records.block(records.job(0), 0), device_seconds=0.1, load_ns=None, first_inference_ns=None)
    time = spent([replace(block, samples_ns=(200_000_000,))])
    assert (time.loading_s, time.starting_s) == (0.0, 0.0)


def test_without_a_block_there_is_nothing_to_say():
    assert spent([]) == Spent()
    assert Spent().text == ""
    assert set(Spent().document().values()) == {0.0}


def test_pushes_and_accuracy_passes_are_parts_and_what_the_host_did_is_not(records):
    block = replace(records.block(records.job(0), 0), device_seconds=2.5, samples_ns=(500_000_000,), push_seconds=1.0)
    pass_on_phone = records.accuracy(records.job(0), device_seconds=1.25, push_seconds=0.25)
    on_host = records.accuracy(records.checked_job(1), device_seconds=40.0)
    time = spent([block], [pass_on_phone, on_host])
    assert (time.pushing_s, time.evaluating_s) == (1.25, 1.25)
    assert time.measuring_s == pytest.approx(5.0)
    assert time.timed_s == pytest.approx(0.5)
    assert time.text.endswith("starting processes, 25 % pushing files, 25 % accuracy; and 0 s of waiting")
    assert "pushing" not in spent([replace(block, push_seconds=0.0)]).text, "an old journal does not say"
