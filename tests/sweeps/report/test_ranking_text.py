"""Tables as a person gets them on stdout."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from sweeps.command_hints import CommandHints
from sweeps.journal.journal import Journal
from sweeps.journal.outcomes import MAX_ATTEMPTS
from sweeps.journal.sweep_progress import read_status
from sweeps.label_kinds import TRUST
from sweeps.launching.live_report import LiveFile
from sweeps.operations.event_output import show
from sweeps.planning.size import estimate
from sweeps.protocol.presets import protocol_of
from sweeps.ranking.document import ranking_document
from sweeps.ranking.overview import verdicts_of
from sweeps.ranking.rank import rank
from sweeps.records import Failed
from sweeps.report.overview_text import print_overview
from sweeps.report.plan_text import plan_document, print_plan
from sweeps.report.progress import RunProgress
from sweeps.report.ranking_text import print_ranking
from sweeps.report.status_text import print_status
from sweeps.results import ResultRow, to_frame
from sweeps.settled import Settled
from sweeps.spec.grid import GridSpec
from sweeps.spec.objective import ConstraintSpec, ObjectiveSpec
from sweeps.spec.protocol import ProtocolSpec
from sweeps.workspace import Workspace
from workers.driver import driver_events

FREE = ObjectiveSpec(constraints=())
CHECKED = "Checked on this host, not timed"
NNAPI = (
    "NNAPI reference: NNAPI model run on this host by EdgeSweep's reference implementation; "
    "its time says nothing about a phone"
)
METAL = NNAPI.replace("nnapi", "metal").replace("NNAPI", "Metal")


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]):
    """The ranking's lines."""

    def lines(rows: Sequence[ResultRow], objective: ObjectiveSpec = FREE) -> list[str]:
        print_ranking(rank(to_frame(rows), objective, "s"))
        return output_lines(capsys)

    return lines


def output_lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [line.strip() for line in capsys.readouterr().out.splitlines()]


def cells(lines: list[str], start: str) -> list[str]:
    """The cells of the first table row that begins so."""
    line = next(line for line in lines if line.startswith(start))
    return [cell.strip() for cell in line.split("  ") if cell.strip()]


def test_a_trust_label_of_another_version_is_shown_and_called_so(printed, records) -> None:
    lines = printed([records.row(records.job(0), trust=("ungated", "haunted"))])
    assert "haunted (1 of 1): not a label of this version" in lines
    assert any(line.startswith(f"ungated (1 of 1): {TRUST['ungated'].text[:40]}") for line in lines)
    assert any("disqualified" in line for line in lines)


def test_what_is_faster_and_disqualified_stands_in_the_first_lines(printed, records) -> None:
    jobs = [records.job(number) for number in range(4)]
    times = ((3.25, ("device_changed",)), (6.19, ()), (5.0, ("throttled",)), (9.0, ("throttled",)))
    rows = [records.row(job, ms, trust=trust) for job, (ms, trust) in zip(jobs, times, strict=True)]
    lines = printed(rows)
    ship = next(number for number, line in enumerate(lines) if line.startswith("Ship: "))
    first = " ".join(lines[ship : ship + 3])
    why = TRUST["device_changed"].title
    assert f"Better, but disqualified: {rows[0].variant}, 3.25 ms (3.25–3.25) ({why}), and 1 more" in first
    (document,) = ranking_document(rank(to_frame(rows), FREE, "s"))["devices"]
    assert [row["latency_p50_ms"] for row in document["better_disqualified"]] == [3.25, 5.0]
    assert document["explanation"].endswith(", 2 others better but disqualified")
    assert not any("Better, but" in line for line in printed(rows[1:2] + rows[3:]))


