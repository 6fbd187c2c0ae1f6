"""``interlock cursors``: list, show and forget the positions of pollers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from interlock.cli.confirmation import By, Yes, confirm, named
from interlock.cli.operations import JournalUrl, operate
from interlock.cli.output import Json, Limit, brief, print_json, say, say_if_cut, shown
from interlock.cli.store_url import StoreUrl, opened, with_store
from interlock.cli.tables import Column, Table, moment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.ports.cursors import CursorView

__all__ = ["app"]

app = typer.Typer(help="List, show and forget the positions of pollers.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(help="The cursor's name.")]


_MOVES: tuple[Column[CursorView], ...] = (
    Column("value", lambda view: brief(_value(view))),
    Column("version", lambda view: str(view.version), number=True),
    Column("moved (UTC)", lambda view: moment(view.moved_at), fixed=True),
    Column("by", lambda view: view.by),
)
_CURSORS: Table[CursorView] = Table(Column("name", lambda view: view.name), *_MOVES)
_HISTORY: Table[CursorView] = Table(*_MOVES)


@app.command("list")
@with_store
def list_cursors(
    store_url: StoreUrl,
    limit: Limit = 1000,
    json: Json = False,
) -> None:
    """List all cursors by name, from one snapshot."""
    views = asyncio.run(_look(store_url, limit))
    if json:
        print_json([_as_data(view) for view in views])
    elif views:
        _CURSORS.print(views)
    else:
        say("There are no cursors.")
    say_if_cut(len(views), limit)


@app.command()
@with_store
def show(store_url: StoreUrl, name: Name, json: Json = False) -> None:
    """Show one cursor: its position, and its last moves, newest first."""
    moves = asyncio.run(_history(store_url, _checked(name)))
    if json:
        data = _as_data(moves[0]) if moves else {"name": name, "version": None}
        print_json({**data, "history": [_as_data(view) for view in moves]})
    elif moves:
        _HISTORY.print(moves)
    else:
        say(f"The cursor {name!r} has never moved.")


@app.command()
@with_store
def forget(
    store_url: StoreUrl,
    name: Name,
    reason: Annotated[str, typer.Option(help="Why; the journal keeps it.")],
    by: By = None,
    yes: Yes = False,
    json: Json = False,
    journal_url: JournalUrl = None,
) -> None:
    """Remove a cursor and its history. Its poller starts over, and a move that is in progress is refused."""
    from interlock.errors import NotFoundError
    from interlock.ports.store import Capability

    by = named("Forgetting a cursor", reason, by)

    def stands() -> str | None:
        moves = asyncio.run(_history(store_url, _checked(name)))
        return f"{name!r} is at {brief(_value(moves[0]))}, moved by {moves[0].by}." if moves else None

    if not yes:
        confirm("Forgetting a cursor", "Forget it, so that its poller starts over?", stands)
    key = _checked(name)
    view = operate(
        store_url,
        Capability.CURSORS,
        lambda operations: operations.forget_cursor(key, by=by, reason=reason),
        journal_url,
    )
    if view is None:
        raise NotFoundError(f"The cursor {name!r} does not exist.", remedy="List cursors with: interlock cursors list.")
    if json:
        print_json({"name": name, "by": by, "reason": reason, "forgotten": _as_data(view)})
    else:
        typer.echo(shown(f"Forgot {name!r}, which was at {brief(_value(view))}."))


async def _look(store_url: StoreUrl, limit: int) -> Sequence[CursorView]:
    from interlock.ports.store import Capability

    async with opened(store_url, Capability.CURSORS) as store:
        return await store.cursors.list(limit=limit)


async def _history(store_url: StoreUrl, name: str) -> Sequence[CursorView]:
    from interlock.ports.store import Capability

    async with opened(store_url, Capability.CURSORS) as store:
        return await store.cursors.history(name)


def _checked(name: str) -> str:
    from interlock.arguments import checked_key

    return checked_key(name)


def _value(view: CursorView) -> object:
    from interlock.values import decoded

    value: object = decoded(view.value)
    return value


def _as_data(view: CursorView) -> dict[str, Any]:
    from interlock.clock import as_text

    return {**view._asdict(), "value": _value(view), "moved_at": as_text(view.moved_at)}
