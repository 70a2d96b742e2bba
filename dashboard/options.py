"""What the dashboard was started with: the arguments of its script."""

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Options:
    """Of one server."""

    workspace: Path
    models: tuple[Path, ...] = ()
    """The folders that a model's own code may come from."""
    roles: Path | None = None
    login: bool = False
    """Whether people have to log in."""

    def arguments(self) -> list[str]:
        """As `given` reads them."""
        words = ["--workspace", str(self.workspace)]
        words += [word for folder in self.models for word in ("--models", str(folder))]
        words += [] if self.roles is None else ["--roles", str(self.roles)]
        return [*words, "--login"] if self.login else words


def given() -> Options:
    """Those of this server."""
    return _parsed(tuple(sys.argv[1:]), os.environ.get("EDGESWEEP_WORKSPACE", "edgesweep-data"))


@cache
def _parsed(argv: Sequence[str], default: str) -> Options:
    parser = argparse.ArgumentParser(prog="streamlit run dashboard/app.py --", allow_abbrev=False)
    parser.add_argument("--workspace", type=Path, default=Path(default), help="the folder that holds the results")
    parser.add_argument("--models", type=Path, action="append", default=[], help="a folder of models' own code")
    parser.add_argument("--roles", type=Path, help="who may do what, by address")
    parser.add_argument("--login", action="store_true", help="people have to log in")
    found = parser.parse_args(argv)
    return Options(
        found.workspace.expanduser().resolve(),
        tuple(folder.expanduser().resolve() for folder in found.models),
        found.roles,
        found.login,
    )
