"""Warnings about image folders that are one level too high or too deep: a data set's root whose splits would be taken
for classes, or one class whose parts would be. Only names are read, no image."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from sweeps.spec.image_folders import files_of, left_out, named_classes
from sweeps.spec.model_inputs import DataSpec, FolderData
from sweeps.text import some

_SPLITS = frozenset(
    [
        "train",
        "training",
        "trainval",
        "val",
        "valid",
        "validation",
        "dev",
        "test",
        "testing",
        "eval",
        "evaluation",
        "holdout",
        "calib",
        "calibration",
    ]
)
_BESIDE = frozenset(
    ["set", "data", "dataset", "split", "part", "images", "imgs", "image", "img", "folder", "fold", "of", "the"]
)
"""Words that may stand beside a split's name without changing its meaning, as in `train_images` or `test-set`."""
MOST_CLASSES = 5
"""Most classes that a message names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Levels:
    """Levels of folders around the images of one `source: folder`."""

    root: Path
    inner: Mapping[str, tuple[str, ...]]
    """Sub-folders that hold all images of a class, by class; empty if an image lies directly in the class's folder."""
    beside: int
    """Number of folders in the parent of `root`, including `root`; these are the classes if `root` is one class."""

    @property
    def splits(self) -> tuple[str, ...]:
        """The classes whose names are those of a data set's splits."""
        return tuple(name for name in self.inner if is_split(name))

    @property
    def too_high(self) -> tuple[str, ...]:
        """The sub-folders that are probably the real classes; empty if nothing indicates that `root` is one level too
        high."""
        inside = list(self.inner.values())
        if not inside or not all(inside):
            return ()
        uniform = len(set(inside)) == 1 and (len(inside) == 1 or len(inside[0]) > 1)
        return tuple(sorted(set().union(*inside))) if uniform or len(self.splits) > 1 else ()

    @property
    def below(self) -> Path:
        """The folder to give instead if `root` is one level too high: a split for evaluation if there is one, otherwise
        the first folder."""
        held_out = [name for name in self.inner if is_split(name) and not name.lower().startswith(("train", "calib"))]
        return self.root / (held_out or list(self.inner))[0]

    @property
    def doubted(self) -> bool:
        """Tell whether the sub-folders are probably no classes. A single sub-folder with a split's name may be a class,
        as in CIFAR-100."""
        return bool(self.too_high) or len(self.splits) > 1

    @property
    def what(self) -> str:
        """The doubt about the folder, for people; empty if there is none."""
        if self.too_high:
            return (
                f"{self.root} seems one level too high: {some(list(self.inner), MOST_CLASSES)} would be the classes, "
                f"and all their images lie in sub-folders ({some(self.too_high, MOST_CLASSES)})"
            )
        if self.splits:
            named = "is named like a split" if len(self.splits) == 1 else "are named like splits"
            kind = "a class" if len(self.splits) == 1 else "classes"
            return f"{some(self.splits, MOST_CLASSES)} in {self.root} {named} of a data set, and taken for {kind}"
        return ""

    @property
    def next_step(self) -> str:
        if self.too_high:
            return f"give path: {self.below}"
        return "if not so, give the folder that holds the classes as path" if self.splits else ""

    @property
    def text(self) -> str:
        """The doubt and the next step, in one line; empty if nothing is doubtful."""
        return f"{self.what}: {self.next_step}" if self.what else ""


def levels_of(root: Path) -> Levels:
    """Return the levels of a folder of classes. Raises `OSError`."""
    home = root.resolve()
    try:
        beside = sum(neighbour.is_dir() and not neighbour.name.startswith(".") for neighbour in home.parent.iterdir())
    except OSError:  # a readable folder may have an unreadable parent
        beside = 0
    return Levels(root=root, inner={name: _inner(root / name) for name in named_classes(root)}, beside=beside)


def evaluated_levels(data: DataSpec) -> Levels | None:
    """Return the levels of the evaluation images' folder; `None` if they come from no folder, or it cannot be read."""
    if not isinstance(data.evaluation, FolderData):
        return None
    try:
        return levels_of(data.evaluation.path)
    except OSError:
        return None


def folder_warnings(data: DataSpec) -> Iterator[str]:
    """Yield, for each image folder of `data`, a line about the files that are left out and a line about doubtful
    levels, if any. A folder that cannot be read is skipped, because the code that reads its images raises the error."""
    roots = {source.path for source in (data.calibration, data.evaluation) if isinstance(source, FolderData)}
    for root in sorted(roots):
        try:
            texts = left_out(root).text, levels_of(root).text
        except OSError:
            continue
        yield from filter(None, texts)


def is_split(name: str) -> bool:
    """Tell whether a folder has the name of a split: `train`, `Validation`, `val2017`, `test_images`."""
    words = set(re.findall(r"[a-z]+", name.lower()))
    return bool(words & _SPLITS) and words <= _SPLITS | _BESIDE


def _inner(folder: Path) -> tuple[str, ...]:
    parts = [path.relative_to(folder).parts for path in files_of(folder)[0]]
    return () if any(len(part) == 1 for part in parts) else tuple(sorted({part[0] for part in parts}))
