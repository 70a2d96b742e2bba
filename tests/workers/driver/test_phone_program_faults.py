"""A sweep goes on over phones that are full, hot or started anew, and over programs that fail or lie. By their rows in
faults.md; what the device makes of them: devices/test_adb.py."""

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from dashboard.rows import ranked
from sweeps.cli.main import main
from sweeps.journal.journal import Journal
from sweeps.label_kinds import disqualified
from sweeps.ranking import rank
from sweeps.records import Block, Failed, Measured
from sweeps.report.ranking_text import print_ranking
from sweeps.spec.grid import GridSpec
from sweeps.spec.protocol import GateSpec
from tests.faulty_phone import FaultyPhone
from tests.mlflow_rows import load
from tests.workers.phone_sweep import (
    MANY_IMAGES,
    ONE_ROUND,
    ImpatientPhone,
    PhoneSweep,
    amid,
    assert_invariants,
    fault,
    in_a_push,
    reboot,
    resume,
    running_on,
    timed,
)
from workers.devices.interface import Sensors
from workers.driver.driver_events import AttemptFailed, Away, Waiting
from workers.measure import readiness, timed_block

pytestmark = [pytest.mark.system, pytest.mark.long]

Pair = list[FaultyPhone]

HOSTILE = "<script>alert(1)</script> | `x` $(touch /tmp/hostile) [bold](y) \x1b[31m"
HOSTILE_SERIAL = "a,b;$(touch /tmp/hostile)\x1b[2J<script>"

# Each act of the runner has the kind and words of its failure. Rows 9, 10, 20, 21, 22 and 47.
LIES = {
    "kill -SEGV $$": ("crashed", "exit code -11"),
    "kill -ABRT $$": ("crashed", "exit code -6"),
    "exit 137": ("killed", "exit code -9"),
    "kill -KILL 0": ("no_exit_code", "127.0.0.1"),
    """"$program" "$@" | grep -v '"end"'; exit 0""": ("truncated", "no end line"),
    """"$program" "$@" | head -c -5; exit 0""": ("truncated", "inside a line"),
    r"""printf '\377\n'; exec "$program" "$@" """: ("garbled", "not UTF-8"),
    "head -c 100000000 /dev/zero; exit 0": ("too_much_output", "67 MB"),
    r""""$program" "$@" | sed 's/"sample", "ns": \[/&NaN, /'; exit 0""": ("garbled", "is invalid"),
    r""""$program" "$@" | sed 's/"sample", "ns": \[/&Infinity, /'; exit 0""": ("garbled", "is invalid"),
    r""""$program" "$@" | sed 's/"sample", "ns": \[/&0, /'; exit 0""": ("garbled", ""),
    r""""$program" "$@" | sed 's/"sample", "ns": \[/&-5, /'; exit 0""": ("garbled", ""),
    r""""$program" "$@" | sed 's/"sample", "ns": \[/&99000000000, /'; exit 0""": ("clock_jumped", "within"),
}


def blocks(sweep: PhoneSweep, journal: Journal) -> list[Block]:
    return [block for job in sweep.plan.jobs for block in journal.attempts.blocks(job.key)]


# Rows 9, 10, 20 to 22


@pytest.mark.fault(9, "SIGSEGV, SIGABRT, exit 137", "its own job fails after 3 attempts")
@pytest.mark.fault(10, "killed with its shell; end line removed; cut off", "its own job fails after 3 attempts")
@pytest.mark.fault(20, "a sample longer than its run", "clock_jumped: its own job fails")
@pytest.mark.fault(21, "a byte 0xff, 100 MB of output, a sample NaN", "garbled, too_much_output: its own job fails")
@pytest.mark.fault(22, "the report cut within its last line", "truncated: its own job fails")
@pytest.mark.fault(47, "samples NaN, infinite, 0 and -5 in the report", "garbled: its own job fails")
def test_a_program_that_fails_or_lies_fails_its_own_job_alone(pair: Pair, built: Path, tmp_path: Path) -> None:
    first, _ = pair
    honest = len(LIES) + 1
    grid = GridSpec(precision=("fp32",), layout=("nchw",), threads=tuple(range(1, honest + 1)))
    sweep = PhoneSweep(tmp_path, built, pair[:1], grid)
    cases = "\n".join(f'*"--threads {number} "*) {lie};;' for number, lie in enumerate(LIES, start=1))
    fault(first, f'case "$*" in\n{cases}\nesac')
    with Journal.open(sweep.workspace.journal) as journal:
        events = sweep.run(journal)
        outcomes = {job.run.threads: journal.outcomes.in_sweep("tiny", job) for job in sweep.plan.jobs}
        for number, (kind, words) in enumerate(LIES.values(), start=1):
            outcome = outcomes[number]
            assert isinstance(outcome, Failed), f"case {number}"
            assert (outcome.stage, outcome.kind) == ("run", kind), f"case {number}: {outcome}"
            assert words in outcome.message
        assert isinstance(outcomes[honest], Measured)
        assert len(blocks(sweep, journal)) == 1
        assert timed(first) == 3 * len(LIES) + 1, "each is tried twice more"
        assert sum(isinstance(event, AttemptFailed) and event.final for event in events) == len(LIES)
        assert_invariants(sweep, journal)


