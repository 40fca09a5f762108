"""nearmt completion"""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from nearmt.cli.console import echo
from nearmt.cli.manual import ManualCommand


@click.command(cls=ManualCommand)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the completion script of a shell: commands, options, settings and files.

    Append the output to a file that your shell reads when it starts.

    \b
    nearmt completion bash >> ~/.bashrc
    nearmt completion zsh >> ~/.zshrc
    nearmt completion fish > ~/.config/fish/completions/nearmt.fish
    """
    from nearmt.cli.main import COMPLETION_VARIABLE, cli

    maker = get_completion_class(shell)
    assert maker is not None
    echo(maker(cli, {}, "nearmt", COMPLETION_VARIABLE).source())
