"""`edgesweep completion`: what a shell needs to complete commands, options and names of sweeps."""

import click
from click.shell_completion import get_completion_class

_FILES = {"bash": "~/.bashrc", "zsh": "~/.zshrc", "fish": "~/.config/fish/completions/edgesweep.fish"}


@click.command()
@click.argument("shell", type=click.Choice(list(_FILES)))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion for a shell: bash, zsh or fish.

    \b
    Example: edgesweep completion bash >> ~/.bashrc
             edgesweep completion fish > ~/.config/fish/completions/edgesweep.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(context.find_root().command, {}, "edgesweep", "_EDGESWEEP_COMPLETE").source())
