"""`equipoise serve`: a policy in front of real traffic."""

from __future__ import annotations

import click


@click.command()
@click.argument("config", type=click.Path())
@click.option("--check", is_flag=True, help="Read everything, connect to nothing, and stop.")
@click.option("--wait", is_flag=True, help="Start even if no server answers yet.")
def command(config: str, check: bool, wait: bool) -> int:
    """Dispatch HTTP requests to servers.

    CONFIG is a TOML file with the servers' addresses and a policy, written as in a scenario.
    SIGTERM or Ctrl-C ends it when the requests under way are done, SIGHUP has CONFIG read anew,
    SIGUSR1 opens the access log anew.

    \b
    Examples:
        equipoise serve dispatch.toml --check
        equipoise serve dispatch.toml
    """
    from ..live.config import Config

    found = Config.from_toml(config)
    if check:
        click.echo(f"{config} is good: {found.summary()}")
        return 0

    from ..live.serve import serve
    from ..web.dashboard import dashboard

    cut = serve(
        found,
        path=config,
        wait=wait,
        say=click.echo,
        note=lambda text: click.echo(text, err=True),
        pages=dashboard,
    )
    if cut:
        some = "1 request was cut, it had" if cut == 1 else f"{cut} requests were cut, they had"
        click.echo(f"error: {some} not ended", err=True)
    return 1 if cut else 0
