"""`equipoise completion`: the script that teaches a shell our commands and policies."""

import click


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the completion script for a shell.

    \b
    Examples:
        equipoise completion bash >> ~/.bashrc
        equipoise completion zsh >> ~/.zshrc
        equipoise completion fish > ~/.config/fish/completions/equipoise.fish
    """
    from click.shell_completion import get_completion_class

    from .main import cli

    complete = get_completion_class(shell)
    assert complete is not None
    script = complete(cli, {}, "equipoise", "_EQUIPOISE_COMPLETE")
    click.echo(script.source_template % script.source_vars())
