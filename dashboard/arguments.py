"""The command-line arguments of the dashboard's script."""

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from sweeps.launching.start import LAB_VARIABLE, TOKEN_VARIABLE


@dataclass(frozen=True, slots=True)
class Options:
    """Options of one server."""

    workspace: Path
    models: tuple[Path, ...] = ()
    """Folders that a model's own code may come from."""
    roles: Path | None = None
    login: bool = False
    """Whether people have to log in."""
    lab: str | None = None
    """Address (host and port) of the lab whose devices sweeps may use besides those of this computer."""
    token_file: Path | None = None

    def arguments(self) -> list[str]:
        """Return the options as command-line arguments, which `server_options` parses."""
        words = ["--workspace", str(self.workspace)]
        words += [word for folder in self.models for word in ("--models", str(folder))]
        words += [] if self.roles is None else ["--roles", str(self.roles)]
        words += ["--login"] * self.login
        return [*words, *self.lab_options]

    @property
    def lab_options(self) -> tuple[str, ...]:
        """The command-line options of commands that use the lab; empty without a lab."""
        if self.lab is None:
            return ()
        return ("--lab", self.lab, *(() if self.token_file is None else ("--token-file", str(self.token_file))))


def server_options() -> Options:
    """Return the options of this server."""
    defaults = ("EDGESWEEP_WORKSPACE", LAB_VARIABLE, TOKEN_VARIABLE)
    return _parsed(tuple(sys.argv[1:]), *map(os.environ.get, defaults))


@cache
def _parsed(argv: Sequence[str], workspace: str | None, lab: str | None, token_file: str | None) -> Options:
    parser = argparse.ArgumentParser(prog="streamlit run dashboard/app.py --", allow_abbrev=False)
    parser.add_argument(
        "--workspace", type=Path, default=Path(workspace or "edgesweep-data"), help="the folder that holds the results"
    )
    parser.add_argument("--models", type=Path, action="append", default=[], help="a folder of models' own code")
    parser.add_argument("--roles", type=Path, help="who may do what, by address")
    parser.add_argument("--login", action="store_true", help="people have to log in")
    parser.add_argument("--lab", default=lab or None, help="the address of a lab that sweeps may use")
    parser.add_argument("--token-file", type=Path, default=token_file or None, help="a copy of its token file")
    parsed = parser.parse_args(argv)
    return Options(
        parsed.workspace.expanduser().resolve(),
        tuple(folder.expanduser().resolve() for folder in parsed.models),
        parsed.roles,
        parsed.login,
        parsed.lab,
        None if parsed.token_file is None else Path(parsed.token_file).expanduser().resolve(),
    )
