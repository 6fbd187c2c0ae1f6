"""``interlock claims``: list, show and forget claims."""

from __future__ import annotations

import asyncio
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from interlock.cli.confirmation import By, Yes, confirm, named
from interlock.cli.explanations import explain_subject
from interlock.cli.operations import All, Bulk, JournalUrl, Prefix, apply_to_store, check_choice, operate
from interlock.cli.output import Json, Limit, brief, console, print_json, say, say_if_cut, shown
from interlock.cli.store_url import StoreUrl, opened, with_store
from interlock.cli.tables import Column, Table, moment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.ports.claims import ClaimState, ClaimView

__all__ = ["app"]

app = typer.Typer(help="List, show and forget claims.", no_args_is_help=True)
Key = Annotated[str, typer.Argument(help="The claim's key.")]


class State(StrEnum):
    """The states of a claim, as options of the command line."""

    IN_PROGRESS = "in-progress"
    DONE = "done"
    FAILED = "failed"


_TABLE: Table[ClaimView] = Table(
    Column("key", lambda view: view.key),
    Column("state", lambda view: str(view.state), fixed=True),
    Column("attempt", lambda view: view.attempt, number=True),
    Column("holder", lambda view: f"{view.program}@{view.host}:{view.pid}"),
    Column("since (UTC)", lambda view: moment(view.finished_at or view.claimed_at), fixed=True),
    Column("what happens next", lambda view: _next(view)),
)


def _next(view: ClaimView) -> str:
    from interlock.claims.explain import what_next

    return what_next(view)


@app.command("list")
@with_store
def list_claims(
    store_url: StoreUrl,
    prefix: Annotated[str, typer.Option(help="Only keys that start with this.")] = "",
    state: Annotated[State | None, typer.Option(help="Only claims in this state.")] = None,
    limit: Limit = 1000,
    json: Json = False,
) -> None:
    """List the claims that are kept, by key, from one snapshot."""
    from interlock.arguments import checked_prefix
    from interlock.claims.explain import as_data

    prefix = checked_prefix(prefix)
    views = asyncio.run(_look(store_url, None, prefix, _state(state), limit))
    if json:
        print_json([as_data(view) for view in views])
    elif views:
        _TABLE.print(views)
    else:
        say("No claims match." if prefix or state else "There are no claims.")
    say_if_cut(len(views), limit)


@app.command()
@with_store
def show(store_url: StoreUrl, key: Key, json: Json = False) -> None:
    """Show one claim: its state, its holder, and what happens next."""
    from interlock.claims.explain import explain

    view = look_at(store_url, key)
    if json:
        print_json(explain(key, view).data)
    elif view is None:
        say(explain(key, view).lines[0])
    else:
        _TABLE.print([view])
        _print_rest(view)


@app.command()
@with_store
def explain(store_url: StoreUrl, key: Key, json: Json = False) -> None:
    """Explain a claim: its state, its holder, and what happens next."""
    from interlock.insight import Kind

    explain_subject(store_url, Kind.CLAIM, key, json)


@app.command()
@with_store
def forget(
    store_url: StoreUrl,
    reason: Annotated[str, typer.Option(help="Why; the holder and the journal get it.")],
    key: Annotated[str | None, typer.Argument(help="The claim's key.")] = None,
    prefix: Prefix = "",
    state: Annotated[State | None, typer.Option(help="Only claims in this state.")] = None,
    everything: All = False,
    by: By = None,
    yes: Yes = False,
    json: Json = False,
    journal_url: JournalUrl = None,
) -> None:
    """Forget a claim, or all claims that match, so that the key can be claimed again. Work in progress is cancelled."""
    from interlock.arguments import checked_key
    from interlock.claims.explain import as_data, explain
    from interlock.errors import NotFoundError
    from interlock.ports.claims import ClaimFilter
    from interlock.ports.journal import Action
    from interlock.ports.store import Capability

    by = named("Forgetting a claim", reason, by)
    if key is None or prefix or state or everything:
        check_choice("a key", key, {"prefix": prefix, "state": state}, everything=everything)
        what = ("Forgetting claims", "claims", "Forget them, so that their keys can be claimed again?", "Forgot")
        bulk = Bulk(Action.CLAIM_FORGET, ClaimFilter(prefix, _state(state)), *what)
        apply_to_store(
            store_url, Capability.CLAIMS, bulk, by=by, reason=reason, yes=yes, json=json, journal_url=journal_url
        )
        return

    def kept() -> str | None:
        view = look_at(store_url, key)
        return None if view is None else f"{explain(key, view).lines[0]}."

    if not yes:
        confirm("Forgetting a claim", "Forget it, so that its key can be claimed again?", kept)
    name = checked_key(key)
    view = operate(
        store_url,
        Capability.CLAIMS,
        lambda operations: operations.forget_claim(name, by=by, reason=reason),
        journal_url,
    )
    if view is None:
        raise NotFoundError(f"The key {key!r} is not claimed.", remedy="List claims with: interlock claims list.")
    if json:
        print_json({"key": key, "by": by, "reason": reason, "forgotten": as_data(view)})
    else:
        typer.echo(shown(f"Forgot {key!r}, which was {view.state}. It can be claimed again."))


def _state(state: State | None) -> ClaimState | None:
    from interlock.ports.claims import ClaimState

    return None if state is None else ClaimState(state.replace("-", " "))


def look_at(store_url: StoreUrl, key: str) -> ClaimView | None:
    """Return one claim, or None if it is not kept."""
    from interlock.arguments import checked_key

    views = asyncio.run(_look(store_url, checked_key(key), "", None, 1))
    return views[0] if views else None


async def _look(
    store_url: StoreUrl, key: str | None, prefix: str, state: ClaimState | None, limit: int
) -> Sequence[ClaimView]:
    from interlock.ports.claims import ClaimFilter
    from interlock.ports.store import Capability

    async with opened(store_url, Capability.CLAIMS) as store:
        return await store.claims.list(key, ClaimFilter(prefix, state), limit=limit)


def _print_rest(view: ClaimView) -> None:
    """Print the explanation and the result."""
    from interlock.claims.explain import explain
    from interlock.values import decoded

    out = console()
    for line in explain(view.key, view).lines:
        out.print(shown(line), soft_wrap=True)
    if view.result is not None:
        out.print(f"result: {brief(decoded(view.result))}", soft_wrap=True)
