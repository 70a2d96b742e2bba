import hashlib
import os
import shutil
import socket
import stat
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch
import torchvision.transforms
from PIL import Image

from sweeps.errors import DataError
from sweeps.spec.model_inputs import DataSpec, DigitsData, FolderData, SyntheticData, TorchvisionData
from tests.workers.models.mnist import mnist
from workers.models.image_sets import as_loaded, digits_for_training, load, manifests
from workers.models.model_check import try_folders

SHAPE = (1, 3, 32, 32)


def picture(path: Path, seed: int, size: tuple[int, int] = (40, 50)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (*size, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)
    return path


@pytest.fixture
def animals(tmp_path: Path) -> Path:
    root = tmp_path / 'it\'s "my" data'
    for i in range(10):
        picture(root / "cat" / f"{i}.png", seed=i)
        picture(root / "dog" / f"{i}.png", seed=100 + i)
    return root


def folders(calibration: Path, evaluation: Path, images: int | None = None) -> DataSpec:
    return DataSpec(
        calibration=FolderData(source="folder", path=calibration, images=images),
        evaluation=FolderData(source="folder", path=evaluation),
    )


def test_all_597_held_out_digits_are_evaluated_and_none_calibrates_or_trains() -> None:
    data = DataSpec(calibration=DigitsData(source="digits"), evaluation=DigitsData(source="digits"))
    calibration, evaluation = manifests(data)
    assert evaluation.count == 597
    assert calibration.count == 1200 - calibration.removed
    assert not set(calibration.images) & set(evaluation.images)
    training, held_out = digits_for_training(SHAPE)
    assert (len(training), len(held_out)) == (1200, 597)
    pixels = {image.tobytes() for image in held_out.images}
    assert sum(image.tobytes() in pixels for image in training.images) == calibration.removed


def test_digits_are_held_out_in_the_proportions_of_the_classes() -> None:
    _, evaluation = load(DataSpec(), SHAPE)
    assert evaluation.labels is not None
    assert set(np.bincount(evaluation.labels)) <= {57, 58, 59, 60, 61, 62}
    assert set(np.bincount(evaluation.labels[:100])) <= {9, 10, 11}


def test_digits_have_the_models_shape_and_stay_within_one() -> None:
    calibration, evaluation = load(DataSpec(), (1, 1, 24, 20))
    assert calibration.images.shape == (100, 1, 24, 20)
    assert evaluation.images.shape == (597, 1, 24, 20)
    assert evaluation.images.dtype == np.float32
    assert evaluation.images.min() == -1.0
    assert evaluation.images.max() == 1.0


def test_manifests_need_no_torch_and_are_the_same_in_every_process(animals: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from workers.models.image_sets import manifests;"
        "from sweeps.spec.model_inputs import DataSpec, FolderData, DigitsData;"
        "folder = FolderData(source='folder', path=Path(sys.argv[1]));"
        "d = DataSpec(calibration=folder, evaluation=DigitsData(source='digits'));"
        "a, b = manifests(d); assert 'torch' not in sys.modules; print(a.id, b.id)"
    )
    argv = [sys.executable, "-c", program, str(animals)]
    root = Path(__file__).parents[3]
    printed = {subprocess.run(argv, cwd=root, capture_output=True, check=True, text=True).stdout for _ in range(2)}
    assert len(printed) == 1


def test_synthetic_images_are_seeded_and_never_in_both_sets() -> None:
    synthetic = SyntheticData(source="synthetic", images=4, seed=3)
    calibration, evaluation = load(DataSpec(calibration=synthetic, evaluation=synthetic), SHAPE)
    second, _ = load(DataSpec(calibration=synthetic, evaluation=synthetic), SHAPE)
    assert np.array_equal(calibration.images, second.images)
    assert not {image.tobytes() for image in calibration.images} & {image.tobytes() for image in evaluation.images}
    assert evaluation.labels is None


@pytest.mark.parametrize("channels", [1, 4, 6])
def test_generated_images_have_as_many_channels_as_the_model_takes(channels: int) -> None:
    synthetic = SyntheticData(source="synthetic", images=3)
    for data in (DataSpec(calibration=synthetic, evaluation=synthetic), DataSpec(calibration=synthetic)):
        for images in load(data, (1, channels, 8, 8)):
            assert images.images.shape[1:] == (channels, 8, 8)


def test_one_folder_for_both_is_divided_in_the_proportions_of_its_classes(animals: Path) -> None:
    calibration, evaluation = load(folders(animals, animals, images=4), SHAPE)
    assert calibration.labels is not None
    assert evaluation.labels is not None
    assert np.bincount(calibration.labels).tolist() == [2, 2]
    assert np.bincount(evaluation.labels).tolist() == [8, 8]
    assert evaluation.classes == ("cat", "dog")
    first, second = manifests(folders(animals, animals, images=4))
    assert not set(first.images) & set(second.images)


def test_one_folder_for_both_gives_calibration_a_fifth_where_no_number_is_named(animals: Path) -> None:
    calibration, evaluation = manifests(folders(animals, animals))
    assert (calibration.count, evaluation.count) == (4, 16)


def test_calibration_takes_a_hundred_images_where_no_number_is_named(tmp_path: Path) -> None:
    for i in range(520):
        picture(tmp_path / "many" / f"class {i % 2}" / f"{i}.png", seed=i, size=(2, 2))
    picture(tmp_path / "few" / "only" / "a.png", seed=1000)
    assert [part.count for part in manifests(folders(tmp_path / "many", tmp_path / "many"))] == [100, 420]
    assert [part.count for part in manifests(folders(tmp_path / "many", tmp_path / "few"))] == [100, 1]
    assert [part.count for part in manifests(folders(tmp_path / "many", tmp_path / "few", images=110))] == [110, 1]


@pytest.mark.parametrize("source", ["folder", "digits", "synthetic", "torchvision"])
def test_a_set_that_would_fill_the_memory_is_refused_before_it_is_made(
    animals: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    evaluation = {
        "folder": FolderData(source="folder", path=animals),
        "digits": DigitsData(source="digits", images=20),
        "synthetic": SyntheticData(source="synthetic", images=20),
        "torchvision": mnist(tmp_path, train=[1], test=list(range(20))),
    }[source]
    data = DataSpec(calibration=SyntheticData(source="synthetic", images=1), evaluation=evaluation)
    assert len(load(data, SHAPE)[1]) == 20
    ram_bytes = psutil.virtual_memory().total
    monkeypatch.setattr("workers.models.dataset.LARGEST_SHARE_OF_RAM", 10.5 * 3 * 32 * 32 * 4 / ram_bytes)
    with pytest.raises(DataError, match=r"20 images of \[3, 32, 32\] take (.|\n)*at most images: 10,"):
        load(data, SHAPE)


def test_an_image_that_lies_in_both_folders_is_not_calibrated_with(animals: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    picture(other / "cat" / "new.png", seed=999)
    (other / "dog").mkdir()
    (other / "dog" / "renamed.png").write_bytes((animals / "dog" / "3.png").read_bytes())
    calibration, evaluation = manifests(folders(other, animals))
    assert calibration.removed == 1
    assert calibration.images == (hashlib.sha256((other / "cat" / "new.png").read_bytes()).hexdigest(),)
    assert evaluation.count == 20
    assert len(load(folders(other, animals), SHAPE)[0]) == 1


def test_two_equal_folders_leave_nothing_to_calibrate_with(animals: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    for path in animals.rglob("*.png"):
        target = copy / path.relative_to(animals)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
    assert manifests(folders(copy, animals))[0].count == 0
    calibration, evaluation = load(folders(copy, animals), SHAPE)
    assert (len(calibration), len(evaluation)) == (0, len(list(animals.rglob("*.png"))))
    assert "every calibration image is in the evaluation set" in calibration.unusable


@pytest.mark.parametrize("damage", ["no folder", "no images", "no image"])
def test_a_calibration_set_that_cannot_be_used_is_empty_and_says_why(
    animals: Path, tmp_path: Path, damage: str
) -> None:
    broken = tmp_path / "broken"
    if damage == "no images":
        (broken / "cat").mkdir(parents=True)
    elif damage == "no image":
        (broken / "cat").mkdir(parents=True)
        (broken / "cat" / "bad.png").write_bytes(b"not an image")
    calibration, evaluation = load(folders(broken, animals), SHAPE)
    assert calibration.images.shape == (0, *SHAPE[1:])
    assert len(evaluation) > 0
    assert "broken" in calibration.unusable or "bad.png" in calibration.unusable
    before = manifests(folders(broken, animals))[0].id
    (broken / "cat").mkdir(parents=True, exist_ok=True)
    (broken / "cat" / "bad.png").unlink(missing_ok=True)
    picture(broken / "cat" / "good.png", seed=77)
    mended = folders(broken, animals)
    assert manifests(mended)[0].id != before, "builds that failed by it are other builds now"
    assert len(load(mended, SHAPE)[0]) == 1


def test_a_changed_image_changes_the_id_and_moving_the_folder_does_not(animals: Path, tmp_path: Path) -> None:
    data = DataSpec(evaluation=FolderData(source="folder", path=animals))
    before = manifests(data)[1].id
    moved = animals.rename(tmp_path / "moved")
    data = DataSpec(evaluation=FolderData(source="folder", path=moved))
    assert manifests(data)[1].id == before
    picture(moved / "cat" / "0.png", seed=4711)
    assert manifests(data)[1].id != before


@pytest.mark.parametrize("size", [(300, 500), (500, 300), (256, 256), (20, 33)])
def test_folders_are_prepared_as_torchvision_does_it(tmp_path: Path, size: tuple[int, int]) -> None:
    picture(tmp_path / "data" / "only" / "a.png", seed=1, size=size)
    source = FolderData(source="folder", path=tmp_path / "data")
    _, evaluation = load(DataSpec(evaluation=source), (1, 3, 224, 224))
    usual = torchvision.transforms.Compose(
        [
            torchvision.transforms.Resize(256),
            torchvision.transforms.CenterCrop(224),
            torchvision.transforms.ToTensor(),
            torchvision.transforms.Normalize(source.mean, source.std),
        ]
    )
    expected: torch.Tensor = usual(Image.open(tmp_path / "data" / "only" / "a.png"))
    np.testing.assert_allclose(evaluation.images[0], expected.numpy(), atol=1e-6)


def test_grey_and_transparent_images_are_fed_to_models_of_one_and_three_channels(tmp_path: Path) -> None:
    for mode, name in (("L", "grey"), ("RGBA", "transparent"), ("P", "palette")):
        (tmp_path / "data" / "only").mkdir(parents=True, exist_ok=True)
        Image.new(mode, (40, 40), 77 if mode != "RGBA" else (1, 2, 3, 4)).save(
            tmp_path / "data" / "only" / f"{name}.png"
        )
    data = DataSpec(evaluation=FolderData(source="folder", path=tmp_path / "data"))
    assert load(data, (1, 3, 32, 48))[1].images.shape == (3, 3, 32, 48)
    assert load(data, (1, 1, 32, 48))[1].images.shape == (3, 1, 32, 48)
    with pytest.raises(DataError, match="the model takes 4"):
        load(data, (1, 4, 32, 48))


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"there is no folder .*nowhere"):
        manifests(DataSpec(evaluation=FolderData(source="folder", path=tmp_path / "nowhere")))


def test_an_empty_class_is_named(animals: Path) -> None:
    (animals / "eel").mkdir()
    with pytest.raises(DataError, match="the class eel has no images"):
        manifests(DataSpec(evaluation=FolderData(source="folder", path=animals)))


def test_a_folder_of_bare_images_is_told_how_to_be_ordered(tmp_path: Path) -> None:
    picture(tmp_path / "flat" / "a.png", seed=1)
    with pytest.raises(DataError, match="one sub-folder per class"):
        manifests(DataSpec(evaluation=FolderData(source="folder", path=tmp_path / "flat")))


@pytest.mark.parametrize("content", [b"", b"not an image", b"\x89PNG\r\n\x1a\n" + b"\0" * 40])
def test_an_unreadable_image_is_named(animals: Path, content: bytes) -> None:
    (animals / "cat" / "bad.png").write_bytes(content)
    with pytest.raises(DataError, match=r"cat/bad\.png"):
        load(DataSpec(evaluation=FolderData(source="folder", path=animals)), SHAPE)


def test_a_truncated_image_is_named(animals: Path) -> None:
    path = animals / "cat" / "0.png"
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(DataError, match=r"cat/0\.png is not a readable image"):
        load(DataSpec(evaluation=FolderData(source="folder", path=animals)), SHAPE)


@pytest.mark.parametrize("side", [10_000, 60_000])
def test_a_decompression_bomb_is_an_error_with_its_name(animals: Path, side: int) -> None:
    def chunk(name: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    header = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    bomb = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0")) + chunk(b"IEND", b"")
    (animals / "cat" / "bomb.png").write_bytes(bomb)
    with pytest.raises(DataError, match=r"bomb\.png has too many pixels"):
        load(DataSpec(evaluation=FolderData(source="folder", path=animals)), SHAPE)


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        cwd = Path.cwd()
        os.chdir(path.parent)  # an address has a hundred letters at most
        try:
            listening.bind(path.name)
        finally:
            os.chdir(cwd)


def _device(path: Path) -> None:
    os.mknod(path, stat.S_IFCHR | 0o644, os.makedev(1, 5))  # the numbers of /dev/zero


@pytest.mark.parametrize(("make", "kind"), [(_pipe, "a pipe"), (_socket, "a socket"), (_device, "a device file")])
def test_what_is_no_file_among_the_images_is_named_and_not_read(
    animals: Path, make: Callable[[Path], None], kind: str
) -> None:
    try:
        make(animals / "dog" / "odd.png")
    except PermissionError:
        pytest.skip("only root makes device files")
    with pytest.raises(DataError, match=rf"odd\.png is {kind}, not an image"):
        manifests(folders(animals, animals))


def test_an_image_that_may_not_be_read_is_named(animals: Path) -> None:
    locked = min((animals / "dog").iterdir())
    locked.chmod(0)
    # To root it is open: without these two capabilities it is not.
    as_others = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
    if as_others and (not shutil.which("setpriv") or subprocess.run([*as_others, "true"]).returncode):
        pytest.skip("root cannot lay down its rights here")
    program = (
        "import sys; from pathlib import Path; from sweeps.errors import DataError\n"
        "from sweeps.spec.model_inputs import DataSpec, FolderData; from workers.models.image_sets import manifests\n"
        "try: manifests(DataSpec(evaluation=FolderData(source='folder', path=Path(sys.argv[1]))))\n"
        "except DataError as error: print(error.one_line)"
    )
    command = [*as_others, sys.executable, "-c", program, str(animals)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert f"{locked} cannot be read: Permission denied (give it read permission, or remove it)" in done.stdout


@pytest.mark.fault(43, "an image that is a link out of its folder", "refused by name")
def test_a_link_out_of_the_folder_is_refused(animals: Path, tmp_path: Path) -> None:
    outside = picture(tmp_path / "elsewhere" / "secret.png", seed=5)
    (animals / "cat" / "link.png").symlink_to(outside)
    with pytest.raises(DataError, match=r"link\.png is a link to a place outside"):
        manifests(DataSpec(evaluation=FolderData(source="folder", path=animals)))


@pytest.mark.fault(43, "a class that is a link out of its folder", "refused by name")
def test_a_class_that_is_a_link_out_of_the_folder_is_refused(animals: Path, tmp_path: Path) -> None:
    picture(tmp_path / "elsewhere" / "secret.png", seed=5)
    (animals / "fox").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DataError, match="fox is a link to a place outside"):
        manifests(DataSpec(evaluation=FolderData(source="folder", path=animals)))


def test_an_unknown_torchvision_data_set_is_answered_with_the_ones_that_come_close(tmp_path: Path) -> None:
    source = TorchvisionData(source="torchvision", dataset="CIFAR01", root=tmp_path)
    with pytest.raises(DataError, match="CIFAR10"):
        manifests(DataSpec(evaluation=source))


def test_a_torchvision_data_set_is_calibrated_on_train_and_evaluated_on_test(tmp_path: Path) -> None:
    source = mnist(tmp_path, train=[1, 2, 3, 104], test=[3, 55, 66])
    calibration, evaluation = load(DataSpec(calibration=source, evaluation=source), (1, 1, 28, 28))
    assert {round(float(image[0, 0, 0]) * 255) for image in evaluation.images} == {3, 55, 66}
    assert {round(float(image[0, 0, 0]) * 255) for image in calibration.images} == {1, 2, 104}
    assert evaluation.labels is not None
    values = [round(float(image[0, 0, 0]) * 255) for image in evaluation.images]
    assert [value % 10 for value in values] == evaluation.labels.tolist()


def test_the_first_part_of_a_torchvision_data_set_is_balanced(tmp_path: Path) -> None:
    source = mnist(tmp_path, train=[1], test=[*range(0, 200, 10), *range(1, 101, 10), *range(2, 102, 10)])
    data = DataSpec(calibration=SyntheticData(source="synthetic"), evaluation=source.model_copy(update={"images": 8}))
    labels = load(data, (1, 1, 28, 28))[1].labels
    assert labels is not None
    assert np.bincount(labels).tolist() == [4, 2, 2]


def test_a_torchvision_data_set_is_recorded_with_its_content_once_it_is_there(tmp_path: Path) -> None:
    sources = [mnist(tmp_path / name, train=[1], test=[3, value]) for name, value in (("a", 55), ("b", 65))]
    recorded = []
    for source in sources:
        data = DataSpec(calibration=SyntheticData(source="synthetic"), evaluation=source)
        planned, loaded = manifests(data)[1], load(data, (1, 1, 28, 28))[1]
        recorded.append(as_loaded(source, planned, loaded))
        assert planned.id in recorded[-1].source
        assert recorded[-1].count == 2
    first, second = recorded
    assert first.labels == second.labels
    assert len(set(first.images) & set(second.images)) == 1
    assert first.id != second.id


def test_what_calibration_leaves_out_is_part_of_its_id(tmp_path: Path) -> None:
    source = mnist(tmp_path, train=[1, 2], test=[3])
    first, _ = manifests(DataSpec(calibration=source, evaluation=source))
    second, _ = manifests(DataSpec(calibration=source, evaluation=DigitsData(source="digits")))
    assert first.id != second.id


def test_without_a_network_a_download_says_so_and_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Nothing listens there: as good as no network on every machine.
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    source = TorchvisionData(source="torchvision", dataset="CIFAR10", root=tmp_path / "downloads")
    with pytest.raises(DataError, match="no network: CIFAR10"):
        load(DataSpec(evaluation=source), SHAPE)


def test_what_is_no_image_by_its_content_is_refused_by_name_before_a_run_and_in_it(animals: Path) -> None:
    (animals / "cat" / "0.png").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n")
    data = DataSpec(evaluation=FolderData(source="folder", path=animals))
    with pytest.raises(DataError, match=r"cat/0\.png is not a readable image: no image format that is known"):
        load(data, SHAPE)
    problems = [check.message for _, _, check in try_folders(data, 60.0) if check.problem]
    assert len(problems) == 1
    assert "cat/0.png is not a readable image" in problems[0]
