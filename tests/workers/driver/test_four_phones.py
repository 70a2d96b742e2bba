"""A sweep on all phones of a host, by the commands that users type: four virtual phones, one of them unplugged."""

import json
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner

from sweeps.cli.main import main
from sweeps.device_facts import VIRTUAL_PHONE
from sweeps.errors import StoreError
from sweeps.journal.journal import Journal
from tests.conftest import OWN_NET, OWN_NET_INPUTS
from tests.faulty_phone import FaultyPhone, faulty_phones
from workers.devices.adb.adb_host import AdbHost
from workers.driver.ladder import AwayWait
from workers.driver.sweep_driver import Driver

pytestmark = [pytest.mark.system, pytest.mark.compiler]

SWEEP = (
    f"name: four{OWN_NET_INPUTS}"
    + """\
grids:
  - {precision: [fp32], layout: [nchw, nhwc]}
devices: ["adb:*"]
protocol: {preset: quick, gate: none, min_seconds: 0.2}
objective: {constraints: []}
"""
)


@pytest.fixture
def phones(port: int, tmp_path: Path) -> Iterator[list[FaultyPhone]]:
    host = AdbHost(port)
    with faulty_phones(4, tmp_path / "phones") as phones:
        assert all(host.connect(phone.serial) for phone in phones)
        yield phones
        for phone in phones:
            host.disconnect(phone.serial)


def edgesweep(*arguments: object) -> str:
    """Run the command, and return its stdout."""
    ended = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert ended.exit_code == 0, ended.output
    return ended.stdout


def unplug_after_its_first_block(phone: FaultyPhone, journal: Path) -> None:
    deadline = time.monotonic() + 200
    while time.monotonic() < deadline:
        time.sleep(0.05)
        if not journal.exists():
            continue
        try:
            with Journal.open(journal, read_only=True) as reader:
                jobs = [job for job, _ in reader.jobs.of_sweep("four") if job.device_id == phone.serialno]
                if any(reader.attempts.blocks(job.key) for job in jobs):
                    phone.unplug()
                    return
        except StoreError:
            continue


@pytest.mark.smoke
def test_a_sweep_on_four_phones_outlives_an_unplugged_one_and_goes_on_with_it_later(
    phones: list[FaultyPhone], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sweeps.operations.run.Driver", partial(Driver, away_wait=AwayWait(3.0, 2.0)))
    (tmp_path / "net.py").write_text(OWN_NET)
    (sweep := tmp_path / "four.yaml").write_text(SWEEP)
    workspace = tmp_path / "data"
    journal = workspace / "journal.sqlite"
    lost = phones[2]
    unplugging = threading.Thread(target=unplug_after_its_first_block, args=(lost, journal))
    unplugging.start()
    document = json.loads(edgesweep("run", sweep, "--workspace", workspace, "--json"))
    unplugging.join()

    winners = {device["device_id"]: device["winner"] for device in document["devices"]}
    others_ids = {phone.serialno for phone in phones} - {lost.serialno}
    assert others_ids <= {device_id for device_id, winner in winners.items() if winner}
    assert winners.get(lost.serialno) is None
    with Journal.open(journal, read_only=True) as reader:
        kept_blocks = {job.key: reader.attempts.blocks(job.key) for job, _ in reader.jobs.of_sweep("four")}
        assert {facts.exec_context for facts in reader.plans.devices("four")} == {VIRTUAL_PHONE}
    assert 0 < sum(len(blocks) for blocks in kept_blocks.values()) < 4 * 2 * 3
    assert all(block.runner.startswith("native-torchscript ") for blocks in kept_blocks.values() for block in blocks)

    lost.plug()
    assert AdbHost().connect(lost.serial)
    resumed = json.loads(edgesweep("run", sweep, "--workspace", workspace, "--json"))
    assert {device["device_id"] for device in resumed["devices"] if device["winner"]} == others_ids | {lost.serialno}
    with Journal.open(journal, read_only=True) as reader:
        after = {job.key: reader.attempts.blocks(job.key) for job, _ in reader.jobs.of_sweep("four")}
    assert sum(map(len, after.values())) == 4 * 2 * 3
    for key, blocks in kept_blocks.items():
        assert after[key][: len(blocks)] == blocks, "nothing that was accepted is measured again"


def test_devices_lists_the_phones_and_cleans_them(phones: list[FaultyPhone], tmp_path: Path) -> None:
    listed = json.loads(edgesweep("devices", "--workspace", tmp_path / "data", "--json"))
    by_id = {device["device_id"]: device for device in listed["devices"]}
    assert {phone.serialno for phone in phones} < set(by_id)
    assert by_id[phones[0].serialno]["runtimes"].keys() == {"torchscript"}
    assert all((phone.data / "local/tmp/edgesweep/run").is_dir() for phone in phones)
    edgesweep("devices", "clean", f"adb:{phones[0].serial}")
    assert [(phone.data / "local/tmp/edgesweep").exists() for phone in phones] == [False, True, True, True]
    phones[1].unplug()
    ended = CliRunner().invoke(main, ["devices", "clean", *(f"adb:{phone.serial}" for phone in phones[1:])])
    assert ended.exit_code == 1
    assert phones[1].serial in ended.stderr
    assert [(phone.data / "local/tmp/edgesweep").exists() for phone in phones] == [False, True, False, False]
    phones[1].plug()
    assert AdbHost().connect(phones[1].serial)
    edgesweep("devices", "clean")
    assert not any((phone.data / "local/tmp/edgesweep").exists() for phone in phones)
