"""Too few images are told where the sweep file alone shows it, before any download."""

import pytest

from sweeps.spec.image_folders import evaluation_images
from sweeps.spec.model_inputs import DataSpec, SyntheticData, TorchvisionData
from sweeps.spec.objective import ObjectiveSpec
from workers.models.too_few_images import too_few_images


def data(images: int | None) -> DataSpec:
    cifar = TorchvisionData(source="torchvision", dataset="CIFAR10", images=images)
    return DataSpec(calibration=SyntheticData(source="synthetic"), evaluation=cifar)


@pytest.mark.parametrize(("images", "warned"), [(200, True), (268, False), (None, False)])
def test_of_a_set_that_is_not_downloaded_the_files_own_limit_is_the_most(images: int | None, warned: bool) -> None:
    warnings = list(too_few_images(data(images), ObjectiveSpec()))
    assert bool(warnings) is warned
    assert all(text.endswith("at most 1 points: write data: evaluation: images: 268 or more") for text in warnings)
    assert (evaluation_images(data(images)) is None) is (images is None)