@pytest.mark.fault(47, "every sample 1 ns", "invalid_timing: cannot win")
def test_a_program_that_tells_times_of_no_inference_wins_nothing(pair: Pair, built: Path, tmp_path: Path) -> None:
    first, _ = pair
    sweep = PhoneSweep(tmp_path, built, pair[:1])
    fault(first, r""""$program" "$@" | sed -E '/"sample", "ns": /s/[0-9]+/1/g'; exit 0""")
    with Journal.open(sweep.workspace.journal) as journal:
        sweep.run(journal)
        assert {disqualified(block.labels)[0] for block in blocks(sweep, journal)} == {"invalid_timing"}
        assert_invariants(sweep, journal)
    results = load(sweep.workspace.tracking_uri, "tiny")
    [entry] = rank.rank(results.frame, results.spec.objective, "tiny").devices
    assert entry.winner is None


@pytest.mark.fault(9, "SIGSEGV once", "measured at the second attempt")
def test_a_program_that_crashes_once_is_measured_the_second_time(pair: Pair, built: Path, tmp_path: Path) -> None:
    first, _ = pair
    sweep = PhoneSweep(tmp_path, built, pair[:1])
    fault(first, "kill -SEGV $$", once=True)
    with Journal.open(sweep.workspace.journal) as journal:
        events = sweep.run(journal)
        [attempt] = [event for event in events if isinstance(event, AttemptFailed)]
        assert (attempt.failed.kind, attempt.final) == ("crashed", False)
        assert timed(first) == 3
        assert all(isinstance(outcome, Measured) for outcome in sweep.outcomes(journal, first))
        assert_invariants(sweep, journal)


@pytest.mark.fault(22, "the file of answers cut off", "asked for again, no block repeated")
def test_answers_that_are_cut_off_are_asked_for_again(pair: Pair, built: Path, tmp_path: Path) -> None:
    first, _ = pair
    sweep = PhoneSweep(tmp_path, built, pair[:1])
    cut = """case "$*" in *--eval-outputs*)
        rm /data/local/fault
        "$program" "$@"
        while [ "$1" != --eval-outputs ]; do shift; done
        truncate -s -4 "$2"
        exit 0
    esac"""
    fault(first, cut)
    with Journal.open(sweep.workspace.journal) as journal:
        events = sweep.run(journal)
        [attempt] = [event for event in events if isinstance(event, AttemptFailed)]
        assert (attempt.failed.stage, attempt.failed.kind, attempt.final) == ("evaluate", "output_shape", False)
        assert all(isinstance(outcome, Measured) for outcome in sweep.outcomes(journal, first))
        assert timed(first) == 2
        assert_invariants(sweep, journal)


# Row 11


