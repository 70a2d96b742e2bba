import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.stats import binom

from sweeps.ranking.accuracy_bound import MOST_IMAGES, images_needed, least_images, score, side
from sweeps.stats import drop_of


def by_likelihood(lost, gained, images, bound):
    """The score with the constrained maximum of the likelihood found numerically."""
    share = bound / 100
    alike = images - lost - gained

    def loss(share_gained):
        shares = share_gained + share, share_gained, 1 - 2 * share_gained - share
        counted = zip((lost, gained, alike), shares, strict=True)
        return -sum(count * math.log(max(each, 1e-300)) for count, each in counted if count)

    least, most = max(0.0, -share), (1 - share) / 2
    inner = minimize_scalar(loss, bounds=(least, most), method="bounded", options={"xatol": 1e-12}).x
    best = min((least, most, inner), key=loss)
    return (lost - gained - images * share) / math.sqrt(images * (2 * best + share - share**2))


@pytest.mark.parametrize("bound", [-2.0, 0.5, 1.0, 5.0])
@pytest.mark.parametrize(
    ("lost", "gained", "images"), [(0, 0, 300), (1, 1, 390), (5, 7, 480), (40, 3, 597), (0, 9, 100), (60, 60, 120)]
)
def test_the_score_is_that_of_a_likelihood_maximised_numerically(lost, gained, images, bound):
    assert score(lost, gained, images, bound) == pytest.approx(by_likelihood(lost, gained, images, bound), rel=1e-4)


@given(st.integers(0, 40), st.integers(0, 40), st.integers(1, 3000), st.floats(-20, 20))
def test_the_score_falls_with_the_bound_and_does_not_care_who_is_called_the_original(lost, gained, alike, bound):
    images = lost + gained + alike
    at_bound = score(lost, gained, images, bound)
    assert score(lost, gained, images, bound + 0.5) < at_bound or at_bound == 0.0
    assert score(gained, lost, images, -bound) == pytest.approx(-at_bound, abs=1e-9)


def error(images, differ, drop, bound):
    """The chance that a build is shown to lose at most `bound` points, exactly: over all numbers of images that differ
    and of those that are lost. `differ`: the true share of answers that differ; `drop`: the true drop in points."""
    share_lost = (differ + drop / 100) / 2 / differ
    total = 0.0
    for number in range(images + 1):
        chance = binom.pmf(number, images, differ)
        if chance < 1e-9:
            continue
        # The score grows with the images lost, so those that pass are the first ones.
        passing = sum(score(lost, number - lost, images, bound) <= -1.6448536 for lost in range(number + 1))
        total += chance * binom.cdf(passing - 1, number, share_lost)
    return total


@pytest.mark.parametrize("images", [300, 480, 1000])
@pytest.mark.parametrize("differ", [0.012, 0.02, 0.05, 0.1])
def test_a_drop_that_equals_the_bound_is_called_kept_in_at_most_a_twentieth(images, differ):
    share = error(images, differ, 1.0, 1.0)
    assert 0.037 < share <= 0.05


@pytest.mark.parametrize(("bound", "images"), [(1.0, 268), (0.5, 539), (2.0, 133), (100.0, 1)])
def test_so_many_images_are_the_fewest_for_a_build_that_answers_like_the_original(bound, images):
    assert least_images(bound) == images
    assert side(0, 0, images, bound) == "below"
    assert bound == 100.0 or side(0, 0, images - 1, bound) is None


@pytest.mark.parametrize("bound", [0.0, -1.0])
def test_no_number_of_images_shows_that_nothing_is_lost(bound):
    assert least_images(bound) is None
    assert side(0, 0, 10_000, bound) != "below"


def first_passing(lost, gained, passes):
    return next(images for images in range(lost + gained + 1, 5000) if passes(lost, gained, images))


def test_fewer_images_are_needed_than_the_two_sided_interval_needed():
    def two_sided(lost, gained, images):
        return drop_of(lost, gained, images).high <= 1.0

    def one_sided(lost, gained, images):
        return side(lost, gained, images, 1.0) == "below"

    counts = [(0, 0), (1, 1), (5, 5)]
    assert [first_passing(*pair, two_sided) for pair in counts] == [276, 390, 677]
    assert [first_passing(*pair, one_sided) for pair in counts] == [268, 355, 584]


@given(st.integers(0, 60), st.integers(0, 60), st.integers(1, 3000), st.sampled_from([0.5, 1.0, 2.0, 5.0]))
def test_what_the_two_sided_interval_showed_is_still_shown(lost, gained, alike, bound):
    images = lost + gained + alike
    drop = drop_of(lost, gained, images)
    assert drop.high > bound or side(lost, gained, images, bound) == "below"


@pytest.mark.parametrize(("lost", "gained", "images"), [(5, 3, 480), (1, 1, 200), (12, 2, 597)])
def test_so_many_more_images_settle_it_if_answers_go_on_to_differ_as_they_do(lost, gained, images):
    needed = images_needed(lost, gained, images, 1.0)
    assert needed.keeps is (100 * (lost - gained) / images < 1.0)
    total = images + needed.more
    settled_score = score(lost * total / images, gained * total / images, total, 1.0)
    assert abs(settled_score) >= 1.6448
    assert abs(settled_score) < 1.66
    assert needed.fewest <= needed.more
    assert needed.most is None or needed.more <= needed.most


def test_the_number_is_shown_with_its_range():
    assert images_needed(5, 3, 480, 1.0).text == (
        "about 1,100 more evaluation images would show that it is (550 to 2,300, by how often answers differ)"
    )
    assert images_needed(12, 2, 597, 1.0).text == (
        "about 600 more evaluation images would show that it is not (up to 1,700, by how often answers differ)"
    )


def test_a_drop_that_equals_its_bound_is_settled_by_no_number_of_images():
    needed = images_needed(5, 0, 500, 1.0)
    assert (needed.more, needed.most) == (None, None)
    assert needed.text == f"not settled with {MOST_IMAGES:,} more evaluation images"


def test_what_is_settled_needs_no_images():
    assert images_needed(0, 0, 268, 1.0) is None
    assert images_needed(30, 0, 500, 1.0) is None
    assert np.isclose(score(0, 0, 268, 1.0), -1.6453, atol=1e-3)
