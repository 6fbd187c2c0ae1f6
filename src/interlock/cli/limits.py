"""``interlock limits``: which limits are in use, who is at work under them, and who waits."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from interlock.cli.output import Json, Limit, console, print_json, say, say_if_cut, shown
from interlock.cli.place import Namespace, Place, Url, named_place, opened

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.ports.limits import LimitView

__all__ = ["app", "look_at", "unused"]

app = typer.Typer(help="Which limits are in use, and who waits for them.", invoke_without_command=True)
Key = Annotated[str, typer.Argument(help="The limit's full key, such as slots:containers or cooldown:account:a1.")]
_MOST = 1000


@app.callback()
def _limits(context: typer.Context, json: Json = False, url: Url = None, namespace: Namespace = None) -> None:
    """Which limits are in use, and who waits for them. Without a command: list."""
    place = named_place(context, url, namespace)
    if context.invoked_subcommand is None:
        _list(place, _MOST, json)
    elif json:
        raise typer.BadParameter("goes after the command.", context, param_hint="--json")


@app.command("list")
def list_limits(
    context: typer.Context,
    limit: Limit = _MOST,
    json: Json = False,
    url: Url = None,
    namespace: Namespace = None,
) -> None:
    """Show all limits in use, by key, as one snapshot."""
    _list(named_place(context, url, namespace), limit, json)


@app.command()
def show(context: typer.Context, key: Key, json: Json = False, url: Url = None, namespace: Namespace = None) -> None:
    """Show one limit: who is at work, and who waits in which order, for what and until when."""
    from interlock.limits.explain import as_data, explain

    view = look_at(named_place(context, url, namespace), key)
    if json:
        print_json(unused(key) if view is None else as_data(view))
    elif view is None:
        say(unused(key)["explain"][0])
    else:
        _print([view])
        out = console()
        for line in explain(view):
            out.print(shown(line), soft_wrap=True)


def look_at(place: Place, key: str) -> LimitView | None:
    """One limit, None if nobody uses it."""
    from interlock.arguments import checked_key

    views = asyncio.run(_look(place, checked_key(key), 1))
    return views[0] if views else None


def unused(key: str) -> dict[str, Any]:
    """What there is to say about a limit that nobody uses."""
    line = f"Nobody uses {key!r}: whoever comes next may start at once."
    return {"key": key, "most": None, "per": None, "started": [], "waiting": [], "explain": [line]}


def _list(place: Place, limit: int, json: bool) -> None:
    from interlock.limits.explain import as_data

    views = asyncio.run(_look(place, None, limit))
    if json:
        print_json([as_data(view) for view in views])
    elif views:
        _print(views)
    else:
        say("No limit is in use.")
    say_if_cut(len(views), limit)


async def _look(place: Place, key: str | None, limit: int) -> Sequence[LimitView]:
    from interlock.ports.store import Capability

    async with opened(place, Capability.LIMITS) as store:
        return await store.limits.look(key, limit=limit)


def _print(views: Sequence[LimitView]) -> None:
    from rich import box
    from rich.table import Table

    from interlock.limits.explain import figure, what_next

    table = Table("key", "figure", box=box.SIMPLE_HEAD)
    table.add_column("at work", justify="right")
    table.add_column("waiting", justify="right")
    table.add_column("next")
    for view in views:
        table.add_row(
            shown(view.key),
            figure(view.most, view.per),
            str(len(view.started)),
            str(len(view.waiting)),
            shown(what_next(view)),
        )
    console().print(table)
