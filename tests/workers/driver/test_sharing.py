"""Identical phones that share the variants of a sweep: who measures what, and who is left out."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from sweeps.cli.main import main
from sweeps.device_facts import DeviceFacts
from sweeps.errors import SpecError
from sweeps.journal.journal import Journal
from sweeps.planning.budget import default_budget, keep_budget
from sweeps.planning.keys import ModelIdentity
from sweeps.planning.plan import Plan, Supports, expand
from sweeps.records import Failed, Job
from sweeps.skip_kinds import Skip
from sweeps.spec.grid import GridSpec
from sweeps.spec.model_inputs import ModelSpec
from sweeps.spec.protocol import ProtocolSpec
from sweeps.spec.sweep import SweepSpec
from sweeps.variant import Variant
from tests import gallery
from tests.builders import identities_of
from tests.conftest import OWN_NET, OWN_NET_INPUTS
from tests.sweeps.conftest import Records
from tests.transports import stand_in
from tests.workers.tiny_sweep import BuiltSweep
from workers.devices.fake import device as fake
from workers.devices.fake.phones import PHONES
from workers.driver.sharing import Sharing, with_links

ROUNDS = 3
UNIT = replace(Records.facts, device_id="a", name="adb:a", exec_context="shell")
GRID = GridSpec(precision=("fp32",), layout=("nchw", "nhwc"), threads=(1, 2, 4))


def units(*names: str) -> list[DeviceFacts]:
    return [replace(UNIT, device_id=name, name=f"adb:{name}") for name in names]


def planned(
    *devices: DeviceFacts,
    share: str | None = "class",
    rounds: int = ROUNDS,
    supports: Supports = lambda *_: None,
    grid: GridSpec = GRID,
) -> Plan:
    net = ModelSpec(source="mobilenet_v2", weights="random")
    protocol = ProtocolSpec(preset="quick", rounds=rounds, max_rounds=rounds)
    spec = SweepSpec(name="s", models=(net,), grids=(grid,), protocol=protocol, share=share)
    identity = ModelIdentity(source="torchvision:mobilenet_v2", weights_id="random:0")
    return expand(spec, devices, supports, identities_of({net.name: identity}, evaluation_id=""))


def measure(journal: Journal, jobs: list[Job], ms: Callable[[Job], float] = lambda _: 5.0) -> None:
    for job in jobs:
        for round_ in range(ROUNDS):
            shaken = 1 + 0.002 * (round_ - 1)
            journal.attempts.add_block(Records().block(job, round_, ms(job) * shaken, session=1, labels=()))


def on(plan: Plan, unit: str) -> list[Job]:
    return [job for job in plan.jobs if job.device_id == unit]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.sqlite"


def test_a_variant_has_one_key_in_the_pool_of_its_class_and_one_of_each_unit() -> None:
    plan = planned(*units("a", "b", "c"))
    assert len(plan.jobs) == len({key for key, _ in plan.pooled}) == 3 * 6
    assert len({pool for _, pool in plan.pooled}) == 6
    assert not {pool for _, pool in plan.pooled} & {job.key for job in plan.jobs}


def test_the_keys_of_jobs_are_those_without_sharing() -> None:
    assert [job.key for job in planned(*units("a", "b")).jobs] == [
        job.key for job in planned(*units("a", "b"), share=None).jobs
    ]


def test_a_unit_of_another_class_and_one_that_is_alone_measure_everything() -> None:
    tablet = replace(UNIT, device_id="t", name="adb:t", model="Tablet")
    plan = planned(*units("a", "b"), tablet)
    assert {key for key, _ in plan.pooled} == {job.key for job in plan.jobs if job.device_id != "t"}
    assert Sharing(plan, None).plan.jobs[-6:] == tuple(on(plan, "t"))
    alone = planned(*units("a"), tablet)
    assert (alone.pooled, Sharing(alone, None).plan) == ((), alone)


def test_one_round_shows_no_difference_of_units_and_is_refused() -> None:
    with pytest.raises(SpecError, match=r"protocol\.rounds is 1"):
        planned(*units("a", "b"), rounds=1)


def test_many_variants_do_not_race_where_units_share_them() -> None:
    alone = planned(*units("a", "b"), share=None).sweep.model_copy(update={"budget": None})
    shared = alone.model_copy(update={"share": "class"})
    many = {("mobilenet_v2", "a"): 20}
    raced = planned(*units("a")).protocol
    assert default_budget(alone, many)[0].budget == "race"
    why = "default: units that share the work do not race"
    for changed, reason in (default_budget(shared, many), keep_budget(shared, replace(raced, budget="race"))):
        assert (changed.budget, reason) == ("full", why)


def test_units_are_compared_before_anything_else_is_assigned(path: Path) -> None:
    whole = planned(*units("a", "b", "c"))
    with Journal.open(path) as journal:
        sharing = Sharing(whole, journal)
        assert not sharing.advance(wait=True)
        first = sharing.plan.jobs
        assert [job.device_id for job in first] == ["a", "b", "c"]
        assert len({job.variant for job in first}) == 1
        assert all(job.link == job.key for job in first)
        measure(journal, list(first[:2]))
        assert not sharing.advance(wait=True), "the third may still come"
        measure(journal, list(first[2:]))
        assert sharing.advance(wait=True)
        plan = sharing.plan
        assert len(plan.jobs) == 3 + 5
        links = {job.device_id: job.key for job in first}
        assert all(job.link == links[job.device_id] for job in plan.jobs)


def test_each_variant_goes_to_one_unit_and_what_is_of_one_build_stays_together() -> None:
    sharing = Sharing(planned(*units("a", "b", "c")), None)
    sharing.propose()
    plan = sharing.plan
    own_jobs = [job for job in plan.jobs if job.key != job.link]
    assert len(own_jobs) == len({(job.variant, job.run) for job in own_jobs}) == 5
    where: dict[str, set[str]] = {}
    for job in own_jobs:
        where.setdefault(job.build_key, set()).add(job.device_id)
    assert [len(units_of_build) for units_of_build in where.values()] == [1, 1]
    assert len(set.union(*where.values())) == 2


def test_a_unit_on_which_blocks_take_longer_gets_less(path: Path) -> None:
    """The slower unit is as fast, but waits before each block, as one that has to cool down."""
    grid = GridSpec(precision=("fp32",), layout=("nchw", "nhwc"), capture=("script", "trace"), fuse=(True, False))
    for slower in ("a", "b"):
        with Journal.open(path.with_name(slower)) as journal:
            sharing = Sharing(planned(*units("a", "b"), grid=grid), journal)
            for job in sharing.plan.jobs:
                for round_ in range(ROUNDS):
                    waited_s = 20.0 if job.device_id == slower else 0.0
                    block = Records().block(job, round_, 5 + round_ / 1000, session=1, labels=(), device_seconds=10.0)
                    conditions = replace(block.conditions, waited_seconds=waited_s)
                    journal.attempts.add_block(replace(block, conditions=conditions))
            assert sharing.advance(wait=True)
            counts = {unit: len(on(sharing.plan, unit)) - 1 for unit in "ab"}
        assert sum(counts.values()) == 7
        assert counts[slower] <= 2, counts


def test_a_later_run_keeps_the_assignment_also_where_a_unit_comes_or_is_away(path: Path) -> None:
    with Journal.open(path) as journal:
        sharing = Sharing(planned(*units("a", "b")), journal)
        measure(journal, list(sharing.plan.jobs))
        sharing.advance(wait=True)
        before = {job.key for job in sharing.plan.jobs}
    with Journal.open(path) as journal:
        assert {job.key for job in Sharing(planned(*units("a", "b")), journal).plan.jobs} == before
        # One that is away stays in the plan, and what is assigned to it waits.
        more = Sharing(planned(*units("n", "a", "b")), journal)
        assert not more.advance(wait=False)
        assert {job.key for job in more.plan.jobs if job.device_id != "n"} == before
        assert [job.key == job.link for job in on(more.plan, "n")] == [True], "the new one measures what compares it"


def test_what_was_assigned_to_a_unit_that_left_the_sweep_is_assigned_anew(path: Path) -> None:
    with Journal.open(path) as journal:
        sharing = Sharing(planned(*units("a", "b", "c")), journal)
        measure(journal, list(sharing.plan.jobs))
        sharing.advance(wait=True)
        variants_gone = {(job.variant, job.run) for job in on(sharing.plan, "b") if job.key != job.link}
        keys_kept = {job.key for unit in "ac" for job in on(sharing.plan, unit)}
        assert variants_gone
        fewer = Sharing(planned(*units("a", "c")), journal)
        assert fewer.advance(wait=True)
        assert keys_kept < {job.key for job in fewer.plan.jobs}
        assert variants_gone <= {(job.variant, job.run) for job in fewer.plan.jobs}


def test_a_unit_that_differs_is_named_and_its_variants_are_measured_elsewhere(path: Path) -> None:
    whole = planned(*units("a", "b", "c"))
    with Journal.open(path) as journal:
        sharing = Sharing(whole, journal)
        measure(journal, list(sharing.plan.jobs), lambda job: 6.5 if job.device_id == "b" else 5.0)
        assert sharing.advance(wait=True)
        journal.save_plan(sharing.plan)
        assert on(sharing.plan, "b") == [], "its rows stay in the journal, and are stale"
        assert len(sharing.plan.jobs) == 2 + 5
        [line] = [line for line in sharing.lines() if "taken out of its class" in line]
        assert line.startswith("adb:b ")
        assert "1.300 times" in line
        [own] = [job for job in whole.jobs if job.device_id == "b" and journal.attempts.blocks(job.key)]
        assert len(journal.attempts.blocks(own.key)) == ROUNDS
    with Journal.open(path) as journal:
        assert on(Sharing(whole, journal).plan, "b") == [], "it stays out"


def test_a_unit_that_is_found_to_differ_later_gives_its_variants_back(path: Path) -> None:
    with Journal.open(path) as journal:
        sharing = Sharing(planned(*units("a", "b", "c")), journal)
        measure(journal, list(sharing.plan.jobs))
        sharing.advance(wait=True)
        variants_of_b = {(job.variant, job.run) for job in on(sharing.plan, "b") if job.key != job.link}
        [link] = [job for job in on(sharing.plan, "b") if job.key == job.link]
        for round_ in range(ROUNDS, 9 * ROUNDS):
            journal.attempts.add_block(Records().block(link, round_, 7.0, session=2, labels=(), added=True))
        for other in [job for job in sharing.plan.jobs if job.key == job.link and job.device_id != "b"]:
            for round_ in range(ROUNDS, 9 * ROUNDS):
                journal.attempts.add_block(Records().block(other, round_, 5.0, session=2, labels=(), added=True))
        assert sharing.advance(wait=False)
        assert on(sharing.plan, "b") == []
        assert variants_of_b <= {(job.variant, job.run) for job in sharing.plan.jobs}
        assert not sharing.advance(wait=False)


def test_a_common_variant_that_fails_on_every_unit_is_replaced_by_the_next(path: Path) -> None:
    with Journal.open(path) as journal:
        sharing = Sharing(planned(*units("a", "b")), journal)
        first = sharing.plan.jobs
        crash = Failed(stage="run", kind="crashed", message="signal 11")
        for job in first:
            for _ in range(3):
                journal.attempts.add_failure(job.key, crash)
        assert sharing.advance(wait=False)
        second = [job for job in sharing.plan.jobs if job.key == job.link]
        assert [job.device_id for job in second] == ["a", "b"]
        assert second[0].run != first[0].run
        [failed] = [job for job in sharing.plan.jobs if job.key in {job.key for job in first}]
        assert failed.device_id == "a", "it is listed once, as failed"


def test_a_common_variant_that_a_new_unit_cannot_run_is_assigned_like_the_others(path: Path) -> None:
    def but_not_the_first(variant: Variant, facts: DeviceFacts) -> Skip | None:
        return Skip("not_of_runtime", "lacks it") if facts.device_id == "n" and variant.layout == "nchw" else None

    with Journal.open(path) as journal:
        first = Sharing(planned(*units("a", "b")), journal).plan.jobs[0]
        assert first.variant.layout == "nchw"
        sharing = Sharing(planned(*units("a", "b", "n"), supports=but_not_the_first), journal)
        links = [job for job in sharing.plan.jobs if job.key == job.link]
        assert {job.variant.layout for job in links} == {"nhwc"}
        measure(journal, links)
        assert sharing.advance(wait=True)
        assert sharing.waiting == 0
        shown = [job for job in sharing.plan.jobs if (job.variant, job.run) == (first.variant, first.run)]
        assert len(shown) == 1


def test_a_unit_on_which_only_the_common_variant_fails_gets_nothing(path: Path) -> None:
    with Journal.open(path) as journal:
        sharing = Sharing(planned(*units("a", "b")), journal)
        good, bad = sharing.plan.jobs
        measure(journal, [good])
        for _ in range(3):
            journal.attempts.add_failure(bad.key, Failed(stage="run", kind="crashed", message="signal 11"))
        assert sharing.advance(wait=True)
        assert len(on(sharing.plan, "a")) == 6
        assert on(sharing.plan, "b") == [replace(bad, link=bad.key)]
        assert any(line.startswith("adb:b gets no variant: ") for line in sharing.lines())


def test_a_unit_whose_blocks_cannot_be_trusted_is_not_compared_and_gets_nothing(path: Path) -> None:
    with Journal.open(path) as journal:
        sharing = Sharing(planned(*units("a", "b")), journal)
        good, bad = sharing.plan.jobs
        measure(journal, [good])
        for round_ in range(ROUNDS):
            journal.attempts.add_block(Records().block(bad, round_, 9.0, labels=("throttled",)))
        assert sharing.advance(wait=True)
        assert [len(on(sharing.plan, unit)) for unit in "ab"] == [6, 1]
        assert any("adb:b gets no variant" in line and "trusted" in line for line in sharing.lines())
        assert sharing.waiting == 0


def test_a_unit_that_surely_differs_by_less_than_two_percent_stays_and_is_named(path: Path) -> None:
    with Journal.open(path) as journal:
        sharing = Sharing(planned(*units("a", "b", "c")), journal)
        measure(journal, list(sharing.plan.jobs), lambda job: 5.06 if job.device_id == "b" else 5.0)
        assert sharing.advance(wait=True)
        named = [line for line in sharing.lines() if "differs a little and stays in its class" in line]
        assert [line.startswith("adb:b ") and "1.012 times (" in line for line in named] == [True]
        assert len(sharing.plan.jobs) == 3 + 5


def test_without_a_comparable_unit_nothing_is_assigned_and_the_variants_are_counted(path: Path) -> None:
    with Journal.open(path) as journal:
        sharing = Sharing(planned(*units("a", "b")), journal)
        assert not sharing.advance(wait=False)
        assert (len(sharing.plan.jobs), sharing.waiting) == (2, 5)


def test_added_rounds_have_the_common_variant_beside_them() -> None:
    sharing = Sharing(planned(*units("a", "b")), None)
    sharing.propose()
    other = next(job for job in sharing.plan.jobs if job.key != job.link)
    assert with_links(sharing.plan, {other.key: 4}) == {other.link: 4, other.key: 4}


# From the sweep file to the ranking, on simulated phones

SWEEP = (
    f"name: shared{OWN_NET_INPUTS}"
    + """\
