"""`equipoise agent`: the server half of a policy, in front of a server that is not Python."""

from __future__ import annotations

import click


@click.command()
@click.option("--listen", required=True, metavar="HOST:PORT", help="Where tasks come.")
@click.option("--server", required=True, metavar="HOST:PORT", help="The server they go to.")
@click.option(
    "--status", required=True, metavar="HOST:PORT", help="For dispatchers, /status and /metrics."
)
@click.option("--limit", type=int, help="Most tasks that the server is sent at once.")
@click.option(
    "--queue", type=int, default=0, show_default=True, help="Tasks beyond it that wait here."
)
@click.option("--workers", type=int, help="Tasks that it works on at once, for load reports.")
@click.option("--policy", help="The only one that dispatchers may run.")
@click.option("--secret-file", type=click.Path(), help="What dispatchers must know, in a file.")
@click.option(
    "--drain", type=float, default=30.0, show_default=True, help="Seconds for what is under way."
)
def command(
    listen: str,
    server: str,
    status: str,
    limit: int | None,
    queue: int,
    workers: int | None,
    policy: str | None,
    secret_file: str | None,
    drain: float,
) -> int:
    """Stand in front of a server and tell dispatchers how it is.

    A reverse proxy that counts the tasks of one server, refuses those beyond its limit, and tells
    each dispatcher that asks what its policy has servers tell. SIGTERM or Ctrl-C ends it when the
    tasks under way are done.

    \b
    Example:
        equipoise agent --listen 0.0.0.0:8000 --server 127.0.0.1:9000 --status 0.0.0.0:8001
    """
    from ..live.sidecar import Settings, run_sidecar

    settings = Settings(
        listen=listen,
        server=server,
        status=status,
        limit=limit,
        queue=queue,
        workers=workers,
        policy=policy,
        secret_file=secret_file,
        drain=drain,
    )
    cut = run_sidecar(settings, say=click.echo, note=lambda text: click.echo(text, err=True))
    if cut:
        some = "1 task was cut, it had" if cut == 1 else f"{cut} tasks were cut, they had"
        click.echo(f"error: {some} not ended", err=True)
    return 1 if cut else 0
