"""The sentinel's looks judge the blocks between them."""

from dataclasses import replace

from sweeps.journal.journal import Journal
from sweeps.protocol.sentinel_rules import (
    CHECK_BLOCKS,
    PlacedBlock,
    Span,
    changed_spans,
    doubtful_spans,
    in_race,
    moved,
    next_check,
    round_of,
)


def looks(records, *latencies, session=1, start=0):
    """Looks of three blocks each, ten places apart."""
    placed = []
    for number, ms in enumerate(latencies):
        for part in range(CHECK_BLOCKS):
            block = records.block(records.job(9), round_of(start + number, part), ms=ms, session=session)
            placed.append(PlacedBlock(100 * session + 10 * number + part, block))
    return placed


def test_a_steady_device_marks_nothing(records):
    assert changed_spans(looks(records, 5.0, 5.2, 4.9, 5.1)) == []


def test_a_lasting_shift_marks_the_blocks_between_the_looks_before_and_after_it(records):
    assert changed_spans(looks(records, 5.0, 5.1, 6.0, 6.1)) == [Span(1, 112, 120)]
    assert changed_spans(looks(records, 6.0, 6.1, 5.0)) == [Span(1, 112, 120)], "it may get faster, too"
    assert changed_spans(looks(records, 5.0, 6.0, 7.0)) == [Span(1, 102, 110), Span(1, 112, 120)]


def test_a_shift_that_fell_into_a_look_marks_what_was_measured_on_both_sides_of_it(records):
    placed = looks(records, 5.0, 5.0, 5.0, 6.0)
    late = replace(placed[5].block, samples_ns=tuple(ns + 1_000_000 for ns in placed[5].block.samples_ns))
    placed[5] = PlacedBlock(placed[5].position, late)
    assert changed_spans(placed[:9]) == []
    assert changed_spans([*placed[:6], *placed[9:]]) == [Span(1, 102, 130)]


def test_a_device_that_comes_back_has_not_shifted(records):
    assert changed_spans(looks(records, 5.0, 5.1, 5.6, 5.0)) == []
    assert changed_spans(looks(records, 5.0, 6.0, 5.0, 6.0, 5.0, 6.0)) == []


def test_slow_drift_is_no_shift(records):
    assert changed_spans(looks(records, 5.0, 5.2, 5.4, 5.6, 5.8, 6.0)) == []


def test_speeds_that_were_seen_in_an_earlier_run_are_known(records):
    flips = looks(records, 5.0, 6.0, 5.0)
    assert changed_spans([*flips, *looks(records, 5.0, 6.0, 6.0, session=2, start=3)]) == []


def test_a_speed_that_a_device_had_only_after_a_shift_is_not_known_in_the_next_run(records):
    shifted = looks(records, 5.0, 6.0, 6.0)
    again = looks(records, 5.0, 6.0, session=2, start=3)
    assert changed_spans([*shifted, *again]) == [Span(1, 102, 110), Span(2, 202, 210)]


def test_the_noise_of_processes_is_no_change(records):
    noisy = looks(records, 5.0, 5.6)
    slowest = replace(noisy[0].block, samples_ns=(5_700_000,) * 100)
    assert changed_spans([PlacedBlock(noisy[0].position, slowest), *noisy[1:]]) == [], "one of the first was as slow"


def test_a_look_that_was_broken_off_says_nothing(records):
    assert changed_spans(looks(records, 9.0)[:1] + looks(records, 5.0, 5.0, start=1)) == []


def test_every_run_is_judged_by_its_own_first_check(records):
    assert changed_spans([*looks(records, 5.0, 5.0), *looks(records, 9.0, 9.1, session=2, start=2)]) == []


def test_a_passing_speed_is_in_doubt_from_the_look_before_it_to_the_look_after_it(records):
    assert doubtful_spans(looks(records, 5.0, 5.1, 7.5, 5.0)) == [Span(1, 112, 130, lasts=False)]
    assert doubtful_spans(looks(records, 5.0, 7.5, 7.6, 5.0)) == [Span(1, 102, 130, lasts=False)]


