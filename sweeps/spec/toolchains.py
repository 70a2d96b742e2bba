"""Toolchains: releases of a runtime's library besides the installed one, and the torch release that each pairs with.
Pure data.

A sweep file writes them as pip does, such as `onnxruntime==1.31.1`; the library has the same name as its runtime.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from sweeps.errors import did_you_mean
from sweeps.variant import INSTALLED

SAME = "same"
"""Value of `runner_toolchain` in a sweep file by which the release that built a model also runs it."""
PATTERN = r"[a-z][a-z0-9_]{0,31}==[0-9][0-9A-Za-z.]{0,31}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """Library of a runtime, of which one machine can have several releases."""

    modules: tuple[str, ...]
    """Modules that must be importable from a release together with the other installed packages."""
    mb: int
    """Size on the disk in MB of the release that EdgeSweep is tested with; other releases differ somewhat."""
    oldest: str = ""
    """Oldest release that may be used; empty if any may."""
    why_oldest: str = ""
    torch: Mapping[str, str] = field(default_factory=dict)
    """Series of torch that each series of the library (`1.3` for 1.3.1) pairs with; empty if the library needs no
    torch."""

    @property
    def pairs(self) -> Mapping[str, str]:
        """The compatible pairs of releases, in words."""
        mates = {f"{series}.x": f"torch {mate}" for series, mate in self.torch.items()}
        return mates or {f"{self.oldest} or newer: {self.oldest} is {self.why_oldest}": "any torch"}


LIBRARIES: Mapping[str, Library] = MappingProxyType(
    {
        "onnxruntime": Library(
            modules=("onnxruntime", "onnxruntime.quantization", "onnxruntime.transformers.float16"),
            mb=65,
            oldest="1.19",
            why_oldest="the first that takes numpy 2",
        ),
        "executorch": Library(
            modules=("executorch.exir", "executorch.runtime"),
            mb=102,
            torch={"1.0": "2.9", "1.1": "2.10", "1.2": "2.11", "1.3": "2.12", "1.4": "2.13", "1.5": "2.14"},
        ),
    }
)
"""Libraries by the name of their package, which is also the runtime's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolchain:
    """Release of a library."""

    package: str
    version: str

    @property
    def text(self) -> str:
        """The release as in a sweep file, such as `onnxruntime==1.31.1`."""
        return f"{self.package}=={self.version}"

    @property
    def word(self) -> str:
        """The release as in labels and names of folders, such as `onnxruntime-1.31.1`."""
        return f"{self.package}-{self.version}"

    @property
    def library(self) -> Library:
        return LIBRARIES[self.package]

    @property
    def to_add(self) -> str:
        """The command that installs the release, with its approximate size."""
        return f"edgesweep toolchain add {self.text} (about {self.library.mb} MB)"


def toolchain(text: str) -> Toolchain:
    """Parse the text of a release. Raises `ValueError` with the reason if it is none."""
    package, _, version = text.partition("==")
    if not re.fullmatch(PATTERN, text):
        raise ValueError(
            f"{text[:80]!r} is no release: write for instance onnxruntime==1.31.1, or {INSTALLED} for the one here"
        )
    if package not in LIBRARIES:
        near = did_you_mean(package, LIBRARIES)
        raise ValueError(f"{package} has no releases to choose from (there are: {', '.join(LIBRARIES)}){near}")
    return Toolchain(package=package, version=version)


def of_runtime(values: Iterable[str], runtime: str) -> tuple[str, ...]:
    """Return the values of a toolchain axis that concern this runtime, without releases of other runtimes'
    libraries."""
    return tuple(value for value in values if "==" not in value or value.partition("==")[0] == runtime)


def word(text: str) -> str:
    """Return the form of a release for labels: `onnxruntime-1.31.1`, or `installed`."""
    return text.replace("==", "-")


def versions_with(own: Mapping[str, str], built_by: str, run_by: str) -> dict[str, str]:
    """Return the versions that are part of a build key. `own`: the installed versions. A chosen release replaces the
    installed one, which is kept under another name only if it runs the build."""
    if built_by == INSTALLED:
        return dict(own)
    chosen = toolchain(built_by)
    runs = {f"{chosen.package} that runs": own.get(chosen.package, "unknown")} if run_by == INSTALLED else {}
    return {**own, chosen.package: chosen.version, **runs}


def refusal(chosen: Toolchain, torch: str) -> tuple[str, str] | None:
    """Return the reason why a release cannot be used with this torch, and the next step; `None` if it can."""
    library = chosen.library
    if library.oldest and _numbers(chosen.version) < _numbers(library.oldest):
        return (
            f"{chosen.text} is older than {library.oldest}, {library.why_oldest}",
            f"take {library.oldest} or newer",
        )
    if not library.torch:
        return None
    mates = library.torch.get(_series(chosen.version))
    if mates is None:
        return f"it is not known which torch {chosen.text} pairs with", f"known are: {_paired(library)}"
    if mates != _series(torch):
        return (
            f"{chosen.text} pairs with torch {mates}, and here is torch {torch}: a toolchain has no torch of its own, "
            "which would take several GB",
            f"take one that pairs with it ({_paired(library)}); or install EdgeSweep once more with that torch, and "
            "compare the two sweeps: edgesweep compare",
        )
    return None


def refusal_of_installed(chosen: Toolchain, torch: str) -> tuple[str, str] | None:
    """Return the refusal (see `refusal`) of the installed release. A release that the table lacks is accepted, because
    it may be newer than the table."""
    by_series = chosen.library.torch
    mate = by_series.get(_series(chosen.version), _series(torch))
    if mate == _series(torch):
        return None
    fitting = next((series for series, other_torch in by_series.items() if other_torch == _series(torch)), "")
    return (
        f"{chosen.package} {chosen.version} pairs with torch {mate}, and torch {torch} is installed",
        f"pip install '{chosen.package}=={fitting}.*'" if fitting else f"install a pair: {_paired(chosen.library)}",
    )


def _paired(library: Library) -> str:
    return ", ".join(f"{series} with torch {mate}" for series, mate in library.torch.items())


def _series(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _numbers(version: str) -> tuple[int, ...]:
    """Return the numbers of a release; `1.31.1` and `1.31.1rc1` give the same."""
    return tuple(int(match[0]) for part in version.split(".") if (match := re.match(r"[0-9]+", part)))
