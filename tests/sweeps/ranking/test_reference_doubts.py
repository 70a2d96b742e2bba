"""The answers on labelled images speak against the original, with the likely cause."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from sweeps.distributions import binomial_tail
from sweeps.label_kinds import TRUST
from sweeps.ranking.reference_causes import Answers, Inputs
from sweeps.ranking.reference_doubts import doubts, figure
from sweeps.spec.folder_levels import Levels

ANIMALS = ("cat", "dog", "eel")


def answers(cells: Mapping[tuple[int, int], int], outputs: int = 3, classes: tuple[str, ...] = ANIMALS) -> Answers:
    """`cells`: how many images have this label and were given this answer."""
    pairs = [pair for pair, count in cells.items() for _ in range(count)]
    labels, guesses = zip(*pairs, strict=True)
    return Answers(labels=labels, predicted=guesses, outputs=outputs, classes=classes)


def of_shares(right: float, *, images: int = 300, outputs: int = 10, seed: int = 0) -> Answers:
    """Answers over ten balanced classes; the others' answers are any of the outputs."""
    random = np.random.default_rng(seed)
    labels = [number % 10 for number in range(images)]
    guesses = [
        label if random.random() < right else int(random.integers(outputs)) for number, label in enumerate(labels)
    ]
    return Answers(labels=labels, predicted=guesses, outputs=outputs, classes=tuple("0123456789"))


def codes(labelled: Answers, levels: Levels | None = None) -> list[str]:
    return [doubt.code for doubt in doubts(labelled, levels)]


GOOD = {(0, 0): 90, (0, 1): 10, (1, 1): 95, (1, 2): 5, (2, 2): 80, (2, 0): 20}


def levels(inner: Mapping[str, tuple[str, ...]], beside: int = 1) -> Levels:
    return Levels(root=Path("photos"), inner=inner, beside=beside)


def test_an_original_that_knows_its_labels_is_not_doubted() -> None:
    assert codes(answers(GOOD)) == []
    assert codes(of_shares(0.5)) == []
    assert codes(answers(GOOD), levels(dict.fromkeys(ANIMALS, ()))) == []
    shown = figure(answers(GOOD))
    assert (shown.images, shown.right, shown.most_frequent) == (300, 265, "cat")
    assert shown.text == (
        "top-1 88.3 % (84.2 to 91.5) on 300 images; always cat: 33.3 %, guessing among all outputs: 33.3 %"
    )


def test_the_chance_to_doubt_no_one_who_guesses_is_five_percent() -> None:
    believed = sum("reference_at_chance" not in codes(of_shares(0.0, seed=seed)) for seed in range(400))
    assert believed <= 30  # the expected 20 and two standard deviations
    assert all(codes(of_shares(0.2, seed=seed)) == [] for seed in range(20))


def test_whoever_always_gives_the_most_frequent_label_is_at_chance() -> None:
    [chance] = doubts(answers({(0, 0): 900, (1, 0): 50, (2, 0): 50}))
    assert chance.code == "reference_at_chance"
    assert chance.figures["top1_percent"] == chance.figures["most_frequent_percent"] == 90.0
    # 95 % are better than 90 % if there are enough images.
    assert codes(answers({(0, 0): 900, (1, 1): 40, (1, 0): 10, (2, 0): 40, (2, 2): 10})) == []
    assert codes(answers({(0, 0): 18, (1, 1): 1, (2, 0): 1})) == ["reference_at_chance"]


def test_pixels_of_another_range_are_named_as_the_cause() -> None:
    one_answer = answers({(0, 0): 98, (0, 1): 2, (1, 0): 99, (1, 1): 1, (2, 0): 100})
    chance, most = doubts(one_answer, inputs=Inputs(low=0.0, high=255.0))
    assert (chance.code, most.code) == ("reference_at_chance", "reference_one_answer")
    assert "std (or mean) does not fit pixels from 0 to 1: the prepared pixels reach from 0 to 255" in chance.message
    assert most.message.startswith("the original answers cat for 99.0 % of 300 images, and 33.3 % have that label")
    assert most.figures == {"images": 300, "given_percent": 99.0, "label_percent": pytest.approx(100 / 3)}
    tiny = doubts(one_answer, inputs=Inputs(low=-2.12, high=-2.10))[0]
    assert "mean and std are those of pixels from 0 to 255" in tiny.message
    better = Inputs(low=-2.1, high=2.6, better="mean: [0.5, 0.5, 0.5], std: [0.5, 0.5, 0.5]", better_percent=75.1)
    assert (
        "with mean: [0.5, 0.5, 0.5], std: [0.5, 0.5, 0.5] 75.1 % are right"
        in doubts(one_answer, None, better)[0].message
    )


def test_one_answer_far_beyond_its_share_is_doubted_where_the_others_are_right() -> None:
    assert codes(answers({(0, 0): 100, (1, 1): 100, (2, 0): 90, (2, 2): 10})) == ["reference_one_answer"]
    assert codes(answers({(0, 0): 100, (1, 1): 100, (2, 0): 45, (2, 2): 55})) == []  # 15 points at most
    assert codes(answers({(0, 0): 10, (1, 1): 10, (2, 0): 6, (2, 2): 4})) == []  # too few images to show it


