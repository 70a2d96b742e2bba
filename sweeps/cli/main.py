"""The command line: a table of commands. Each command has its own module, which is imported only when it is needed."""

import io
import sys
from importlib import import_module
from typing import Any

import click

from sweeps.cli.options import EXIT_INTERRUPTED, JSON, ROOT, SWEEP, print_json
from sweeps.cli.session import closing_terminal_ends
from sweeps.errors import EdgeSweepError
from sweeps.extras import lacking
from sweeps.failure_kinds import USAGE
from sweeps.launching.sweep_commands import command_hints
from sweeps.text import plain
from sweeps.workspace import Workspace

COMMANDS = {
    "check": ("sweeps.cli.check:check", "Measure an exported winner again: does it still hold what its manifest says?"),
    "compare": (
        "sweeps.cli.compare:compare",
        "Is B slower than A? Each a sweep, SWEEP:JOB NAME, or the manifest.json of an export.",
    ),
    "completion": ("sweeps.cli.completion:completion", "Print the completion for a shell: bash, zsh or fish."),
    "constraints": (
        "sweeps.cli.constraints:constraints",
        "Print the versions that EdgeSweep is tested with, for pip's --constraint.",
    ),
    "dashboard": ("sweeps.cli.dashboard:dashboard", "Launch sweeps, watch them and read their results in the browser."),
    "demo": (
        "sweeps.cli.demo:demo",
        "Train MobileNetV2 on handwritten digits, build its variants, measure them on this CPU, rank them.",
    ),
    "devices": (
        "sweeps.cli.devices:devices",
        "List the devices that can measure here, with the facts that results depend on.",
    ),
    "doctor": (
        "sweeps.cli.doctor:doctor",
        "Show what this machine can build and measure, and what to install for the rest.",
    ),
    "explain": (
        "sweeps.cli.explain:explain",
        "Say what a word means: a trust label, verdict, failure, skip, metric or axis.",
    ),
    "export": (
        "sweeps.cli.export:export",
        "Copy the winner's artifact and a manifest with the figures to expect of it.",
    ),
    "host": (
        "sweeps.cli.host:host",
        "Make this computer a device host of a lab: its phones then measure for sweeps on any computer of the lab.",
    ),
    "hosts": (
        "sweeps.cli.hosts:hosts",
        "List the hosts of a lab with their devices, versions, health, and what is measured.",
    ),
    "import": (
        "sweeps.cli.imports:import_figures",
        "Show figures of the runtimes' own benchmark tools below a sweep's ranking.",
    ),
    "init": (
        "sweeps.cli.init:init",
        "Write a sweep file for a model of your own, after a look at the model and its images.",
    ),
    "journal": ("sweeps.cli.journal:journal", "Check, export, back up, restore and publish what was measured."),
    "noise": (
        "sweeps.cli.noise:noise",
        "Measure the noise of a device: how far must two builds differ to be told apart?",
    ),
    "plan": ("sweeps.cli.plan:plan", "Print every job and every skipped combination; run nothing."),
    "profile": (
        "sweeps.cli.profile:profile",
        "Time each operator of a build on a device: where does its time go?",
    ),
    "rank": (
        "sweeps.cli.rank:rank",
        "Rank the variants of a sweep (by default the latest) per device: the winners, or whole tables.",
    ),
    "recipe": (
        "sweeps.cli.recipe:recipe",
        "Run PyTorch Mobile's performance recipe step by step: what does each step gain?",
    ),
    "report": (
        "sweeps.cli.report:report",
        "Write the results of a sweep (by default the latest) as files to send.",
    ),
    "run": ("sweeps.cli.run:run", "Build, measure and rank."),
    "runner": ("sweeps.cli.runner:runner", "Compile the programs that run builds on phones."),
    "schema": (
        "sweeps.cli.schema:schema",
        "Print the JSON Schema of sweep files, for completion and checks in editors.",
    ),
    "status": (
        "sweeps.cli.status:status",
        "Progress and failures of a sweep (by default the latest).",
    ),
    "store": ("sweeps.cli.store:store", "The database of results, where it is a file of the workspace."),
    "sweeps": ("sweeps.cli.sweeps:sweeps", "List the sweeps of the workspace; rename, tag, note and delete them."),
    "toolchain": (
        "sweeps.cli.toolchain:toolchains",
        "Other releases of ONNX Runtime or ExecuTorch on this machine, to compare with the installed one.",
    ),
    "virtual-phone": (
        "sweeps.cli.virtual_phone:virtual_phone",
        "Virtual phones: the real adb daemon on this computer, to try everything except latency.",
    ),
}
"""Import path (`module:command`) of each command, and the first sentence of its help, which `edgesweep --help` prints
without importing the module."""

