"""`simulate.py` says what a protocol would cost and find, and that it is simulated."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from sweeps.protocol.presets import PRESETS
from tests.benchmarks import simulate as program
from tests.benchmarks.simulated_sweep import FIXED_REST, latencies_ms, simulate
from workers.devices.fake.phones import PHONES

SPECS = Path(__file__).parents[2] / "sweeps" / "specs"


def run(*words: str) -> Result:
    return CliRunner().invoke(program.simulate, words)


def document_of(*words: str) -> dict[str, Any]:
    done = run(*words, "--json")
    assert done.exit_code == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def methods(document: dict[str, Any], phone: str) -> dict[str, dict[str, Any]]:
    (phone_entry,) = (phone_entry for phone_entry in document["phones"] if phone_entry["phone"] == phone)
    return {figures["method"]: figures for figures in phone_entry["methods"]}


def sweep_file(folder: Path, *lines: str) -> str:
    path = folder / "sweep.yaml"
    head = [
        "name: mine",
        "models: [{source: mobilenet_v2, weights: random, input_shape: [1, 3, 64, 64]}]",
        "data:",
        "  calibration: {source: synthetic, images: 4}",
        "  evaluation: {source: synthetic, images: 4}",
        "grids: [{precision: [fp32], layout: [nchw, nhwc], threads: [1, 2, 4]}]",
    ]
    path.write_text("\n".join([*head, *lines]) + "\n")
    return str(path)


def test_a_race_costs_less_than_full_and_both_cost_less_than_sleeping() -> None:
    for phone in ("noisy", "hot"):
        figures = methods(document_of("--phone", "noisy", "--phone", "hot", "--seeds", "3"), phone)
        assert list(figures) == ["full", "race", "sleep 180 s"]
        minutes = [figures[name]["device_minutes"] for name in ("race", "full", "sleep 180 s")]
        assert 2.5 * minutes[0] < minutes[1]
        assert minutes[1] < minutes[2]
        # 24 variants, 3 minutes before each.
        assert 72 < minutes[2] < 75
        assert figures["sleep 180 s"]["samples"] == 24 * 20
        assert figures["full"]["measuring_percent"] > 10 * figures["sleep 180 s"]["measuring_percent"]


def test_the_figures_are_those_of_the_sweeps() -> None:
    seeds = range(3)
    sweeps = [simulate(PHONES["spiky"], latencies_ms(5, 8.0, 0.1, seed), PRESETS["race"], seed=seed) for seed in seeds]
    options = ("--phone", "spiky", "--seeds", "3", "--variants", "5", "--base-ms", "8", "--sigma", "0.1")
    race = methods(document_of(*options), "spiky")["race"]
    covered = [job.covered for sweep in sweeps for job in sweep.jobs.values() if job.covered is not None]
    assert race["device_minutes"] == sorted(sweep.device_s for sweep in sweeps)[1] / 60
    assert race["samples"] == sorted(sweep.samples for sweep in sweeps)[1]
    assert race["best_named"] == sum(sweep.regret <= 0.02 for sweep in sweeps)
    assert race["undecided"] == sum(not sweep.decided for sweep in sweeps)
    assert (race["intervals"], race["intervals_with_truth"]) == (len(covered), sum(covered))
    assert race["blocks"] == sum(sweep.blocks for sweep in sweeps)
    assert 0 < race["measuring_percent"] < 100


def test_what_is_named_counts_within_two_percent_of_the_true_best() -> None:
    fixed = {"rest": FIXED_REST.rest, "plain": FIXED_REST.plain}
    regrets = [
        simulate(PHONES["spiky"], latencies_ms(24, 10.0, 0.1, seed), FIXED_REST.protocol, seed=seed, **fixed).regret
        for seed in range(8)
    ]
    named = methods(document_of("--phone", "spiky", "--seeds", "8", "--sigma", "0.1"), "spiky")["sleep 180 s"][
        "best_named"
    ]
    assert 0 < named < 8
    assert named == sum(regret <= 0.02 for regret in regrets)


def test_the_same_command_gives_the_same_figures() -> None:
    options = ("--phone", "noisy", "--seeds", "2", "--variants", "6")
    assert document_of(*options) == document_of(*options)
    assert document_of(*options) != document_of(*options, "--sigma", "0.15")


def test_a_table_has_every_phone_and_no_empty_cell_and_says_that_it_is_simulated() -> None:
    done = run("--seeds", "2", "--variants", "4")
    assert done.exit_code == 0
    assert done.stdout.startswith("Simulated:")
    for phone in ("steady", "noisy", "spiky", "hot", "holdout_daemons"):
        assert f"{phone}: samples vary by" in done.stdout
    names = ("device time", "of it", "95 %", "races")
    rows = [line for line in map(str.strip, done.stdout.splitlines()) if line.startswith(names)]
    assert len(rows) == 5 * 4
    for row in rows:
        assert len(re.split(r"\s{2,}", row)) == 1 + 3, row
    assert "Simulating" not in done.stdout
    assert "Simulating" in done.stderr


def test_a_sweep_file_brings_its_protocol_and_the_number_of_its_jobs(tmp_path: Path) -> None:
    path = sweep_file(tmp_path, "protocol: {preset: quick, rounds: 4}")
    document = document_of(path, "--phone", "cool", "--seeds", "2")
    assert document["variants"] == 2 * 3
    figures = methods(document, "cool")
    assert list(figures) == ["this sweep file", "full", "race", "sleep 180 s"]
    assert figures["this sweep file"]["blocks"] == 2 * 6 * 4
    assert figures["this sweep file"]["undecided"] is None
    assert "4 rounds" in document["methods"]["this sweep file"]
    assert list(tmp_path.iterdir()) == [Path(path)], "nothing is built, and nothing is kept"


def test_models_do_not_race_against_each_other(tmp_path: Path) -> None:
    path = Path(sweep_file(tmp_path, "protocol: {preset: quick, rounds: 4}"))
    alone = run(str(path), "--phone", "cool", "--seeds", "1", "--json")
    second = "input_shape: [1, 3, 64, 64]}, {name: other, source: mobilenet_v2, weights: random, seed: 1}]"
    path.write_text(path.read_text().replace("input_shape: [1, 3, 64, 64]}]", second))
    ended = run(str(path), "--phone", "cool", "--seeds", "1", "--json")
    assert json.loads(ended.stdout) == json.loads(alone.stdout)
    assert json.loads(ended.stdout)["variants"] == 6
    assert "mine has 2 models" in ended.stderr
    assert "share the minutes" not in ended.stderr
    path.write_text(path.read_text() + "budget: {device_minutes: 1}\n")
    shared = run(str(path), "--phone", "cool", "--seeds", "1")
    assert "share the minutes of the device" in " ".join(shared.stderr.split())
    assert "models" not in alone.stderr


def test_a_device_s_minutes_end_a_simulated_race_too(tmp_path: Path) -> None:
    path = sweep_file(tmp_path, "budget: {device_minutes: 0.1}")
    document = document_of(path, "--phone", "noisy", "--seeds", "3", "--variants", "24", "--sigma", "0.02")
    figures = methods(document, "noisy")
    assert figures["this sweep file"]["undecided"] == 3
    # The round that runs goes on to its end.
    assert figures["this sweep file"]["blocks"] == 3 * 24
    assert figures["race"]["device_minutes"] > 2 * figures["this sweep file"]["device_minutes"]


def test_without_a_gate_a_hot_phone_throttles_and_no_such_block_counts(tmp_path: Path) -> None:
    path = sweep_file(tmp_path, "protocol: {preset: full, gate: none}")
    figures = methods(document_of(path, "--phone", "hot", "--seeds", "2", "--variants", "24"), "hot")
    alone, gated = figures["this sweep file"], figures["full"]
    assert alone["throttled_blocks"] > 0
    assert alone["marked_blocks"] >= alone["throttled_blocks"]
    assert alone["throttled_unmarked_blocks"] == 0
    assert gated["throttled_blocks"] == 0


def test_who_does_not_look_at_the_thermal_status_counts_throttled_blocks() -> None:
    hurried = {"rest": 0.0, "plain": True}
    protocol = replace(FIXED_REST.protocol, iterations=400)
    sweep = simulate(PHONES["hot"], latencies_ms(48, 30.0, 0.35, 0), protocol, seed=0, **hurried)
    assert sweep.throttled_unmarked_blocks == sweep.throttled_blocks > 0
    assert sweep.marked_blocks == 0


def test_a_plain_mean_is_moved_by_spikes_and_a_median_is_not() -> None:
    spiky = replace(PHONES["spiky"], spike_share=0.1, process_cv=0.0)
    true_ms = {"v00": 10.0}
    values = {}
    for plain in (True, False):
        protocol = replace(FIXED_REST.protocol, iterations=2000)
        sweep = simulate(spiky, true_ms, protocol, seed=0, rest="none", plain=plain)
        values[plain] = sweep.jobs["v00"].p50_ms.value
        assert sweep.jobs["v00"].covered is None
    assert math.isclose(values[False], 10.0, rel_tol=0.02)
    assert values[True] > 1.15 * values[False]


@pytest.mark.parametrize("name", ["hoot", "fake:hott"])
def test_an_unknown_phone_is_refused_with_the_nearest_name(name: str) -> None:
    done = run("--phone", name, "--seeds", "2")
    assert done.exit_code == 2
    assert f"there is no simulated phone called {name!r}; did you mean 'hot'?" in done.stderr
    assert "holdout_daemons" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    "words",
    [
        ("--seeds", "0"),
        ("--seeds", "-1"),
        ("--variants", "0"),
        ("--variants", "1001"),
        ("--base-ms", "0"),
        ("--sigma", "-1"),
    ],
)
def test_figures_out_of_range_are_refused(words: tuple[str, ...]) -> None:
    done = run(*words)
    assert done.exit_code == 2
    assert f"Invalid value for '{words[0]}'" in done.stderr


def test_figures_that_are_no_numbers_are_refused() -> None:
    for words in (("--sigma", "nan"), ("--base-ms", "nan"), ("--base-ms", "inf")):
        done = run("--phone", "cool", "--seeds", "1", "--variants", "2", *words)
        assert done.exit_code == 2, words
        assert words[0] in done.stderr


def test_a_wrong_sweep_file_is_refused_as_everywhere(tmp_path: Path) -> None:
    done = run(sweep_file(tmp_path, "protocol: {preset: rase}"))
    assert done.exit_code == 2
    assert "did you mean 'race'?" in done.stderr
    assert run(str(tmp_path / "none.yaml")).exit_code == 2


def test_a_file_without_budget_and_preset_is_simulated_with_the_default_for_its_size(tmp_path: Path) -> None:
    path = sweep_file(tmp_path)
    options = (path, "--phone", "cool", "--seeds", "1", "--json", "--variants")
    many = run(*options, "9")
    figures = methods(json.loads(many.stdout), "cool")
    assert figures["this sweep file"] == figures["race"] | {"method": "this sweep file"}
    assert "budget: race (default: 9 variants" in " ".join(many.stderr.split())
    few = run(*options, "8")
    assert methods(json.loads(few.stdout), "cool")["this sweep file"]["undecided"] is None
    assert "budget: full (default: " in " ".join(few.stderr.split())


def test_jobs_that_are_not_known_here_are_said_to_be_guessed(tmp_path: Path) -> None:
    path = sweep_file(tmp_path, "protocol: {preset: quick}")
    Path(path).write_text(Path(path).read_text().replace("mobilenet_v2", "nowhere_to_be_found:make_net"))
    done = run(path, "--phone", "cool", "--seeds", "1", "--json")
    assert done.exit_code == 0
    assert "is unknown here" in done.stderr
    assert "nowhere_to_be_found" in done.stderr
    assert json.loads(done.stdout)["variants"] == 24


def test_every_sweep_file_that_is_shipped_can_be_simulated() -> None:
    for path in sorted(SPECS.glob("*.yaml")):
        done = run(str(path), "--phone", "cool", "--seeds", "1", "--variants", "2")
        # This file names files of the user's, which are not here.
        assert done.exit_code == (2 if path.name == "own-model.yaml" else 0), (path, done.stderr)
