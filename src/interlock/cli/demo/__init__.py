"""``interlock demo``: locks, claims, limits and jobs under ``kill -9``, and an audit of what really happened.

Real worker processes contend for a few locks and write to a target that knows nothing of the store but fences; they
handle deliveries that all of them receive; they run containers under limits; and they run jobs in lanes, some of which
fail. Some workers are killed, one is frozen until its lease is gone. The audit reads only what workers, senders and
target wrote down.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from interlock.cli.output import say
from interlock.cli.place import Namespace, Place, named_place

__all__ = ["demo"]

NAMESPACE = "demo"


def demo(
    context: typer.Context,
    seconds: Annotated[float, typer.Option(min=1, max=86_400, help="How long it runs.")] = 20.0,
    workers: Annotated[int, typer.Option(min=2, max=32, help="How many worker processes.")] = 4,
    url: Annotated[
        str | None,
        typer.Option("--url", "--postgres", help="A store of yours; without it SQLite in a temporary directory."),
    ] = None,
    namespace: Namespace = None,
) -> None:
    """Watch locks, claims, limits and jobs survive kill -9, live, then audited. Exit code 1 if that finds anything."""
    from interlock.cli.demo.audit import read_records
    from interlock.cli.demo.director import Director
    from interlock.cli.demo.screen import print_audit, screen_for_this_terminal

    place = _place(context, url, namespace)
    directory = Path(tempfile.mkdtemp(prefix="interlock-demo-"))
    try:
        url = place.url or f"sqlite:///{directory / 'demo.db'}"
        director = Director(url, place.namespace or NAMESPACE, directory, workers, seconds)
        with screen_for_this_terminal() as screen:
            findings = asyncio.run(director.run(screen))
        print_audit(findings)
        if not findings.clean:
            kept, directory = directory, Path()
            say(f"What was written down is kept in {kept} ({len(read_records(kept))} records).")
            raise typer.Exit(1)
    except asyncio.CancelledError:
        raise typer.Exit(130) from None
    finally:
        if directory != Path():
            shutil.rmtree(directory, ignore_errors=True)


def _place(context: typer.Context, url: str | None, namespace: str | None) -> Place:
    """Only a store named on the command line is used: nobody wants a demo in the store of INTERLOCK_URL by accident."""
    root = context.find_root()
    source = root.get_parameter_source("url")
    if url is None and (source is None or source.name != "COMMANDLINE"):
        given = root.obj.namespace if isinstance(root.obj, Place) else None
        return Place(None, namespace or given)
    return named_place(context, url, namespace)
