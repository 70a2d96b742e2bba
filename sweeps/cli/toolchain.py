"""`edgesweep toolchain`: adds, lists and removes releases of a runtime's library besides the installed one."""

from importlib import metadata
from typing import Any

import click

from sweeps.cli.options import json_option, print_json
from sweeps.errors import BuildError, EdgeSweepError
from sweeps.operations.notices import notify
from sweeps.report.terminal_tables import cells, new_table, open_console
from sweeps.spec.toolchains import LIBRARIES, Toolchain, toolchain
from sweeps.text import plain
from workers.runtimes import library_check
from workers.toolchains import environments
from workers.toolchains.environments import Environment


class _Release(click.ParamType[Toolchain]):
    name = "release"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Toolchain:
        try:
            return value if isinstance(value, Toolchain) else toolchain(str(value))
        except ValueError as error:
            raise EdgeSweepError(str(error)) from error


_release = click.argument("release", type=_Release(), metavar="LIBRARY==VERSION")


@click.group("toolchain")
def toolchains() -> None:
    """Other releases of ONNX Runtime or ExecuTorch on this machine, to compare with the installed one.

    \b
    Each is an environment of its own. In a sweep file: toolchain: [installed, "onnxruntime==1.31.1"]
    Example: edgesweep toolchain add onnxruntime==1.31.1
             edgesweep toolchain list
    """


@toolchains.command()
@_release
@json_option
def add(release: Toolchain, as_json: bool) -> None:
    """Install a release into an environment of its own, once for this machine.

    \b
    The size is said first. What is installed already stays as it is: a release that would change it is refused.
    One that cannot export and run a tiny model here is removed again.
    Example: edgesweep toolchain add onnxruntime==1.31.1
    """
    was_there = any(environment.toolchain == release for environment in environments.installed())
    environment = environments.add(release, notify)
    notify("it exports and runs a tiny model, to see whether it can")
    try:
        library_check.check_release(release)
    except BuildError as error:
        if not was_there:
            environments.remove(release)
        note = "" if was_there else " (it is removed)"
        raise EdgeSweepError(f"{error.message}{note}", "take another release") from error
    _answer(environment, "is there", as_json=as_json)


@toolchains.command("list")
@json_option
def list_all(as_json: bool) -> None:
    """List the toolchains of this machine, and which release pairs with which torch.

    \b
    Example: edgesweep toolchain list
    """
    installed = environments.installed()
    if as_json:
        print_json(
            {"made": [_document(environment) for environment in installed], "libraries": [*map(_library, LIBRARIES)]}
        )
        return
    table = new_table("", "toolchain", ">MB", "state")
    for environment in installed:
        table.add_row(*cells(environment.toolchain.text, f"{environment.mb:.0f}", environment.wrong or "whole"))
    if installed:
        open_console().print(table)
    else:
        click.echo("no toolchain was made: edgesweep toolchain add onnxruntime==VERSION", err=True)
    pairs = new_table("", "library", "installed", ">MB each", "releases", "pairs with")
    for name in LIBRARIES:
        library = _library(name)
        for releases, mate in library["pairs"].items():
            pairs.add_row(*cells(name, library["installed"] or "no", f"about {library['mb']}", releases, mate))
    open_console().print(pairs)


@toolchains.command()
@_release
@json_option
def remove(release: Toolchain, as_json: bool) -> None:
    """Delete an environment; results that were measured with it stay.

    \b
    Example: edgesweep toolchain remove onnxruntime==1.31.1
    """
    _answer(environments.remove(release), "is removed", as_json=as_json)


def _answer(environment: Environment, state: str, *, as_json: bool) -> None:
    if as_json:
        print_json(_document(environment))
    else:
        click.echo(plain(f"{environment.toolchain.text} {state}: {environment.mb:.0f} MB, {environment.folder}"))


def _document(environment: Environment) -> dict[str, Any]:
    return {
        "toolchain": environment.toolchain.text,
        "folder": str(environment.folder),
        "mb": round(environment.mb, 1),
        "usable": not environment.wrong,
        "reason": environment.wrong,
    }


def _library(name: str) -> dict[str, Any]:
    try:
        installed = metadata.version(name)
    except metadata.PackageNotFoundError:
        installed = ""
    library = LIBRARIES[name]
    return {"library": name, "installed": installed, "mb": library.mb, "pairs": dict(library.pairs)}