grids:
  - {precision: [fp32], layout: [nchw, nhwc], capture: [trace, script]}
devices: ["fake:one", "fake:two", "fake:three"]
share: class
protocol: {preset: quick}
objective: {constraints: []}
"""
)
SLOWER = {"one": 1.0, "two": 1.015, "three": 1.3}


class Unit(gallery.RememberingPhone):
    """Phones of one class, whatever they are called."""

    def facts(self) -> DeviceFacts:
        return replace(super().facts(), model="phone of one class")


def edgesweep(*arguments: object) -> tuple[str, str]:
    """Run the command, and return its stdout and stderr."""
    ended = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert ended.exit_code == 0, ended.output
    return ended.stdout, ended.stderr


def true_ms(digest: str) -> float:
    return 4.0 + int(digest[:4], 16) / 2**16 * 4.0


@pytest.fixture
def twins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Phones of one class, of which the third is slower."""
    stand_in(monkeypatch, "fake", f"{__name__}:{Unit.__name__}")
    for name in SLOWER:
        monkeypatch.setitem(PHONES, name, replace(PHONES["steady"], name=name, process_cv=0.0005))
    monkeypatch.setattr(fake, "_derived_ms", lambda phone, digest: SLOWER[phone] * true_ms(digest))


@pytest.mark.usefixtures("twins")
def test_an_interrupted_run_goes_on_in_rounds_with_the_common_variant(tmp_path: Path) -> None:
    grid = GridSpec(precision=("fp32",), layout=("nhwc",), threads=(1, 2, 4))
    sweep = BuiltSweep(tmp_path, grid, devices=("fake:one", "fake:two"), share="class")
    whole = sweep.plan
    with Journal.open(sweep.workspace.journal) as journal:
        sharing = Sharing(whole, journal)
        sweep.plan = sharing.plan
        sweep.run(journal)
        assert sharing.advance(wait=True)
        sweep.plan = sharing.plan
        own_jobs = [job for job in sweep.plan.jobs if job.key != job.link]
        assert len(own_jobs) == 2

        def count() -> int:
            return sum(journal.attempts.block_count(job.key) for job in sweep.plan.jobs)

        before = count()
        sweep.run(journal, stop=lambda: count() >= before + 2)
        kept_blocks = {job.key: journal.attempts.blocks(job.key) for job in sweep.plan.jobs}
        assert count() == before + 2

        sweep.plan = Sharing(whole, journal).plan
        sweep.run(journal)
        for job in own_jobs:
            blocks = journal.attempts.blocks(job.key)
            assert blocks[: len(kept_blocks[job.key])] == kept_blocks[job.key]
            assert len(blocks) == sweep.plan.protocol.rounds
            alone = {block.visit for block in blocks} - {block.visit for block in journal.attempts.blocks(job.link)}
            assert len(alone) <= 1, "only the round that was cut off"
        assert sweep.run(journal) == []


