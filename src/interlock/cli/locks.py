"""``interlock locks``: list, show and force-release locks."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from interlock.cli.confirmation import By, Yes, confirm, named
from interlock.cli.explanations import explain_subject
from interlock.cli.insight_reader import ask
from interlock.cli.operations import All, Bulk, JournalUrl, Prefix, apply_to_store, check_choice, operate
from interlock.cli.output import Json, Limit, console, print_json, say, say_if_cut, shown
from interlock.cli.store_url import StoreUrl, opened, with_store
from interlock.cli.tables import Column, Table, moment

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from interlock.explanation import Explanation
    from interlock.ports.locks import Holder, LockView

__all__ = ["app"]

app = typer.Typer(help="List, show and force-release locks.", no_args_is_help=True)
Key = Annotated[str, typer.Argument(help="The lock's key.")]


_TABLE: Table[LockView] = Table(
    Column("key", lambda view: view.key),
    Column("holder", lambda view: "free" if view.holder is None else view.holder.caller),
    Column("fence", lambda view: None if view.holder is None else str(view.holder.fence), number=True),
    Column("since (UTC)", lambda view: "" if view.holder is None else moment(view.holder.granted_at), fixed=True),
    Column("waiters", lambda view: ", ".join(_waiters(view))),
)


def _waiters(view: LockView) -> Iterator[str]:
    for number, waiter in enumerate(view.waiters, 1):
        yield f"{number}. {waiter.caller}{'' if waiter.live else ' (gone)'}"


@app.command("list")
@with_store
def list_locks(
    store_url: StoreUrl,
    limit: Limit = 1000,
    json: Json = False,
) -> None:
    """List the keys that are held or have waiters, from one snapshot."""
    from interlock.locks.explain import as_data

    views = asyncio.run(_look(store_url, None, limit))
    if json:
        print_json([as_data(view) for view in views])
    elif views:
        _print(views)
    else:
        say("No locks are held, and none has waiters.")
    say_if_cut(len(views), limit)


@app.command()
@with_store
def show(store_url: StoreUrl, key: Key, json: Json = False) -> None:
    """Show one lock: its holder, and its waiters in order."""
    from interlock.insight import Kind
    from interlock.ports.store import Capability

    why = ask(store_url, Capability.LOCKS, lambda insight: insight.explain(Kind.LOCK, key))
    view = None if json else look_at(store_url, key)
    if json:
        print_json(why.data)
    elif view is None:
        say(why.lines[0])
    else:
        _print([view], why)


@app.command()
@with_store
def explain(store_url: StoreUrl, key: Key, json: Json = False) -> None:
    """Explain a lock: its holder, since when, and its waiters."""
    from interlock.insight import Kind

    explain_subject(store_url, Kind.LOCK, key, json)


@app.command()
@with_store
def release(
    store_url: StoreUrl,
    reason: Annotated[str, typer.Option(help="Why; the holder and the journal get it.")],
    key: Annotated[str | None, typer.Argument(help="The lock's key.")] = None,
    prefix: Prefix = "",
    everything: All = False,
    by: By = None,
    yes: Yes = False,
    json: Json = False,
    journal_url: JournalUrl = None,
) -> None:
    """Force the release of a lock, or of all held locks that match.

    The next waiter gets the lock immediately, and the holder's work is cancelled.
    """
    from interlock.arguments import checked_key
    from interlock.errors import NotFoundError
    from interlock.locks.explain import who_holds
    from interlock.ports.journal import Action
    from interlock.ports.store import Capability
    from interlock.selections import LockFilter

    by = named("A forced release", reason, by)
    if key is None or prefix or everything:
        check_choice("a key", key, {"prefix": prefix}, everything=everything)
        what = ("A forced release", "held locks", "Release them by force?", "Released")
        bulk = Bulk(Action.LOCK_FORCE_RELEASE, LockFilter(prefix), *what)
        apply_to_store(
            store_url, Capability.LOCKS, bulk, by=by, reason=reason, yes=yes, json=json, journal_url=journal_url
        )
        return

    def held() -> str | None:
        view = look_at(store_url, key)
        return None if view is None or view.holder is None else f"{key!r} is {who_holds(view.holder)}."

    if not yes:
        confirm("A forced release", "Release it by force?", held)
    name = checked_key(key)
    holder = operate(
        store_url,
        Capability.LOCKS,
        lambda operations: operations.force_release(name, by=by, reason=reason),
        journal_url,
    )
    if holder is None:
        raise NotFoundError(f"The lock {key!r} is not held.", remedy="List locks with: interlock locks list.")
    if json:
        print_json({"key": key, "by": by, "reason": reason, "released": _as_data(holder)})
    else:
        typer.echo(shown(f"Released {key!r}, which was {who_holds(holder)}."))


def look_at(store_url: StoreUrl, key: str) -> LockView | None:
    """Return one lock, or None if it is not held and has no waiters."""
    from interlock.arguments import checked_key

    views = asyncio.run(_look(store_url, checked_key(key), 1))
    return views[0] if views else None


async def _look(store_url: StoreUrl, key: str | None, limit: int) -> Sequence[LockView]:
    from interlock.ports.store import Capability

    async with opened(store_url, Capability.LOCKS) as store:
        return await store.locks.list(key, limit=limit)


def _as_data(holder: Holder) -> dict[str, Any]:
    from interlock.locks.explain import as_data
    from interlock.ports.locks import LockView

    data: dict[str, Any] = as_data(LockView("", holder, (), None, holder.granted_at))["holder"]
    return data


def _print(views: Sequence[LockView], why: Explanation | None = None) -> None:
    """Print the table, and an explanation of each lock."""
    from interlock.locks.explain import explain as explain_lock

    _TABLE.print(views)
    out = console()
    for view in views:
        for line in (why or explain_lock(view.key, view)).lines:
            out.print(shown(line), soft_wrap=True)