def test_what_the_rounds_tell_apart_stands_above_the_table(printed, records) -> None:
    noise = ((0.98, 1.02, 1.0), (1.03, 0.99, 0.98), (1.0, 1.01, 1.02))
    rows = [
        replace(
            records.row(records.job(number), 5.0 + number),
            block_medians_ms=tuple((visit, (5 + number) * factor) for visit, factor in enumerate(factors)),
        )
        for number, factors in enumerate(noise)
    ]
    lines = printed(rows)
    at = next(n for n, line in enumerate(lines) if line.startswith("3 rounds tell builds apart that differ by "))
    assert at < next(number for number, line in enumerate(lines) if line.startswith("1"))
    (document,) = ranking_document(rank(to_frame(rows), FREE, "s"))["devices"]
    assert document["resolution"]["rounds"] == 3
    assert document["resolution"]["text"].startswith(lines[at][:40])


def test_a_model_that_is_not_wholly_delegated_is_named(printed, records) -> None:
    def lines(*percent: float) -> str:
        row = records.row(records.job(0))
        shares = dict(zip(("delegated_percent", "delegated_operators_percent"), percent, strict=False))
        return "\n".join(printed([replace(row, metrics={**row.metrics, **shares})]))

    rest = "are delegated; the rest runs in slow kernels"
    assert f"62.5 % of its multiply-adds {rest}" in lines(62.5)
    assert f"100.0 % of its multiply-adds and 66.5 % of its operators {rest}" in lines(100.0, 66.5)
    assert f"0.0 % of its multiply-adds and 0.0 % of its operators {rest}" in lines(0.0, 0.0)
    assert "delegated" not in lines(100.0, 100.0)


def test_libraries_have_a_column_where_they_differ(printed, records) -> None:
    def lines(*sizes: float | None) -> list[str]:
        rows = [records.row(records.job(number)) for number in range(len(sizes))]
        known = [{} if size is None else {"runtime_mb": size} for size in sizes]
        return printed(
            [replace(row, metrics={**row.metrics, **versions}) for row, versions in zip(rows, known, strict=True)]
        )

    several = lines(9.36, 24.0, None)
    assert any("library" in line for line in several)
    text = "\n".join(several)
    assert "   9.4 MB   " in text
    assert "  24.0 MB   " in text
    assert not any("library" in line for line in lines(9.36, 9.36))


def test_what_was_only_checked_has_a_section_of_its_own_beneath_the_ranking(printed, records) -> None:
    lines = printed([records.row(records.job(0)), records.row(records.checked_job(1), ms=None)])
    assert lines.index(CHECKED) > next(n for n, line in enumerate(lines) if line.startswith("1   cpu fp32 nchw script"))
    assert not any(line.startswith("2   ") for line in lines)
    assert cells(lines[lines.index(CHECKED) :], "nnapi fp32 nchw") == [
        *("nnapi fp32 nchw", "97.50 %", "0.50", "-0.10 – 1.10", "99.00 %", "61.5", "3.50 MB", "pass", "NNAPI reference")
    ]
    assert NNAPI in lines


def test_each_backend_that_was_only_checked_is_explained_in_words_once(printed, records) -> None:
    nnapi = [records.checked_job(1), records.checked_job(2)]
    nnapi[1] = replace(nnapi[1], variant=replace(nnapi[1].variant, layout="nhwc"))
    metal = records.checked_job(3, "reference:metal@1")
    metal = replace(metal, variant=replace(metal.variant, backend="metal"))
    lines = printed([records.row(job, ms=None) for job in (*nnapi, metal)])
    assert (lines.count(NNAPI), lines.count(METAL)) == (1, 1)
    assert "No winner: nothing was timed: 3 only checked" in lines
    assert not any(line.startswith("#") for line in lines)


def test_outputs_that_are_equal_to_the_bit_are_called_so(printed, records) -> None:
    row = records.row(records.checked_job(1), ms=None)
    del row.metrics["sqnr_db"]
    assert "equal" in cells(printed([row]), "nnapi fp32 nchw")[5]


