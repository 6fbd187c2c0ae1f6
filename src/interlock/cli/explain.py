"""``interlock explain``: why something waits, in words."""

from __future__ import annotations

from typing import Annotated

import typer

from interlock.cli.locks import look_at, nobody
from interlock.cli.output import print_json, shown
from interlock.cli.place import Namespace, Url, named_place

__all__ = ["app"]

app = typer.Typer(help="Why something waits, and what to do about it.", no_args_is_help=True)


@app.callback()
def _explain() -> None:
    """Why something waits, and what to do about it."""


@app.command()
def lock(
    context: typer.Context,
    key: Annotated[str, typer.Argument(help="The lock's key.")],
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    url: Url = None,
    namespace: Namespace = None,
) -> None:
    """Say who holds a key, since when, who waits for it and for how long yet."""
    from interlock.locks.explain import as_data

    view = look_at(named_place(context, url, namespace), key)
    data = nobody(key) if view is None else as_data(view)
    if json:
        print_json(data)
        return
    for line in data["explain"]:
        typer.echo(shown(line))