VERBS_BY_PURPOSE = {
    "Start": (
        "doctor",
        "demo",
        "init",
        "plan",
        "run",
        "status",
        "rank",
        "report",
        "export",
        "check",
        "dashboard",
    ),
    "Devices and labs": (
        "devices",
        "runner",
        "virtual-phone",
        "host",
        "hosts",
        "toolchain",
    ),
    "Look closer": (
        "explain",
        "compare",
        "noise",
        "profile",
        "recipe",
        "import",
    ),
    "Keep house": (
        "sweeps",
        "journal",
        "store",
        "schema",
        "completion",
        "constraints",
    ),
}
"""Headings of `edgesweep --help`, each with its commands in the order in which people need them."""


class LazyCommand(click.Command):
    """Command known only by its name and line of help; the real command is imported when its arguments are parsed."""

    def __init__(self, name: str, path: str, line: str) -> None:
        super().__init__(name, help=line)
        self._path = path

    def load(self) -> click.Command:
        """Import the real command. Raises `EdgeSweepError` if it needs a package of an optional extra that is not
        installed."""
        module, _, attribute = self._path.partition(":")
        try:
            command: click.Command = getattr(import_module(module), attribute)
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] in ("sweeps", "workers", "dashboard"):
                raise
            raise lacking(error) from error
        return command

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Return the context of the real command, which click then invokes."""
        return self.load().make_context(info_name, args, parent, **extra)


class Program(click.Command):
    """A command that prints an expected error as one red line with its next step. Only bugs print a traceback.

    With `--json` among its words before a `--` the error is a document on stdout, too."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        as_json = "--json" in (args[: args.index("--")] if "--" in args else args)
        try:
            context = super().make_context(info_name, args, parent, **extra)
        except click.UsageError as error:
            if as_json:
                _print_usage_error(error)
            raise
        if as_json:
            context.meta[JSON] = True
        return context

    def invoke(self, ctx: click.Context) -> Any:
        for stream in (sys.stdout, sys.stderr):
            # A character that the locale's encoding lacks is written as a question mark instead of raising an error.
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="replace")
        try:
            with closing_terminal_ends():
                return super().invoke(ctx)
        except EdgeSweepError as error:
            step = _typed(error.next_step, ctx)
            if JSON in ctx.meta:
                print_json({"error": error.document | {"next_step": step}})
            click.secho(f"edgesweep: {plain(error.message)}", fg="red", err=True)
            if step:
                click.echo(f"  next: {plain(step)}", err=True)
            ctx.exit(error.exit_code)
        except click.UsageError as error:
            if JSON in ctx.meta:
                _print_usage_error(error)
            raise
        except KeyboardInterrupt:
            click.echo("Stopped at once. Results so far are kept: run the same command again to continue.", err=True)
            ctx.exit(EXIT_INTERRUPTED)


class Group(Program, click.Group):
    """Program with all commands, whose help lists them by purpose."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a section for each heading of `VERBS_BY_PURPOSE`, with aligned columns."""
        column = max(map(len, self.commands))
        for heading, verbs in VERBS_BY_PURPOSE.items():
            with formatter.section(heading):
                # click indents a section by 2, separates its columns by 2 more, and wraps the text to the rest of the
                # width.
                room = formatter.width - 6 - column
                formatter.write_dl(
                    [(verb.ljust(column), self.commands[verb].get_short_help_str(room)) for verb in verbs]
                )


def _print_usage_error(error: click.UsageError) -> None:
    step = f"{error.ctx.command_path} --help" if error.ctx else "edgesweep --help"
    print_json({"error": {"kind": USAGE, "message": error.format_message(), "next_step": step}})


def _typed(step: str, context: click.Context) -> str:
    """Return the next step with its commands completed by the workspace and the sweep file of the command that
    failed."""
    return (
        command_hints(Workspace(context.meta[ROOT]), context.meta.get(SWEEP)).typed(step)
        if ROOT in context.meta
        else step
    )


@click.group(
    cls=Group,
    commands=[LazyCommand(name, path, line) for name, (path, line) in COMMANDS.items()],
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.version_option(package_name="edgesweep", prog_name="edgesweep")
def main() -> None:
    """Which build of my model do I ship on which phone, and how sure are we?

    \b
    Example:
      edgesweep run sweep.yaml      build, measure, rank
      edgesweep rank                the ranking again
      edgesweep dashboard           the same in the browser
      edgesweep export              the winner's file, ready to ship
    """
