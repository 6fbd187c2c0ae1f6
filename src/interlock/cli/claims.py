"""``interlock claims``: what was seen, how it stands, and making a key new again."""

from __future__ import annotations

import asyncio
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from interlock.cli.confirmation import By, Yes, confirm, named
from interlock.cli.operations import JournalUrl, operate
from interlock.cli.output import Json, Limit, brief, console, print_json, say, say_if_cut, shown
from interlock.cli.store_url import Namespace, StoreUrl, Url, chosen_store, opened

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.ports.claims import ClaimState, ClaimView

__all__ = ["app"]

app = typer.Typer(help="What was seen, and what became of it.", no_args_is_help=True)
Key = Annotated[str, typer.Argument(help="The claim's key.")]


class State(StrEnum):
    """The states that a claim can be kept in, as words of a command line."""

    IN_PROGRESS = "in-progress"
    DONE = "done"
    FAILED = "failed"


@app.command("list")
def list_claims(
    context: typer.Context,
    prefix: Annotated[str, typer.Option(help="Only keys that begin so.")] = "",
    state: Annotated[State | None, typer.Option(help="Only claims in this state.")] = None,
    limit: Limit = 1000,
    json: Json = False,
    url: Url = None,
    namespace: Namespace = None,
) -> None:
    """Show the claims that are kept, by key, as one snapshot."""
    from interlock.arguments import checked_prefix
    from interlock.claims.explain import as_data
    from interlock.ports.claims import ClaimState

    prefix = checked_prefix(prefix)
    wanted = None if state is None else ClaimState(state.replace("-", " "))
    views = asyncio.run(_look(chosen_store(context, url, namespace), None, prefix, wanted, limit))
    if json:
        print_json([as_data(view) for view in views])
    elif views:
        _print(views)
    else:
        say("No such claim is kept." if prefix or state else "No claim is kept.")
    say_if_cut(len(views), limit)


@app.command()
def show(context: typer.Context, key: Key, json: Json = False, url: Url = None, namespace: Namespace = None) -> None:
    """Show one claim: its state, who has or had it, and what happens next."""
    from interlock.claims.explain import explain

    view = look_at(chosen_store(context, url, namespace), key)
    if json:
        print_json(explain(key, view).data)
    elif view is None:
        say(explain(key, view).lines[0])
    else:
        _print([view])
        _print_rest(view)


@app.command()
def forget(
    context: typer.Context,
    key: Key,
    reason: Annotated[str, typer.Option(help="Why; whoever works on it is told.")],
    by: By = None,
    yes: Yes = False,
    json: Json = False,
    url: Url = None,
    namespace: Namespace = None,
    journal_url: JournalUrl = None,
) -> None:
    """Make a key new again, so that whoever claims it next does the work anew. Work in progress is cancelled."""
    from interlock.arguments import checked_key
    from interlock.claims.explain import as_data, explain
    from interlock.errors import NotFoundError
    from interlock.ports.store import Capability

    store_url = chosen_store(context, url, namespace)
    by = named("Forgetting a claim", reason, by)

    def kept() -> str | None:
        view = look_at(store_url, key)
        return None if view is None else f"{explain(key, view).lines[0]}."

    if not yes:
        confirm("Forgetting a claim", "Forget it, so that it may be done again?", kept)
    name = checked_key(key)
    view = operate(
        store_url,
        Capability.CLAIMS,
        lambda operations: operations.forget_claim(name, by=by, reason=reason),
        journal_url,
    )
    if view is None:
        raise NotFoundError(f"There is no claim on {key!r}.", remedy="See: interlock claims list.")
    if json:
        print_json({"key": key, "by": by, "reason": reason, "forgotten": as_data(view)})
    else:
        typer.echo(shown(f"Forgot {key!r}, which was {view.state}. It is new again."))


def look_at(store_url: StoreUrl, key: str) -> ClaimView | None:
    """One claim, None if none is kept."""
    from interlock.arguments import checked_key

    views = asyncio.run(_look(store_url, checked_key(key), "", None, 1))
    return views[0] if views else None


async def _look(
    store_url: StoreUrl, key: str | None, prefix: str, state: ClaimState | None, limit: int
) -> Sequence[ClaimView]:
    from interlock.ports.store import Capability

    async with opened(store_url, Capability.CLAIMS) as store:
        return await store.claims.list(key, prefix=prefix, state=state, limit=limit)


def _print(views: Sequence[ClaimView]) -> None:
    from rich import box
    from rich.table import Table

    from interlock.claims.explain import what_next
    from interlock.clock import as_datetime

    table = Table("key", "state", box=box.SIMPLE_HEAD)
    table.add_column("attempt", justify="right")
    table.add_column("who")
    table.add_column("since (UTC)")
    table.add_column("what happens next")
    for view in views:
        since = view.claimed_at if view.settled_at is None else view.settled_at
        table.add_row(
            shown(view.key),
            str(view.state),
            str(view.attempt),
            shown(f"{view.program}@{view.host}:{view.pid}"),
            f"{as_datetime(since):%Y-%m-%d %H:%M:%S}",
            what_next(view),
        )
    console().print(table)


def _print_rest(view: ClaimView) -> None:
    """What has no column: the words, and what was left."""
    from interlock.claims.explain import explain
    from interlock.values import decoded

    out = console()
    for line in explain(view.key, view).lines:
        out.print(shown(line), soft_wrap=True)
    if view.result is not None:
        out.print(f"result: {brief(decoded(view.result))}", soft_wrap=True)