def test_classes_in_another_order_are_told_with_the_order_that_fits() -> None:
    turned = answers({(0, 1): 90, (0, 0): 10, (1, 2): 95, (1, 1): 5, (2, 0): 80, (2, 2): 20})
    doubt_of = {doubt.code: doubt for doubt in doubts(turned)}
    assert list(doubt_of) == ["reference_at_chance", "reference_other_order"]
    order = doubt_of["reference_other_order"]
    assert "cat is answered as dog, dog is answered as eel, eel is answered as cat" in order.message
    assert (order.figures["moved"], order.figures["right_percent"]) == (3, pytest.approx(100 * 265 / 300))
    # Two of ten: 78 % are right, far better than chance.
    swapped = of_shares(0.97)
    turn = {3: 8, 8: 3}
    guesses = [turn.get(guess, guess) for guess in swapped.predicted]
    assert codes(Answers(labels=swapped.labels, predicted=guesses, outputs=10, classes=swapped.classes)) == [
        "reference_other_order"
    ]


def test_numbers_that_are_sorted_as_text_are_named() -> None:
    names = sorted(str(number) for number in range(12))
    cells = {(label, int(name)): 20 for label, name in enumerate(names)}
    [order] = doubts(answers(cells, outputs=12, classes=tuple(names)))  # with 2 of 12 right: better than chance
    assert order.code == "reference_other_order"
    assert "10 stands before 2" in order.next_step


def test_a_class_that_is_taken_for_another_one_is_an_ordinary_mistake() -> None:
    assert codes(answers(GOOD | {(0, 1): 60, (0, 0): 40})) == []


def test_more_outputs_than_folders_are_doubted_unless_the_answers_fit() -> None:
    assert codes(answers(GOOD, outputs=10)) == []
    # Classes 0 to 9 lack folder 7: 8 and 9 count as 7 and 8.
    missing = {(label, label + (label >= 7)): 20 for label in range(9)}
    ten = answers(missing, outputs=10, classes=tuple("012345689"))
    assert codes(ten) == ["reference_other_order", "reference_other_classes"]
    last = answers({(label, label + (label >= 8)): 20 for label in range(9)}, outputs=10, classes=tuple("012345679"))
    [only] = doubts(last)
    assert only.code == "reference_other_classes"
    assert (only.figures["outputs"], only.figures["folders"]) == (10, 9)
    assert "folders of some of its classes are missing" in only.message


def test_embeddings_and_a_folder_too_deep_are_named_as_causes() -> None:
    random = np.random.default_rng(0)
    cells = {(label, int(answer)): 1 for label in range(3) for answer in random.integers(0, 512, 30)}
    for doubt in doubts(answers(cells, outputs=512)):
        assert "embeddings" in doubt.message
    deep = doubts(
        answers({(0, 4): 30, (1, 4): 30}, outputs=5, classes=("black", "white")), levels({"black": (), "white": ()}, 5)
    )
    assert {doubt.code for doubt in deep} >= {"reference_at_chance", "reference_other_classes"}
    assert all("one level too deep" in doubt.message for doubt in deep)


SPLITS = ("test", "train", "val")
INNER = dict.fromkeys(SPLITS, ("cat", "dog", "eel"))


def test_a_data_set_s_root_is_doubted_with_the_path_to_give() -> None:
    random = np.random.default_rng(0)
    labels = [0] * 60 + [1] * 60 + [2] * 60
    root = Answers(
        labels=labels, predicted=[int(guess) for guess in random.integers(0, 3, 180)], outputs=3, classes=SPLITS
    )
    doubt_of = {doubt.code: doubt for doubt in doubts(root, levels(INNER))}
    assert set(doubt_of) == {"reference_at_chance", "reference_split"}
    assert doubt_of["reference_split"].message.startswith("photos seems one level too high")
    assert (
        doubt_of["reference_at_chance"].next_step == doubt_of["reference_split"].next_step == "give path: photos/test"
    )


def test_a_class_that_is_called_train_is_believed_once_its_images_are_answered_so() -> None:
    names = ("bus", "train", "truck")
    folder_levels = levels(dict.fromkeys(names, ()))
    assert codes(answers(GOOD, classes=names), folder_levels) == []
    stray = {(0, 0): 90, (0, 2): 10, (1, 0): 45, (1, 1): 20, (1, 2): 35, (2, 2): 95, (2, 0): 5}
    assert codes(answers(stray, classes=names), folder_levels) == ["reference_split"]


def test_few_images_are_told_from_wrong_answers() -> None:
    [few] = doubts(answers({(0, 0): 2, (1, 1): 1, (2, 2): 1}))
    assert "not shown to be better than chance" in few.message
    assert few.next_step == "evaluate on more images"
    assert binomial_tail(4, 4, 0.5) > 0.05


def test_each_doubt_is_a_trust_label_that_lets_nothing_pass() -> None:
    doubtful = {name for name, label in TRUST.items() if label.doubts_original}
    assert doubtful == {
        "reference_at_chance",
        "reference_one_answer",
        "reference_other_order",
        "reference_other_classes",
        "reference_split",
    }