def test_a_winner_that_was_only_checked_says_so(printed, records) -> None:
    best = records.row(records.checked_job(1), ms=None)
    best.metrics["top1_percent"] = 99.5
    lines = printed([records.row(records.job(0)), best], ObjectiveSpec(maximize="top1_percent", constraints=()))
    assert "Ship: nnapi fp32 nchw  Top-1 99.5 %, only checked, not timed" in lines
    assert CHECKED not in lines
    # The winner's place in the ranking has words where others have a time.
    assert cells(lines, "1   ")[:3] == ["1", "nnapi fp32 nchw", "not timed"]
    assert NNAPI in lines


def test_without_anything_checked_nothing_is_said_of_it(printed, records) -> None:
    lines = printed([records.row(records.job(0))])
    assert CHECKED not in lines
    assert not any("reference" in line for line in lines)


def test_text_of_a_store_cannot_move_the_cursor(printed, records) -> None:
    evil = "reference:nnapi\x1b[2J\x07[red]@1"
    lines = printed([records.row(records.checked_job(1), ms=None, executor=evil, name="net · \x1b[1Aevil")])
    text = "\n".join(lines)
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "[red]" in text


def test_a_plan_says_what_is_only_checked(records, capsys: pytest.CaptureFixture[str]) -> None:
    timed, checked = records.job(0), records.checked_job(1)
    plan = records.plan(timed, checked, rounds=7)
    states = {timed.key: "to build", checked.key: "done"}
    print_plan(plan, states, 60.0)
    lines = output_lines(capsys)
    assert cells(lines, "1   net job 0") == [
        "1",
        "net job 0",
        "local",
        "7",
        "to build",
    ]
    assert "only checked" in cells(lines, "2   net checked 1")[3]
    assert any(line.startswith("2 jobs (1 only checked) of 2 artifacts") for line in lines)
    assert any(line.startswith("only checked: NNAPI model run on this host") for line in lines)

    left = estimate(plan, plan.protocol, {checked.key}, set())
    document = plan_document(plan, states, left)
    assert document["estimate_s"] == round(document["estimate_builds_s"] + document["devices"][0]["estimate_s"], 1) > 0
    assert [(job["emulated"], job["reference"]) for job in document["jobs"]] == [
        (False, ""),
        (True, "reference:nnapi@1"),
    ]


def test_a_plan_says_where_the_values_of_its_grids_mean_nothing(records, capsys: pytest.CaptureFixture[str]) -> None:
    job = records.job(0)
    plan = records.plan(job)
    runtimes = ("executorch", "onnxruntime")
    grids = (GridSpec(runtime=runtimes, layout=("nhwc",)), GridSpec(runtime=runtimes, capture=("trace",)))
    plan = replace(plan, sweep=plan.sweep.model_copy(update={"grids": grids}))
    print_plan(plan, {job.key: "built"}, 60.0)
    notes = [line for line in output_lines(capsys) if "no choice" in line]
    assert notes == [
        "onnxruntime has no choice of layout, capture: the grid's values mean nothing there",
        "executorch has no choice of capture: the grid's values mean nothing there",
    ]
    document = plan_document(plan, {job.key: "built"}, estimate(plan, plan.protocol, set(), set()))
    assert document["no_choice"] == {"onnxruntime": ["layout", "capture"], "executorch": ["capture"]}


def test_a_plan_without_checked_jobs_says_nothing_of_them(records, capsys: pytest.CaptureFixture[str]) -> None:
    job = records.job(0)
    print_plan(records.plan(job), {job.key: "built"}, 60.0)
    assert "checked" not in capsys.readouterr().out


