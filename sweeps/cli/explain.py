"""`edgesweep explain`: prints what a word of a result means, why it occurs, and what to do."""

import json
from dataclasses import asdict

import click

from sweeps.cli.options import json_option, print_json
from sweeps.pages import PAGES, page
from sweeps.report.explanations import SORTS, explanation, explanations


@click.command()
@click.argument("word", required=False)
@json_option
def explain(word: str | None, as_json: bool) -> None:
    """Say what a word means: a trust label, verdict, failure, skip, metric or axis. Fields of the protocol and terms of
    tables and pages are known, too. Without a word: list them all.
    The name of a page prints it (boards, phones, lab, ...).

    \b
    Example: edgesweep explain gate_timeout
    Example: edgesweep explain no_effect         a kind of skip, as plan prints it
    """
    if word and (text := page(word)) is not None:
        click.echo(json.dumps({"page": word, "markdown": text}) if as_json else text)
        return
    entries = explanation(word) if word else [entry for group in explanations().values() for entry in group]
    if as_json:
        print_json([asdict(entry) for entry in entries])
    elif word:
        click.echo("\n".join(entry.text for entry in entries))
    else:
        for sort, heading in SORTS.items():
            click.echo(heading)
            click.echo(
                click.wrap_text(", ".join(entry.word for entry in entries if entry.sort == sort), 100, "  ", "  ")
            )
        click.echo("Pages")
        for name, about in PAGES.items():
            click.echo(f"  {name:<16} {about}")
