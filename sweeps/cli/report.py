"""`edgesweep report`: writes a sweep's results as files to send: an HTML page, Markdown, tables."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click

from dashboard.markdown_escape import line
from dashboard.report.markdown import markdown
from dashboard.report.sections import Section, sections
from dashboard.words import plain_words
from sweeps.cli.options import DEVICE_NAMES, json_option, print_json, sweep_argument, workspace_option
from sweeps.command_hints import CommandHints
from sweeps.errors import EdgeSweepError
from sweeps.extras import lacking
from sweeps.journal.next_step_hints import hints_of
from sweeps.launching.sweep_commands import command_hints
from sweeps.metrics import METRICS
from sweeps.operations.stored_results import device_id_of, results_of
from sweeps.ranking.eligibility import objective_text
from sweeps.ranking.rank import rank_rows
from sweeps.report.evaluation import more_images
from sweeps.report.table_files import csv_text, parquet_bytes, results_table
from sweeps.results import ResultRow, SweepResults, of_device, read_rows
from sweeps.spec.sweep import sweep_yaml
from sweeps.whole_file import write_whole
from sweeps.workspace import Workspace

_file = click.Path(dir_okay=False, path_type=Path)


@click.command()
@sweep_argument
@workspace_option
@click.option("--html", type=_file, help="A page that opens without a network: winners, charts, tables, conditions.")
@click.option("--markdown", "as_markdown", type=_file, help="For a pull request.")
@click.option("--csv", "as_csv", type=_file, help="Every result with its figures, for spreadsheets.")
@click.option("--parquet", type=_file, help="The same with types, for programs.")
@click.option("--device", help=f"Of this device only ({DEVICE_NAMES}).")
@json_option
def report(
    sweep: str | None,
    root: Path,
    html: Path | None,
    as_markdown: Path | None,
    as_csv: Path | None,
    parquet: Path | None,
    device: str | None,
    as_json: bool,
) -> None:
    """Write the results of a sweep (by default the latest) as files to send.

    \b
    Example: edgesweep report --html report.html --csv results.csv
    """
    if not any((html, as_markdown, as_csv, parquet)):
        raise click.UsageError("name what to write: --html, --markdown, --csv or --parquet FILE")
    paths = [path.absolute() for path in (html, as_markdown, as_csv, parquet) if path is not None]
    if len(set(paths)) < len(paths):
        raise click.UsageError("each of the files needs a name of its own")
    page = _page_maker() if html else None
    workspace = Workspace(root)
    results = results_of(workspace, sweep)
    rows = read_rows(results.frame, results.name)
    device_id = device_id_of(device, results.names)
    rows = rows if device_id is None else of_device(rows, device_id)
    objective = plain_words(objective_text(results.spec.objective))
    spec = results.spec
    drawn, notes = _drawn(results, rows, command_hints(workspace, results.name)) if html or as_markdown else ([], [])
    with click.progressbar(length=len(drawn), label="Drawing charts", hidden=as_json or not html) as bar:
        files: dict[Path | None, Callable[[], bytes]] = {
            html: lambda: (
                b""
                if page is None
                else page(
                    results.name,
                    drawn,
                    objective=objective,
                    updated=results.updated,
                    version=version("edgesweep"),
                    sweep_file=sweep_yaml(spec),
                    notes=notes,
                    each=lambda _: bar.update(1),
                ).encode()
            ),
            as_markdown: lambda: markdown(
                results.name, drawn, objective=objective, version=version("edgesweep"), notes=notes
            ).encode(),
            as_csv: lambda: csv_text(results_table(rows)).encode("utf-8-sig"),
            parquet: lambda: parquet_bytes(results_table(rows)),
        }
        written = [_write(path, make) for path, make in files.items() if path is not None]
    if as_json:
        print_json({"sweep": results.name, "files": written})
    for file in () if as_json else written:
        click.echo(f"{file['file']}  {METRICS['artifact_mb'].format(file['bytes'] / 1e6)}")


def _drawn(results: SweepResults, rows: Sequence[ResultRow], advice: CommandHints) -> tuple[list[Section], list[str]]:
    """Return a section of the report for each device and model, and notes about the whole sweep. `advice` completes the
    commands in both."""
    spec = results.spec
    ranked = rank_rows(rows, spec.objective, results.name, hints=hints_of(spec))
    drawn = [_typed(section, advice) for section in sections(rows, ranked, spec.objective)]
    return drawn, [line(advice.typed(note)) for note in more_images(spec, ranked)]


def _typed(section: Section, advice: CommandHints) -> Section:
    sentences = tuple(replace(sentence, rest=advice.typed(sentence.rest)) for sentence in section.sentences)
    tables = tuple(
        replace(
            table,
            rows=[[advice.typed(cell) for cell in row] for row in table.rows],
            notes=tuple(map(advice.typed, table.notes)),
        )
        for table in section.tables
    )
    return replace(section, sentences=sentences, tables=tables)


def _page_maker() -> Callable[..., str]:
    """Return the function that renders the HTML page. Raises `EdgeSweepError` if the package that draws charts is not
    installed, which only this page needs."""
    try:
        from dashboard.report.html import page
    except ModuleNotFoundError as error:
        raise lacking(error) from error
    return page


def _write(path: Path, make: Callable[[], bytes]) -> dict[str, Any]:
    """Write a file atomically, whole or not at all. Returns its path and size. Raises `EdgeSweepError` if it cannot be
    written."""
    content = make()
    try:
        write_whole(path, content)
    except OSError as error:
        raise EdgeSweepError(
            f"{path} cannot be written: {error.strerror or error}", "name a file in a folder that exists"
        ) from error
    return {"file": str(path), "bytes": len(content)}