@pytest.mark.usefixtures("twins")
@pytest.mark.system
def test_phones_share_a_sweep_and_the_one_that_is_slower_is_taken_out(
    tmp_path: Path,
) -> None:
    (tmp_path / "net.py").write_text(OWN_NET)
    (sweep := tmp_path / "shared.yaml").write_text(SWEEP)
    workspace = tmp_path / "data"
    printed, output = edgesweep("run", sweep, "--workspace", workspace, "--executor", "inline", "--json")
    assert "3 units share 4 variants of net; all measure net · cpu fp32 nchw trace fused optimized;" in output
    assert "fake:three is taken out of its class" in output
    assert "times (1.2" in output

    with Journal.open(workspace / "journal.sqlite", read_only=True) as journal:
        present = [job for job, stale in journal.jobs.of_sweep("shared") if not stale]
        [slow_job] = [job for job, stale in journal.jobs.of_sweep("shared") if stale]
        assert (slow_job.device_id, len(journal.attempts.blocks(slow_job.key))) == ("fake-three", ROUNDS), (
            "its own rows stay"
        )
        assert {job.device_id for job in present} == {"fake-one", "fake-two"}
        links = [job for job in present if job.key == job.link]
        own_jobs = [job for job in present if job.key != job.link]
        assert (len(links), len(own_jobs), len({job.variant for job in own_jobs})) == (2, 3, 3)
        assert {job.device_id for job in own_jobs} == {"fake-one", "fake-two"}
        for job in own_jobs:
            visits = {block.visit for block in journal.attempts.blocks(job.key)}
            assert len(visits) == ROUNDS
            assert visits <= {block.visit for block in journal.attempts.blocks(job.link)}, "in the same rounds"
        artifacts = {job.build_key: journal.artifacts.latest(job.build_key) for job in present}
        before = journal.assignments.of_sweep("shared")

    [entry] = json.loads(printed)["devices"]
    assert entry["device_id"].startswith("class:")
    assert entry["not_ranked"] == []
    assert len(entry["ranking"]) == 4
    truth = {key: true_ms(manifest.file_sha256) for key, manifest in artifacts.items() if manifest is not None}
    winner = entry["winner"]
    for row in entry["ranking"]:
        ratio = row["latency_p50_ms"] / winner["latency_p50_ms"]
        expected = truth[row["build_key"]] / truth[winner["build_key"]]
        assert ratio == pytest.approx(expected, rel=0.01), "the unit's own speed cancels"

    edgesweep("export", "--workspace", workspace, "--output", tmp_path / "shipped")
    shipped = json.loads((tmp_path / "shipped" / "manifest.json").read_text())["expected"]
    [winning_job] = [job for job in present if job.key == winner["job_key"]]
    assert shipped["device_id"] == winning_job.device_id, "its figures are those of the unit that measured it"

    _, output = edgesweep("run", sweep, "--workspace", workspace, "--executor", "inline")
    assert "5 jobs, 5 done before" in output
    shown, _ = edgesweep("plan", sweep, "--workspace", workspace, "--json")
    assert {job["job_key"] for job in json.loads(shown)["jobs"]} == {job.key for job in present}
    with Journal.open(workspace / "journal.sqlite", read_only=True) as journal:
        assert journal.assignments.of_sweep("shared") == before