def test_speeds_between_which_a_device_goes_back_and_forth_are_in_no_doubt(records):
    assert doubtful_spans(looks(records, 5.0, 6.0, 5.0, 6.0, 5.0, 6.0)) == []


def test_a_steady_device_and_one_that_shifted_for_good_leave_no_doubt(records):
    assert doubtful_spans(looks(records, 5.0, 5.2, 4.9, 5.1)) == []
    assert doubtful_spans(looks(records, 5.0, 5.1, 6.0, 6.1)) == []


def test_the_end_of_an_interrupted_run_is_judged_by_the_first_look_of_the_next_one(records):
    broken_off = looks(records, 5.0, 5.0, 6.0)[:-1]
    assert changed_spans(broken_off) == []
    assert doubtful_spans([*broken_off, *looks(records, 6.0, session=2, start=3)]) == [Span(1, 112, 200)]
    assert doubtful_spans([*broken_off, *looks(records, 5.1, session=2, start=3)]) == []


def test_what_did_not_last_is_no_warning_in_a_race():
    assert in_race(("device_changed", "ungated")) == ("device_moved", "ungated")
    assert in_race(("device_moved", "ungated")) == ("ungated",)


def test_a_look_has_moved_only_where_it_is_beyond_all_that_is_known(records):
    first, second, third = ([placed.block for placed in looks(records, ms)] for ms in (5.0, 6.0, 5.4))
    assert moved(second, first)
    assert moved(first, second)
    assert not moved(third, [*first, *second])
    assert not moved(second, [])


def test_looks_are_numbered_on(records):
    blocks = [placed.block for placed in looks(records, 5.0, 5.0)]
    assert next_check([]) == 0
    assert next_check(blocks) == 2


def test_the_journal_labels_what_was_measured_on_a_changed_device(tmp_path, records):
    job = records.job(0, sentinel="s" * 64)
    watch = records.job(9, key="s" * 64)
    with Journal.open(tmp_path / "journal.sqlite") as journal:
        for round_, ms in enumerate((5.0, 7.0)):
            for part in range(CHECK_BLOCKS):
                journal.attempts.add_block(records.block(watch, round_of(round_, part), ms=ms))
            journal.attempts.add_block(records.block(job, round_))
        before, after = journal.attempts.blocks(job.key, job.sentinel)
        assert before.labels == ("device_changed", "ungated")
        assert after.labels == ("ungated",), "on which side of the shift it lies is known"
        assert replace(before, labels=("ungated",)) == journal.attempts.blocks(job.key)[0], (
            "what is stored stays as it is"
        )


def test_a_later_run_without_a_sentinel_is_not_marked_with_what_an_earlier_one_found(tmp_path, records):
    job = records.job(0, sentinel="s" * 64)
    watch = records.job(9, key="s" * 64)
    with Journal.open(tmp_path / "journal.sqlite") as journal:
        for look, ms in enumerate((5.0, 7.0)):
            for part in range(CHECK_BLOCKS):
                journal.attempts.add_block(records.block(watch, round_of(look, part), ms=ms, session=1))
            journal.attempts.add_block(records.block(job, look, session=1))
        journal.attempts.add_block(records.block(job, 2, session=2))
        marked = ["device_changed" in block.labels for block in journal.attempts.blocks(job.key, job.sentinel)]
    assert marked == [True, False, False]


def test_a_block_with_a_label_of_another_version_is_marked_too(tmp_path, records):
    job = records.job(0, sentinel="s" * 64)
    watch = records.job(9, key="s" * 64)
    with Journal.open(tmp_path / "journal.sqlite") as journal:
        for look, ms in enumerate((5.0, 7.0)):
            for part in range(CHECK_BLOCKS):
                journal.attempts.add_block(records.block(watch, round_of(look, part), ms=ms))
            journal.attempts.add_block(records.block(job, look, labels=("haunted", "ungated")))
        (before, _) = journal.attempts.blocks(job.key, job.sentinel)
    assert before.labels == ("device_changed", "ungated", "haunted")
