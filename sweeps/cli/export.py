"""`edgesweep export`: copies the winner's file, ready to ship."""

from contextlib import suppress
from pathlib import Path

import click

from sweeps.cli.options import DEVICE_NAMES, json_option, sweep_argument, workspace_option
from sweeps.manifest import FILE_NAME
from sweeps.metrics import METRICS
from sweeps.ranking.eligibility import reference_name
from sweeps.text import plain


@click.command()
@sweep_argument
@workspace_option
@click.option("--device", help=f"The winner of this device ({DEVICE_NAMES}).")
@click.option("--model", help="The winner of this model, if the sweep has several.")
@click.option(
    "--variant", help="This job instead of the winner: its name in the ranking, or what reports and pages call it."
)
@click.option("--output", type=click.Path(file_okay=False, path_type=Path), default=Path("shipped"), show_default=True)
@json_option
def export(
    sweep: str | None,
    root: Path,
    device: str | None,
    model: str | None,
    variant: str | None,
    output: Path,
    as_json: bool,
) -> None:
    """Copy the winner's artifact and a manifest with the figures to expect of it. Without SWEEP: of the latest one.

    \b
    Example: edgesweep export --output app/src/main/assets
    """
    from sweeps import api  # the module imports all that runs and ranks, which `export --help` does not need

    before = None
    with suppress(OSError, ValueError):
        before = api.Shipped.model_validate_json((output / FILE_NAME).read_bytes()).expected
    shipped = api.export(output, sweep, root, device=device, model=model, variant=variant)
    if as_json:
        click.echo(shipped.model_dump_json(indent=2))
    else:
        size = METRICS["artifact_mb"].format(shipped.artifact.file_bytes / 1e6)
        click.echo(f"{output / shipped.artifact.file}  {size}  {plain(shipped.expected.job)}")
        expected = shipped.expected
        timed = "" if expected.timed else f"; not timed, checked by {plain(reference_name(expected.executor))}"
        if expected.in_batches:
            timed = "; measured in batches only: it has a ratio to the winner, and no time"
        click.echo(
            f"{output / FILE_NAME}  expected figures and conditions, from the sweep {plain(expected.sweep)}{timed}"
        )
        if before is not None and (before.sweep, before.job) != (expected.sweep, expected.job):
            click.echo(f"In place of {plain(before.job)}, from the sweep {plain(before.sweep)}.")
