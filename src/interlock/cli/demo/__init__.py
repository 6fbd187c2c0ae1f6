"""``interlock demo``: webhooks, lanes, locks and limits under ``kill -9``, with an audit of what really happens.

A forge posts signed webhooks to the bot's web app. Worker processes handle them and are killed or frozen from time to
time. The dashboard shows what Interlock knows; the audit shows what the forge, the handlers and the target recorded.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from interlock.cli.output import say
from interlock.cli.signals import require_posix
from interlock.cli.store_url import StoreUrl, chosen_store

__all__ = ["demo"]

NAMESPACE = "demo"
SECONDS = 20.0
LISTEN = "127.0.0.1:0"


def demo(
    context: typer.Context,
    seconds: Annotated[
        float | None,
        typer.Option(min=1, help="How long to run. Default: until Ctrl-C on a terminal, otherwise 20 seconds."),
    ] = None,
    workers: Annotated[int, typer.Option(min=2, max=32, help="Number of worker processes.")] = 3,
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Address of the dashboard; port 0 selects a free port.")
    ] = LISTEN,
    web: Annotated[bool, typer.Option("--web/--no-web", help="Whether to serve webhooks and the dashboard.")] = True,
    postgres: Annotated[bool, typer.Option("--postgres", help="Start a PostgreSQL server for the demo.")] = False,
    redis: Annotated[bool, typer.Option("--redis", help="Start a Redis server for locks and claims.")] = False,
    url: Annotated[
        str | None, typer.Option("--url", help="Use your own store. Default: SQLite in a temporary directory.")
    ] = None,
    namespace: Annotated[
        str | None, typer.Option("--namespace", help="The namespace in the store. Default: 'demo'.")
    ] = None,
) -> None:
    """Run a bot under kill -9, with a dashboard and an audit. Exit with 1 if the audit finds a violation."""
    require_posix("interlock demo", remedy="Run it in WSL or in a container.")
    from interlock.cli.demo.director import Director
    from interlock.cli.demo.report import print_audit
    from interlock.cli.demo.screen import screen_for_this_terminal
    from interlock.cli.demo.stores import chosen_stores

    chosen = _demo_store(context, url, namespace)
    if seconds is None and not sys.stdout.isatty():
        seconds = SECONDS
    directory = Path(tempfile.mkdtemp(prefix="interlock-demo-"))
    try:
        with chosen_stores(directory, chosen.url, postgres=postgres, redis=redis) as stores:
            director = Director(
                stores,
                chosen.namespace or NAMESPACE,
                directory,
                workers=workers,
                seconds=seconds,
                listen=listen if web else None,
            )
            with screen_for_this_terminal() as screen:
                findings = asyncio.run(director.run(screen))
        print_audit(findings)
        if not findings.clean:
            kept = Path(tempfile.mkdtemp(prefix="interlock-demo-records-")) / "records.jsonl"
            count = director.minutes.keep(kept)
            say(f"The last {count} records are kept in {kept}.")
            raise typer.Exit(1)
    except asyncio.CancelledError:
        raise typer.Exit(130) from None
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _demo_store(context: typer.Context, url: str | None, namespace: str | None) -> StoreUrl:
    """Use only a store from the command line, so that a demo never runs in the store of INTERLOCK_URL by accident."""
    root = context.find_root()
    source = root.get_parameter_source("url")
    if url is None and (source is None or source.name != "COMMANDLINE"):
        given = root.obj.namespace if isinstance(root.obj, StoreUrl) else None
        return StoreUrl(None, namespace or given)
    return chosen_store(context, url, namespace)
