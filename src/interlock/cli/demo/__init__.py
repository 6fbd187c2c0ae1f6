"""``interlock demo``: webhooks, lanes, locks and limits under ``kill -9``, and an audit of what really happens.

A forge posts signed webhooks to the bot's web app; worker processes handle them and are killed or frozen now and then.
The dashboard shows what Interlock knows, and the audit what the forge, the handlers and the target wrote down.
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
from interlock.cli.store_url import Place, named_place

__all__ = ["demo"]

NAMESPACE = "demo"
SECONDS = 20.0
LISTEN = "127.0.0.1:0"


def demo(
    context: typer.Context,
    seconds: Annotated[
        float | None,
        typer.Option(min=1, help="How long it runs; without it until Ctrl-C on a terminal, else 20 seconds."),
    ] = None,
    workers: Annotated[int, typer.Option(min=2, max=32, help="How many worker processes.")] = 3,
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where to serve the dashboard; port 0 is any that is free.")
    ] = LISTEN,
    web: Annotated[bool, typer.Option("--web/--no-web", help="Whether to serve webhooks and the dashboard.")] = True,
    postgres: Annotated[bool, typer.Option("--postgres", help="On a PostgreSQL that is started for it.")] = False,
    redis: Annotated[
        bool, typer.Option("--redis", help="With locks and claims on a Redis that is started for it.")
    ] = False,
    url: Annotated[
        str | None, typer.Option("--url", help="On a store of yours; without it SQLite in a temporary directory.")
    ] = None,
    namespace: Annotated[
        str | None, typer.Option("--namespace", help="The namespace in the store; 'demo' if not given.")
    ] = None,
) -> None:
    """Watch a bot keep its promises under kill -9, in a browser, and audited. Exit code 1 if that finds anything."""
    require_posix("interlock demo", remedy="Run it in WSL or in a container.")
    from interlock.cli.demo.director import Director
    from interlock.cli.demo.report import print_audit
    from interlock.cli.demo.screen import screen_for_this_terminal
    from interlock.cli.demo.stores import chosen_stores

    place = _place(context, url, namespace)
    if seconds is None and not sys.stdout.isatty():
        seconds = SECONDS
    directory = Path(tempfile.mkdtemp(prefix="interlock-demo-"))
    try:
        with chosen_stores(directory, place.url, postgres=postgres, redis=redis) as stores:
            director = Director(
                stores,
                place.namespace or NAMESPACE,
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
            say(f"The last {count} things that were written down are kept in {kept}.")
            raise typer.Exit(1)
    except asyncio.CancelledError:
        raise typer.Exit(130) from None
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _place(context: typer.Context, url: str | None, namespace: str | None) -> Place:
    """Only a store named on the command line is used: nobody wants a demo in the store of INTERLOCK_URL by accident."""
    root = context.find_root()
    source = root.get_parameter_source("url")
    if url is None and (source is None or source.name != "COMMANDLINE"):
        given = root.obj.namespace if isinstance(root.obj, Place) else None
        return Place(None, namespace or given)
    return named_place(context, url, namespace)