@pytest.mark.fault(11, "the runner sleeps for ever", "killed at its deadline, tried again")
@pytest.mark.fault(34, "the runner of one phone sleeps", "the other phone goes on")
def test_a_program_that_hangs_is_ended_and_tried_again(
    pair: Pair, built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = pair
    monkeypatch.setattr(timed_block, "START_DEADLINE_S", 20.0)
    # A block may end at this time with one sample, where the machine is busy.
    protocol = ONE_ROUND.model_copy(update={"max_seconds": 0.1, "iterations": 1})
    sweep = PhoneSweep(tmp_path, built, pair, protocol=protocol)
    fault(first, "sleep 84.5", once=True)
    with Journal.open(sweep.workspace.journal) as journal:
        events = sweep.run(journal)
        [attempt] = [event for event in events if isinstance(event, AttemptFailed)]
        assert (attempt.failed.kind, attempt.final) == ("timeout", False)
        assert first.serial in attempt.failed.message
        assert "was killed" in attempt.failed.message
        assert not running_on(first, "84.5")
        assert [timed(phone) for phone in pair] == [3, 2]
        assert all(isinstance(journal.outcomes.in_sweep("tiny", job), Measured) for job in sweep.plan.jobs)
        assert_invariants(sweep, journal)


# Rows 13 to 15


@pytest.mark.fault(13, "storage filled to 2.5 MB", "no_space, with need and have")
def test_a_full_phone_fails_with_need_and_have_and_keeps_what_was_measured(
    pair: Pair, built: Path, tmp_path: Path
) -> None:
    first, _ = pair
    sweep = PhoneSweep(tmp_path, built, pair[:1], data=MANY_IMAGES)
    first.fill_storage(leave_bytes=2_500_000)
    with Journal.open(sweep.workspace.journal) as journal:
        sweep.run(journal)
        for job in sweep.plan.jobs:
            outcome = journal.outcomes.in_sweep("tiny", job)
            assert isinstance(outcome, Failed)
            assert (outcome.stage, outcome.kind) == ("evaluate", "no_space")
            assert first.serial in outcome.message
            assert re.search(r"needs 3\.1 MB, and 2\.\d MB are free", outcome.message)
            assert "free storage" in outcome.message
            assert len(journal.attempts.blocks(job.key)) == 1
        assert_invariants(sweep, journal)
        (first.data / "local/others").unlink()
        journal.attempts.retry_failures("tiny")
        resume(sweep, journal)


@pytest.mark.fault(14, "5 bytes changed as they arrive", "corrupt_push, sent again")
def test_bytes_that_arrive_otherwise_are_sent_again(pair: Pair, built: Path, tmp_path: Path) -> None:
    first, _ = pair
    sweep = PhoneSweep(tmp_path, built, pair[:1], data=MANY_IMAGES)

    def spoil() -> None:
        with (first.data / "local/tmp/edgesweep/part").open("r+b") as part:
            part.write(b"other")

    first.slow_down(bytes_per_s=2e6)
    with Journal.open(sweep.workspace.journal) as journal:
        spoiled = in_a_push(first, spoil)
        events = sweep.run(journal)
        spoiled.join()
        [attempt] = [event for event in events if isinstance(event, AttemptFailed)]
        assert (attempt.failed.kind, attempt.final) == ("corrupt_push", False)
        assert all(isinstance(outcome, Measured) for outcome in sweep.outcomes(journal, first))
        assert_invariants(sweep, journal)


@pytest.mark.fault(15, "the cable passes nothing in a push", "waited for, then away; the other goes on")
def test_a_push_that_hangs_ends_in_time_and_the_other_phone_goes_on(
    pair: Pair, built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = pair
    monkeypatch.setattr(ImpatientPhone, "ANSWER_S", 3.0)
    sweep = PhoneSweep(tmp_path, built, pair, data=MANY_IMAGES)
    first.slow_down(bytes_per_s=2e6)
    with Journal.open(sweep.workspace.journal) as journal:
        hung = in_a_push(first, first.hang)
        events = sweep.run(journal)
        hung.join()
        failures = [event.failed for event in events if isinstance(event, AttemptFailed | Away)]
        assert failures
        assert {failed.kind for failed in failures} <= {"unresponsive", "offline"}
        # The phone is waited for: that it hangs is no job's failure.
        assert [journal.attempts.failures(job.key) for job in sweep.plan.jobs] == [()] * len(sweep.plan.jobs)
        assert all(first.serial in failed.message for failed in failures)
        assert all(isinstance(outcome, Measured) for outcome in sweep.outcomes(journal, second))
        assert_invariants(sweep, journal)
        first.go_on()
        first.slow_down()
        journal.attempts.retry_failures("tiny")
        resume(sweep, journal)


# Row 16


@pytest.mark.fault(16, "reboot in a block", "the block is discarded, measured anew")
def test_a_phone_that_is_started_anew_in_a_block_gives_nothing_of_it(
    pair: Pair, built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = pair
    # The phone answers again while it is asked for, however slow the machine.
    monkeypatch.setattr(ImpatientPhone, "PAUSES_S", (0.2, 2.0, 10.0))
    sweep = PhoneSweep(tmp_path, built, pair)
    with Journal.open(sweep.workspace.journal) as journal:
        booted = amid([first], first.reboot)
        events = sweep.run(journal)
        booted.join()
        attempts = [event.failed for event in events if isinstance(event, AttemptFailed)]
        assert 1 <= len(attempts) <= 2
        assert {failed.kind for failed in attempts} <= {"rebooted", "disconnected", "no_exit_code"}
        assert all(first.serial in failed.message for failed in attempts)
        assert [timed(phone) for phone in pair] == [2 + len(attempts), 2], "no other block once more"
        assert all(isinstance(journal.outcomes.in_sweep("tiny", job), Measured) for job in sweep.plan.jobs)
        assert_invariants(sweep, journal)


@pytest.mark.fault(16, "reboot between two runs", "measured on")
def test_a_phone_that_is_started_anew_between_two_runs_is_measured_on(pair: Pair, built: Path, tmp_path: Path) -> None:
    first, _ = pair
    sweep = PhoneSweep(tmp_path, built, pair[:1])
    with Journal.open(sweep.workspace.journal) as journal:
        sweep.run(journal, stop=lambda: timed(first) >= 1)
        assert timed(first) == 1
        reboot(first)
        resume(sweep, journal)


# Rows 17 and 18


@pytest.mark.fault(17, "44 degrees and thermal status 3 in a block", "throttled: cannot win")
def test_a_phone_that_throttles_in_a_block_is_marked_and_cannot_win(pair: Pair, built: Path, tmp_path: Path) -> None:
    first, _ = pair
    sweep = PhoneSweep(tmp_path, built, pair[:1])
    with Journal.open(sweep.workspace.journal) as journal:
        heated = amid([first], lambda: first.heat(44.0, thermal_status=3))
        sweep.run(journal)
        heated.join()
        throttled_blocks = blocks(sweep, journal)
        assert sorted(
            (block.conditions.thermal_status_start, block.conditions.thermal_status_end) for block in throttled_blocks
        ) == [
            (0, 3),
            (3, 3),
        ]
        assert all("throttled" in block.labels for block in throttled_blocks)
        assert_invariants(sweep, journal)
        results = load(sweep.workspace.tracking_uri, "tiny")
        [entry] = rank.rank(results.frame, results.spec.objective, "tiny").devices
        assert entry.winner is None


@pytest.mark.fault(17, "41.5 degrees before a block", "waited for until cool")
def test_a_hot_phone_is_waited_for(pair: Pair, built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "POLL_SECONDS", 0.1)
    first, _ = pair
    protocol = ONE_ROUND.model_copy(update={"gate": GateSpec(wait_seconds=120.0, load_wait_seconds=0.0, max_load=1.0)})
    sweep = PhoneSweep(tmp_path, built, pair[:1], protocol=protocol)
    first.heat(41.5, thermal_status=2)
    look = ImpatientPhone.sensors
    looks: list[Sensors] = []

    def cool_while_watched(device: ImpatientPhone, **how: bool) -> Sensors:
        looks.append(look(device, **how))
        # The first of its lane, the first of the gate, and some of the wait.
        if len(looks) == 5:
            first.heat(30.0)
        return looks[-1]

    monkeypatch.setattr(ImpatientPhone, "sensors", cool_while_watched)
    with Journal.open(sweep.workspace.journal) as journal:
        events = sweep.run(journal)
        waits = [event for event in events if isinstance(event, Waiting)]
        assert any("battery at 41.5 °C, above 37 °C" in words for event in waits for words in event.lacking)
        assert {(block.conditions.gate, block.conditions.temp_start_c) for block in blocks(sweep, journal)} == {
            ("ready", 30.0)
        }
        assert_invariants(sweep, journal)


@pytest.mark.parametrize(
    ("battery", "words"),
    [("present: true\nlevel: 5\nscale: 100", "battery at 5 %"), ("present: true\nlevel: ?", "cannot be read")],
)
@pytest.mark.fault(18, "battery at 5 %; battery without a level", "not_ready; measured once it is charged")
def test_a_phone_of_low_or_unreadable_battery_is_not_measured(
    pair: Pair, built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, battery: str, words: str
) -> None:
    monkeypatch.setattr(readiness, "POLL_SECONDS", 0.1)
    first, _ = pair
    gate = GateSpec(wait_seconds=0.3, load_wait_seconds=0.0, max_load=1.0)
    protocol = ONE_ROUND.model_copy(update={"gate": gate, "on_not_ready": "fail"})
    sweep = PhoneSweep(tmp_path, built, pair[:1], protocol=protocol)
    first.say("battery", battery)
    with Journal.open(sweep.workspace.journal) as journal:
        sweep.run(journal)
        for outcome in sweep.outcomes(journal, first):
            assert isinstance(outcome, Failed)
            assert outcome.kind == "not_ready"
            assert words in outcome.message
        assert timed(first) == 0
        assert_invariants(sweep, journal)
        first.drain(80)
        journal.attempts.retry_failures("tiny", kind="not_ready")
        resume(sweep, journal)


# Row 19


@pytest.mark.fault(19, "an NNAPI driver that accepts no operator", "backend_fell_back: cannot win")
def test_a_backend_that_falls_back_to_the_cpu_is_marked_and_cannot_win(pair: Pair, built: Path, tmp_path: Path) -> None:
    first, _ = pair
    system = first.data.parent / "system" / "lib64"
    system.mkdir(parents=True)
    (system / "libneuralnetworks.so").touch()
    first.set_property("ro.build.fingerprint", "maker/phone/phone:14/1/1:user/release-keys")
    try:
        grid = GridSpec(backend=("cpu", "nnapi"), precision=("fp32",), layout=("nchw",))
        sweep = PhoneSweep(tmp_path, built, pair[:1], grid)
        cpu = next(job.build_key for job in sweep.plan.jobs if job.variant.backend == "cpu")
        # The whole run on the CPU, as NNAPI's own drivers do it where they accept no operator.
        fault(
            first,
            f"""for word; do
                case $last in
                    --model) next={sweep.workspace.artifact(cpu)}/model.pt;;
                    --backend) next=cpu;;
                    *) next=$word;;
                esac
                last=$word; shift; set -- "$@" "$next"
            done""",
        )
        with Journal.open(sweep.workspace.journal) as journal:
            sweep.run(journal)
            outcomes = {job.variant.backend: journal.outcomes.in_sweep("tiny", job) for job in sweep.plan.jobs}
            assert all(isinstance(outcome, Measured) for outcome in outcomes.values()), outcomes
            assert [block.backend_ran for block in blocks(sweep, journal)] == ["cpu", "cpu"]
            assert_invariants(sweep, journal)
            results = load(sweep.workspace.tracking_uri, "tiny")
            [entry] = rank.rank(results.frame, results.spec.objective, "tiny").devices
            assert ["backend_fell_back" in row.trust for row in entry.ranking] == [False, True]
            assert entry.winner is not None
            assert entry.winner.variant.startswith("cpu")
            assert not entry.tied
    finally:
        first.set_property("ro.build.fingerprint", "edgesweep/virtual/phone:14/1/1:user/release-keys")
        (system / "libneuralnetworks.so").unlink()
        system.rmdir()
        system.parent.rmdir()


# Rows 23 to 25


def traces(phone: FaultyPhone) -> list[Path]:
    """The files that there are if a shell, of the phone or of the host, ran hostile text."""
    return [path for path in (phone.data.parent / "tmp/hostile", Path("/tmp/hostile")) if path.exists()]


@pytest.fixture
def untouched(pair: Pair) -> None:
    """Nothing left of a run before."""
    for path in traces(pair[0]):
        path.unlink(missing_ok=True)


@pytest.mark.usefixtures("untouched")
@pytest.mark.fault(23, "a file named as HTML, markdown and shell", "text; only our own files are deleted")
@pytest.mark.fault(24, "a model name of HTML, markdown, shell and escapes", "text wherever it is shown")
@pytest.mark.fault(48, "a model name with control characters", "published whole, shown as text")
def test_hostile_names_on_a_phone_are_text_wherever_they_are_shown(
    pair: Pair, built: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, _ = pair
    first.set_property("ro.product.model", HOSTILE)
    folder = first.data / "local/tmp/edgesweep/run"
    folder.mkdir(parents=True)
    (folder / HOSTILE.replace("/", "_")).write_text("not ours")
    try:
        sweep = PhoneSweep(tmp_path, built, pair[:1])
        listed = CliRunner().invoke(main, ["devices", "--workspace", str(sweep.workspace.root)])
        document = CliRunner().invoke(main, ["devices", "--workspace", str(sweep.workspace.root), "--json"])
        with Journal.open(sweep.workspace.journal) as journal:
            resume(sweep, journal)
        assert (folder / HOSTILE.replace("/", "_")).read_text() == "not ours"
        cleaned = CliRunner().invoke(main, ["devices", "clean", f"adb:{first.serial}"])
    finally:
        first.set_property("ro.product.model", "Virtual Phone")
    results = load(sweep.workspace.tracking_uri, "tiny")
    ranking = rank.rank(results.frame, results.spec.objective, "tiny")
    print_ranking(ranking)
    for text in (listed.output, capsys.readouterr().out):
        shown = " ".join(text.split())
        assert "<script>" in shown
        assert "[bold]" in shown, "no markup of ours"
        assert "\x1b[31m" not in text
    assert "$(touch /tmp/hostile)" in document.output
    assert "\x1b" not in document.output
    [entry] = ranking.devices
    assert HOSTILE in entry.device, "the store keeps it to the letter; dashboard.markdown_escape makes it text"
    assert len(ranked(entry)) == 2
    assert cleaned.exit_code == 0
    assert not folder.parent.exists()
    assert not traces(first)


@pytest.mark.usefixtures("untouched")
@pytest.mark.fault(24, "a serial number of shell and HTML", "replaced by its hash")
def test_a_hostile_serial_number_becomes_a_plain_one_before_anything_is_named_by_it(
    pair: Pair, built: Path, tmp_path: Path
) -> None:
    first, _ = pair
    first.set_property("ro.serialno", HOSTILE_SERIAL)
    try:
        sweep = PhoneSweep(tmp_path, built, pair[:1])
        [facts] = sweep.plan.devices
        with Journal.open(sweep.workspace.journal) as journal:
            resume(sweep, journal)
        root = str(sweep.workspace.root)
        listed = CliRunner().invoke(main, ["devices", "--workspace", root, "--json"])
        ranking = CliRunner().invoke(main, ["rank", "--workspace", root, "--json"])
    finally:
        first.set_property("ro.serialno", first.serialno)
    assert re.fullmatch("phone-[0-9a-f]{16}", facts.device_id)
    shown = {device["name"]: device["device_id"] for device in json.loads(listed.stdout)["devices"]}
    assert shown[f"adb:{first.serial}"] == facts.device_id
    assert [device["device_id"] for device in json.loads(ranking.stdout)["devices"]] == [facts.device_id]
    for text in (listed.output, ranking.output, *map(str, sweep.home.rglob("*"))):
        assert not re.search(r"touch|script>|\x1b|\\u001b", text)
    assert not traces(first)


@pytest.mark.fault(25, "no model, no maker, an API level of two lines", "measured all the same")
def test_a_phone_that_tells_nothing_of_itself_is_measured_all_the_same(pair: Pair, built: Path, tmp_path: Path) -> None:
    first, _ = pair
    before = {"ro.product.model": "Virtual Phone", "ro.product.manufacturer": "EdgeSweep", "ro.build.version.sdk": "34"}
    for name, value in zip(before, (None, None, "S\nV2 [beta]"), strict=True):
        first.set_property(name, value)
    try:
        sweep = PhoneSweep(tmp_path, built, pair[:1])
        with Journal.open(sweep.workspace.journal) as journal:
            resume(sweep, journal)
    finally:
        for name, value in before.items():
            first.set_property(name, value)
    [facts] = sweep.plan.devices
    assert (facts.model, facts.maker, facts.nnapi_level) == ("", "", None)
