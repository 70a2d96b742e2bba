"""The groups of rows that may be compared: those of one place, measured under the same conditions with one version of
each runtime.

The version of PyTorch on a phone is part of the phone's fingerprint, that of every other runtime only of the build. So
rows of several runtimes are compared, whatever their versions, but not rows of one runtime in two versions, unless the
sweep chose these versions (`runner_toolchain`).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from sweeps.results import ComparisonConditions, ResultRow
from sweeps.spec import built_in
from sweeps.variant import INSTALLED


def alike(
    rows: Iterable[ResultRow], key: Callable[[ResultRow], Any] = lambda row: row.comparable
) -> list[list[ResultRow]]:
    """Return groups of rows that may be compared, in a fixed order: in each group the key is equal, and no runtime has
    two versions that the sweep did not choose."""
    groups: list[list[ResultRow]] = []
    by_key: dict[Any, list[ResultRow]] = {}
    for row in rows:
        by_key.setdefault(key(row), []).append(row)
    for _, group in sorted(by_key.items(), key=lambda item: item[0]):
        versions = sorted({(row.runtime_version, _library(row)) for row in group})
        if len({library for _, library in versions}) == len(versions):
            groups.append(group)
        else:
            distinct = dict.fromkeys(version for version, _ in versions)
            groups += [[row for row in group if row.runtime_version == version] for version in distinct]
    return groups


def conditions_of(group: Sequence[ResultRow]) -> ComparisonConditions:
    """Return the conditions of rows that are alike, with the versions of all their runtimes, PyTorch's first."""
    versions = dict.fromkeys(row.runtime_version for row in sorted(group, key=_library) if row.runtime_version)
    return replace(group[0].conditions, runtime_version=" and ".join(versions))


def _library(row: ResultRow) -> str:
    """Return an identifier of the library that has the version: all runtimes of PyTorch are one library, and each
    release that the sweep chose is a separate one."""
    chosen = "" if row.runner_toolchain == INSTALLED else f" {row.runner_toolchain}"
    return "" if row.runtime in built_in.ALWAYS_BROUGHT else f"{row.runtime}{chosen}"