def test_status_tells_rounds_from_checks(records, tmp_path, capsys: pytest.CaptureFixture[str]) -> None:
    timed, checked, pending = records.job(0), records.checked_job(1), records.checked_job(2)
    with Journal.open(tmp_path / "journal.sqlite") as journal:
        journal.save_plan(records.plan(timed, checked, pending, rounds=2))
        journal.attempts.add_block(records.block(timed, 0))
        journal.attempts.add_accuracy(records.accuracy(checked))
        status = read_status(journal, "phones")
    print_status(status)
    lines = output_lines(capsys)
    assert [cells(lines, name)[2] for name in (timed.name, checked.name)] == ["1 of 2", "only checked"]
    assert "1 measured (1 only checked), 0 failed, 2 pending (1 only checked), 0 stale, 0 combinations skipped" in lines
    assert [job["emulated"] for job in status.document()["jobs"]] == [False, True, True]
    # A block of 100 samples of 5 ms whose whole time was not recorded.
    spent = "device time 1 s: 86 % timed iterations, 10 % warm-up, 3 % loading, 0 % starting processes"
    assert spent in " ".join(lines)
    assert status.document()["spent"] == status.spent.document()


def test_what_to_do_about_a_failure_stands_in_ranking_and_status(
    records, tmp_path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = records.job(0)
    failed = Failed(stage="build", kind="not_traceable", message="a branch", file="nets.py", line=12)
    with Journal.open(tmp_path / "journal.sqlite") as journal:
        journal.save_plan(records.plan(job))
        journal.attempts.add_failure(job.build_key, failed)
        status = read_status(journal, "phones")
    assert status.jobs[0].next_step.startswith("use precision: [fp32] with fuse: [false]")
    about = {"outcome": "failed", "stage": "build", "kind": "not_traceable", "reason": failed.text}
    print_status(status)
    print_ranking(rank(to_frame([records.row(job, None, **about)]), FREE, "s"))
    [table, ranking] = "".join(" ".join(capsys.readouterr().out.split())).split("0 combinations skipped")
    for shown in (table, ranking):
        assert "a branch (at nets.py:12)" in shown
        assert "fuse: [false]" in shown


def test_a_long_reason_is_cut_with_the_command_that_prints_it_whole(
    records, tmp_path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The reason has 4,000 characters, as torch writes them, in a line of progress, a status and a ranking."""
    job, message = records.job(0), " ".join(["aten::convolution_overrideable"] * 133) + " END"
    file = tmp_path / "nets.yaml"
    file.touch()
    failed = records.failed(message=message)
    with RunProgress() as progress:
        progress.step("Measuring on local", 1, 1, "")
        show(driver_events.AttemptFailed(job.name, failed, final=True), progress)
        rerun = replace(failed, message="then edgesweep run SWEEP.yaml --retry-failed")
        with LiveFile(tmp_path / "live.json", "phones", file=file) as live:
            show(driver_events.AttemptFailed(job.name, rerun, final=True), progress, live, Workspace(tmp_path))
    messages = capsys.readouterr().err
    assert f"edgesweep run {file} --workspace {tmp_path} --retry-failed" in " ".join(messages.split()), "as it is run"
    assert "━" not in messages, "a log has lines and no bars"
    assert "(all of it: edgesweep status -v)" in " ".join(messages.split())
    with Journal.open(tmp_path / "journal.sqlite") as journal:
        journal.save_plan(records.plan(job))
        for _ in range(MAX_ATTEMPTS):
            journal.attempts.add_failure(job.key, failed)
        status = read_status(journal, "phones")
    ranking = rank(to_frame([records.row(job, None, outcome="failed", reason=message)]), FREE, "s")
    shown = []
    for verbose in (False, True):
        print_status(status, verbose=verbose)
        shown.append(capsys.readouterr().out)
        print_ranking(ranking, verbose=verbose)
        shown.append(capsys.readouterr().out)
    cut, cut_too, *whole = [" ".join(text.split()) for text in shown]
    assert "(all of it: edgesweep status phones -v)" in cut
    assert "(all of it: edgesweep rank s -v)" in cut_too
    for text in (messages, cut, cut_too):
        assert "END" not in text
        assert len(text) < 1_500
    assert all("END" in text for text in whole)


def test_status_counts_a_shared_accuracy_pass_once_and_before_the_rounds_end(records, tmp_path) -> None:
    first, second = records.job(0), records.job(0, key="other")
    with Journal.open(tmp_path / "journal.sqlite") as journal:
        journal.save_plan(records.plan(first, second, rounds=2))
        for job in (first, second):
            journal.attempts.add_block(records.block(job, 0, push_seconds=0.5))
        journal.attempts.add_accuracy(records.accuracy(first, device_seconds=8.0, push_seconds=2.0))
        status = read_status(journal, "phones")
    assert status.count("pending") == 2
    assert (status.spent.pushing_s, status.spent.evaluating_s) == (3.0, 8.0)
    assert status.document()["spent"]["evaluating_s"] == 8.0


def test_status_tells_the_range_of_rounds_and_why_they_ended(
    records, tmp_path, capsys: pytest.CaptureFixture[str]
) -> None:
    going, steady, added, removed = (records.job(number) for number in range(4))
    plan = records.plan(going, steady, added)
    full = plan.sweep.model_copy(update={"protocol": ProtocolSpec(preset="full")})
    protocol = protocol_of(full)
    most = protocol.last_round
    why = "its last rounds agree, after 7"
    settled = Settled(job_key=steady.key, budget="full", rounds=7, reason="stable", message=why)
    blocks = {going: 2, steady: 7, added: most + 2, removed: 4}
    with Journal.open(tmp_path / "journal.sqlite") as journal:
        journal.save_plan(replace(plan, sweep=full, jobs=(*plan.jobs, removed)))
        journal.save_plan(replace(plan, sweep=full))
        for job, count in blocks.items():
            for round_ in range(count):
                journal.attempts.add_block(records.block(job, round_))
        for end in (settled, replace(settled, job_key=going.key, budget="race")):
            journal.attempts.add_settled(end)
        status = read_status(journal, "phones")
    print_status(status)
    lines = output_lines(capsys)
    assert cells(lines, going.name)[2:] == [f"2 of {protocol.rounds} to {most}"], "another budget's end is none here"
    assert cells(lines, steady.name)[2:] == ["7", why]
    assert cells(lines, added.name)[2:] == [f"{most + 2}"]
    assert cells(lines, removed.name)[1:] == ["stale", "4"]
    document = status.document()
    assert (document["rounds"], document["last_round"]) == (protocol.rounds, most)
    assert [job["settled"] for job in document["jobs"]] == ["", why, "", ""]


LEFT = Settled(
    job_key="", budget="race", rounds=4, reason="slower", message="", by="net · quick", ratio=1.2, ratio_low=1.067
)


def rounds(*medians_ms: float) -> dict[str, object]:
    return {"block_medians_ms": tuple(enumerate(medians_ms))}


def test_an_eliminated_build_keeps_its_row_without_a_place_above_the_evidence(printed, records) -> None:
    eliminated = [records.row(records.job(n), 12.0, name=f"net · gone {n}", settled=LEFT) for n in (2, 4)]
    lines = printed([records.row(records.job(0), name="net · quick"), *eliminated])
    assert cells(lines, "gone 2")[1] == "12.000"
    assert cells(lines, "gone 2")[-1] == "eliminated"
    assert "gone 2, gone 4: eliminated: left after 4 rounds: at least 1.06 times as slow as quick" in lines


def test_no_line_of_a_devices_table_repeats_the_device(records, capsys: pytest.CaptureFixture[str]) -> None:
    def on(unit: str, number: int, **changes: object) -> ResultRow:
        row = records.row(records.job(number), ms=10.0 + number, device_id=unit, fingerprint=unit)
        return replace(row, name=f"{row.name} · adb:{unit}", device_word=f"adb:{unit}", **changes)

    rows = [
        *(on("R1", 0), on("R1", 1, job_key="other", trust=("throttled",))),
        *(on("R2", 0, job_key="third", trust=("throttled",)), on("R2", 1, job_key="f", outcome="failed")),
    ]
    ranked = rank(to_frame(rows), FREE, "s")
    print_ranking(ranked)
    lines = output_lines(capsys)
    assert any(line.startswith("Ship: cpu fp32 nchw script  ") for line in lines)
    assert any(line.startswith("Provisional: cpu fp32 nchw script  ") for line in lines)
    assert "adb:" not in "\n".join(lines)
    print_overview("s", verdicts_of("s", ranked.devices, rows))
    assert "adb:" not in capsys.readouterr().out
    options = {
        "hints": CommandHints("edgesweep run my.yaml --workspace w", " --workspace w"),
        "names": {"R1": "adb:R1", "R2": "adb:R2"},
    }
    print_ranking(ranked, **options)
    print_overview("s", verdicts_of("s", ranked.devices, rows), ["SWEEP.yaml waits"], **options)
    texts = output_lines(capsys)
    assert f"s · net on adb:R2, {rows[2].device}" in texts, "as a plan and the progress call it"
    assert any(line.endswith("run my.yaml --workspace w --retry-failed") for line in texts)
    assert "SWEEP.yaml" not in "".join(line for line in texts if line != "SWEEP.yaml waits")
    assert sum(line.startswith(("adb:R1, ", "adb:R2, ")) for line in texts) == 3, "two lines, and what settles R2"
    assert [entry["name"][-6:] for entry in ranking_document(ranked)["devices"][0]["ranking"]] == ["adb:R1", "adb:R1"]


def test_what_is_not_resolved_is_explained_beneath_the_table(printed, records) -> None:
    bound = ObjectiveSpec(constraints=(ConstraintSpec(metric="accuracy_drop_points", at_most=1.0),))
    lines = printed([records.row(records.job(0), name="net · near")], bound)
    explained = next(
        line for line in lines if line.startswith("near: unresolved: accuracy_drop_points is 0.500 points")
    )
    assert "more evaluation images would decide it" in explained


def test_each_tie_says_what_would_settle_it_and_which_command_does(printed, records) -> None:
    rows = [
        records.row(records.job(0), 10.0, name="net · a", **rounds(10.0, 10.4, 9.9)),
        records.row(records.job(2), 10.5, name="net · open", **rounds(10.9, 10.2, 11.1)),
        records.row(records.job(4), 10.0, name="net · same", **rounds(10.0, 10.4, 9.9)),
    ]
    ranking = rank(to_frame(rows), FREE, "s").devices[0]
    lines = printed(rows)
    assert f"open: at least {ranking.rounds_to_settle} more rounds to tell them apart" in lines
    assert lines[lines.index("Equal to it (shown at 95 % to be within 2 % of the best):") + 1] == "same"
    assert f"To measure just these: edgesweep run SWEEP.yaml --settle {ranking.rounds_to_settle}" in lines


def test_of_many_ties_the_first_are_named_and_the_others_counted(printed, records) -> None:
    rows = [records.row(records.job(2 * n), 10.0, name=f"net · {n}", **rounds(10.0, 10.4, 9.9)) for n in range(7)]
    lines = printed(rows)
    first = lines.index("Equal to it (shown at 95 % to be within 2 % of the best):") + 1
    assert lines[first + 4] == "and 2 more (edgesweep rank s -v lists them)"
    assert len({*lines[first : first + 4]} & {str(n) for n in range(7)}) == 4


def test_of_many_that_share_a_reason_the_first_are_named_too(printed, records) -> None:
    late = replace(LEFT, reason="out_of_time", by="", message="the 3 minutes of the device were used up")
    lines = printed([records.row(records.job(n), name=f"net · {n}", settled=late) for n in range(6)])
    assert "0, 1, 2, 3 and 2 more (edgesweep rank s -v lists them): the 3 minutes of the device were used up" in lines


def test_a_race_that_was_not_decided_says_so(printed, records) -> None:
    late = replace(LEFT, reason="out_of_time", by="", message="the 3 minutes of the device were used up")
    lines = printed([records.row(records.job(n), name=f"net · {n}", settled=late) for n in (0, 2)])
    assert "0, 2: the 3 minutes of the device were used up" in lines


def test_a_build_left_by_batches_has_a_ratio_and_no_time_and_contradictions_are_told(printed, records) -> None:
    ended = Settled(job_key="", budget="race", rounds=0, reason="best", message="", batches=6, batches_decide=True)
    ratio = {"by_key": records.job(0).key, "ratio": 1.01, "ratio_low": 0.99, "ratio_high": 1.03}
    won = records.row(records.job(0), 10.0, name="net · won", **rounds())
    confirmed = ((5, 10.0), (6, 10.1), (7, 9.9))
    won = replace(won, confirmed_medians_ms=confirmed, settled=replace(ended, leads=True, confirmations=3))
    beside = records.row(records.job(2), name="net · left", **rounds(), settled=replace(ended, **ratio))
    beside = replace(beside, metrics={k: v for k, v in beside.metrics.items() if not k.startswith("latency")})
    lines = printed([won, beside])
    where = "in the state that the device was in while it was confirmed"
    assert any(line.startswith("Ship: ") and line.endswith(f" ms at 95 %, {where})") for line in lines)
    assert cells(lines, "1?")[1:3] == ["left", "in batches"]
    assert "Unresolved beside it (not told apart from the best, and not shown to be equal):" in lines
    assert any(line.startswith("left: measured in batches only, which give its ratio to the winner") for line in lines)
    checked = replace(beside, settled=replace(ended, **ratio, checks=1), check_medians_ms=((8, 13.0),))
    lines = printed([won, checked])
    assert any(line.startswith("Batches are contradicted: left took 1.30 times as long") for line in lines)
    on_unit = replace(checked, name=f"net · {checked.variant} · adb:b", device_word="adb:b")
    assert any(f"contradicted: {checked.variant} took 1.30" in line for line in printed([won, on_unit]))
    assert cells(lines, "1?")[1:3] == ["left", "in batches"], "that block is no time"


def test_the_device_time_and_how_many_left_early_are_shown(printed, records) -> None:
    cost = {"device_seconds": 100.0, "timed_seconds": 20.0, "waited_seconds": 30.0, "full_seconds": 300.0}
    rows = [records.row(records.job(0), **cost), records.row(records.job(2), 12.0, settled=LEFT, **cost)]
    assert (
        "device time: 3 min (20 % timed iterations), and 60 s of waiting; 1 of 2 left the race early: "
        "without elimination (preset full) it would have taken 10 min or more" in printed(rows)
    )
    assert not any("device time" in line for line in printed([records.row(records.job(0))]))
    rows = [records.row(records.job(0), **(cost | {"push_seconds": 10.0, "accuracy_seconds": 15.0}))]
    shares = "16 % timed iterations, 20 % pushes and accuracy passes"
    assert f"device time: 2 min ({shares}), and 30 s of waiting" in printed(rows)


def test_the_front_is_a_column_where_it_is_asked_for(printed, records) -> None:
    rows = [records.row(records.job(0), name="net · a"), records.row(records.job(2), 30.0, name="net · b")]
    with_front = printed(rows, ObjectiveSpec(constraints=(), front="top1_percent"))
    assert "front" in cells(with_front, "1   a")
    assert "front" not in cells(with_front, "2   b")
    assert not any("front" in line for line in printed(rows))


def test_units_of_one_class_have_a_table_of_their_own(printed, records) -> None:
    rows = []
    for unit, factor in (("a", 1.0), ("b", 3.0)):
        for number, ms in ((0, 10.0), (1, 12.0)):
            job = records.job(number, device_id=unit, key=f"{unit}{number}")
            rows.append(records.row(job, ms * factor, name=f"net · {number} · {unit}", threads=1))
    lines = printed(rows)
    assert "s · net on 2 units of Maker Phone (SoC)" in lines
    start = lines.index("s · net on 2 units of Maker Phone (SoC)")
    assert lines[start + 1] == f"Ship on all of them: {rows[0].variant}"
    assert cells(lines[start + 2 :], rows[1].variant) == [
        rows[1].variant,
        "2",
        "2",
        "1.20×",
        "1.20 – 1.20",
        "1.20 – 1.20",
    ]


def test_what_batches_say_of_a_class_of_units_is_told_below_its_table(printed, records) -> None:
    ended = Settled(job_key="", budget="race", rounds=0, reason="best", message="", batches=6, batches_decide=True)
    rows = []
    for unit in ("a", "b"):
        won, left = (records.job(number, device_id=unit, key=f"{unit}{number}") for number in (0, 1))
        beside = replace(ended, by_key=won.key, ratio=1.2, ratio_low=1.1, ratio_high=1.3)
        other = records.row(left, name=f"net · 1 · {unit}", threads=1, settled=beside, block_medians_ms=())
        metrics = {name: value for name, value in other.metrics.items() if not name.startswith("latency")}
        rows.append(records.row(won, name=f"net · 0 · {unit}", threads=1, settled=replace(ended, leads=True)))
        rows.append(replace(other, metrics=metrics))
    lines = printed(rows)
    assert f"{rows[1].variant}: on 2 of its units only batches gave its ratio, and it has no time" in lines


def test_text_of_a_race_cannot_move_the_cursor(printed, records) -> None:
    evil = replace(LEFT, by="net · \x1b[2Jquick")
    late = replace(LEFT, reason="out_of_time", message="\x1b[1A gone")
    rows = [records.row(records.job(0), settled=late), records.row(records.job(2), 12.0, settled=evil)]
    assert "\x1b" not in "\n".join(printed(rows))


def test_devices_that_measure_side_by_side_each_tell_of_their_own_tenths(capsys: pytest.CaptureFixture[str]) -> None:
    with RunProgress() as progress:
        for done in range(1, 11):
            for phone in ("one", "other"):
                progress.step(f"Measuring on {phone}", done, 10, "", beside=("Measuring on ",))
    messages = capsys.readouterr().err
    for phone in ("one", "other"):
        assert messages.count(f"Measuring on {phone}: ") == 9
        assert messages.count(f"Measuring on {phone} ...") == 1


def test_a_total_that_changes_repeats_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    with RunProgress() as progress:
        for done in range(1, 101):
            progress.step("Measuring on local", done, 100 + 15 * (done % 2), "")
    assert 9 <= capsys.readouterr().err.count("Measuring on local: ") <= 10


def test_the_bar_of_builds_stays_beside_those_of_devices_until_all_is_built(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def bars(progress: RunProgress) -> dict[str, tuple[float, float | None]]:
        return {task.description: (task.completed, task.total) for task in progress._progress.tasks if task.visible}

    with RunProgress() as progress:
        show(driver_events.Preparing("net"), progress)
        progress.preparing("net", 0.25)
        show(driver_events.Building(0, 3, ()), progress)
        show(driver_events.Building(1, 3, ("net · int8",)), progress)
        show(driver_events.Measuring("fake:cool", 0, 4, "net · fp32"), progress)
        assert bars(progress) == {"Building": (1, 3), "Measuring on fake:cool": (0, 4)}
        show(driver_events.Building(2, 3, ("net · int8",)), progress)
        show(driver_events.Measuring("fake:cool", 1, 4, "net · fp32"), progress)
        assert bars(progress) == {"Building": (2, 3), "Measuring on fake:cool": (1, 4)}
        show(driver_events.Building(3, 3, ()), progress)
        assert bars(progress) == {"Measuring on fake:cool": (1, 4)}
        show(driver_events.Published(0, 4), progress)
        assert bars(progress) == {"Publishing to MLflow": (0, 4)}
    messages = capsys.readouterr().err
    assert "Building: 2 of 3 builds" in messages
    assert "Preparing net: 25 %" in messages
