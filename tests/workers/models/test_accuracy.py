import dataclasses
import math

import numpy as np
import pytest

from sweeps.errors import RunnerError
from sweeps.records import Accuracy
from workers.models.accuracy import evaluate, sqnr_db
from workers.models.package import Labels, Logits


def judged(logits: Logits, reference: Logits, labels: Labels | None) -> Accuracy:
    return evaluate("build", "evaluation", "x86", "fingerprint", logits, reference, labels)


def one_hot(answers: list[int], classes: int = 10) -> Logits:
    return np.eye(classes, dtype=np.float32)[answers]


def test_sqnr_of_a_tenth_of_noise_is_twenty_db() -> None:
    reference = np.ones((4, 3), np.float32)
    assert sqnr_db(reference, reference * np.float32(1.1)) == pytest.approx(20.0, abs=1e-4)


def test_sqnr_of_equal_logits_is_unknown_not_infinite() -> None:
    reference = np.ones((4, 3), np.float32)
    assert sqnr_db(reference, reference.copy()) is None


def test_sqnr_does_not_overflow_where_float32_would() -> None:
    reference = np.full((2, 2), 1e30, np.float32)
    assert sqnr_db(reference, -reference) == pytest.approx(-20.0 * math.log10(2.0), abs=1e-4)


def test_shares_are_counted_over_the_same_images() -> None:
    labels = np.array([0, 1, 2, 3], np.int64)
    accuracy = judged(one_hot([0, 1, 9, 9]), one_hot([0, 1, 2, 9]), labels)
    assert accuracy.images == 4
    assert accuracy.top1_percent == 50.0
    assert accuracy.reference_top1_percent == 75.0
    assert accuracy.agreement_percent == 75.0
    assert accuracy.accuracy_drop_points == 25.0
    assert accuracy.accuracy_drop_low_points is not None
    assert accuracy.accuracy_drop_high_points is not None
    assert accuracy.accuracy_drop_low_points < 25.0 < accuracy.accuracy_drop_high_points
    assert accuracy.labels == ()


def test_top5_counts_the_fifth_place_and_not_the_sixth() -> None:
    logits = np.arange(10, 0, -1, dtype=np.float32)[None].repeat(2, axis=0)
    accuracy = judged(logits, one_hot([0, 0]), np.array([4, 5], np.int64))
    assert accuracy.top5_percent == 50.0


def test_top5_is_unknown_with_five_classes() -> None:
    answers = one_hot([0, 1], classes=5)
    assert judged(answers, answers, np.array([0, 1], np.int64)).top5_percent is None


def test_equal_logits_are_one_answer_and_not_a_hit_for_every_class() -> None:
    flat = np.zeros((10, 10), np.float32)
    accuracy = judged(flat, one_hot(list(range(10))), np.arange(10))
    assert accuracy.top1_percent == 10.0
    assert accuracy.top5_percent == 50.0


def test_without_labels_only_the_comparison_with_the_eager_model_is_known() -> None:
    accuracy = judged(one_hot([0, 1]), one_hot([0, 2]), None)
    assert accuracy.agreement_percent == 50.0
    assert accuracy.top1_percent is None
    assert accuracy.top5_percent is None
    assert accuracy.reference_top1_percent is None
    assert accuracy.accuracy_drop_points is None


@pytest.mark.parametrize("poison", [math.nan, math.inf, -math.inf])
def test_a_logit_that_is_not_finite_is_a_wrong_answer_with_a_label(poison: float) -> None:
    reference = one_hot([0, 1])
    logits = reference.copy()
    logits[0, 0] = poison
    accuracy = judged(logits, reference, np.array([0, 1], np.int64))
    assert accuracy.labels == ("invalid_output",)
    assert accuracy.top1_percent == 50.0
    assert accuracy.agreement_percent == 50.0
    assert accuracy.accuracy_drop_points == 50.0
    assert accuracy.sqnr_db is None


def test_another_number_of_classes_is_an_error_of_its_own_kind() -> None:
    with pytest.raises(RunnerError, match="shape") as caught:
        judged(one_hot([0], classes=9), one_hot([0]), None)
    assert caught.value.kind == "output_shape"


def test_the_first_images_alone_are_compared_with_their_own_answers_and_labelled() -> None:
    reference, labels = one_hot([0, 1, 2, 3, 4]), np.array([0, 9, 2, 9, 9])
    part = judged(one_hot([0, 1, 9]), reference, labels)
    alone = judged(one_hot([0, 1, 9]), reference[:3], labels[:3])
    assert (part.images, part.labels) == (3, ("part_of_images",))
    assert part == dataclasses.replace(alone, labels=("part_of_images",))
    poisoned = np.full((2, 10), np.nan, np.float32)
    assert judged(poisoned, reference, None).labels == ("invalid_output", "part_of_images")


@pytest.mark.parametrize("images", [0, 6])
def test_no_images_and_more_than_there_are_is_an_error(images: int) -> None:
    with pytest.raises(RunnerError, match="shape"):
        judged(one_hot([0] * images), one_hot([0, 1, 2, 3, 4]), None)
