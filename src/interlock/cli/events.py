"""``interlock events``: list, show and replay events."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from interlock.cli.confirmation import By, Yes, confirm, named
from interlock.cli.explanations import explain_subject
from interlock.cli.operations import All, Bulk, OptionalReason, apply, check_choice
from interlock.cli.output import Json, Limit, console, print_formatted, print_json, say, say_if_cut, shown
from interlock.cli.store_url import StoreUrl, opened, with_store
from interlock.cli.tables import Column, Table, moment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.app import App
    from interlock.events import Receipt
    from interlock.operations import BulkResult
    from interlock.ports.events import EventFilter, EventView
    from interlock.ports.job_views import JobView

__all__ = ["Id", "app", "nothing"]

app = typer.Typer(help="List, show and replay events.", no_args_is_help=True)
_MAX_ID = 2**63 - 1
Id = Annotated[int, typer.Argument(min=1, max=_MAX_ID, metavar="ID", help="The event's ID.")]
Source = Annotated[str, typer.Option(help="Only events of this source.")]
Type = Annotated[str, typer.Option("--type", help="Only events of this type, such as issues.opened.")]
Actor = Annotated[str, typer.Option(help="Only events of this actor.")]
Delivery = Annotated[str, typer.Option(help="Only this delivery ID.")]


_TABLE: Table[EventView] = Table(
    Column("id", lambda view: str(view.id), number=True),
    Column("received (UTC)", lambda view: moment(view.received_at), fixed=True),
    Column("source", lambda view: view.source),
    Column("type", lambda view: view.type),
    Column("actor", lambda view: view.actor),
    Column("delivery", lambda view: f"replay of {view.replay_of} by {view.by}" if view.replay_of else view.delivery),
    Column("jobs", lambda view: ", ".join(map(str, view.jobs))),
)


@app.command("list")
@with_store
def list_events(
    store_url: StoreUrl,
    source: Source = "",
    kind: Type = "",
    actor: Actor = "",
    delivery: Delivery = "",
    before: Annotated[
        int | None, typer.Option(min=1, max=_MAX_ID, help="Continue behind the event with this ID.")
    ] = None,
    limit: Limit = 100,
    json: Json = False,
) -> None:
    """List the events that are kept, newest first, from one snapshot."""
    from interlock.events.explain import as_data

    wanted = _filter(source, kind, actor, delivery)
    views = asyncio.run(_look(store_url, wanted, limit, before))
    if json:
        print_json([as_data(view) for view in views])
    elif views:
        _TABLE.print(views)
    else:
        say("No events match." if any(wanted) or before else "There are no events.")
    say_if_cut(len(views), limit)


@app.command()
@with_store
def show(
    store_url: StoreUrl,
    event_id: Id,
    payload: Annotated[bool, typer.Option("--payload/--no-payload", help="Show the payload.")] = True,
    json: Json = False,
) -> None:
    """Show one event: what it is, the state of its jobs, and its payload."""
    from interlock.events.explain import explain_event

    view, jobs = asyncio.run(_find(store_url, event_id))
    if view is None:
        if json:
            print_json(nothing(event_id))
        else:
            say(nothing(event_id)["explain"][0])
        return
    explanation = explain_event(view, jobs)
    sent = _sent(view) if payload else None
    if json:
        print_json({**explanation.data, "payload": sent} if payload else explanation.data)
        return
    out = console()
    for line in explanation.lines:
        out.print(shown(line), soft_wrap=True)
    if payload:
        print_formatted(sent, f"interlock events show {event_id} --json")


@app.command()
@with_store
def explain(store_url: StoreUrl, event_id: Id, json: Json = False) -> None:
    """Explain an event: what it was, and the state of the jobs that it caused."""
    from interlock.insight import Kind

    explain_subject(store_url, Kind.EVENT, event_id, json, missing=lambda: nothing(event_id))


@app.command()
def replay(
    context: typer.Context,
    target: Annotated[
        str,
        typer.Option(
            "--app",
            metavar="MODULE:APP",
            envvar="INTERLOCK_APP",
            show_envvar=True,
            help="The app whose handlers receive it, such as bot:app.",
        ),
    ],
    event_id: Annotated[int | None, typer.Argument(min=1, max=_MAX_ID, metavar="ID", help="The event's ID.")] = None,
    source: Source = "",
    kind: Type = "",
    actor: Actor = "",
    delivery: Delivery = "",
    everything: All = False,
    reason: OptionalReason = "",
    by: By = None,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Replay a kept event, or all that match, as new events, with the handlers that the app has now."""
    from interlock.cli.run import load
    from interlock.ports.journal import Action

    by = named("Replaying an event", reason or None, by)
    filters = {"source": source, "type": kind, "actor": actor, "delivery": delivery}
    chosen = check_choice("an event ID", event_id, filters, everything=everything)
    found = load(target)
    if chosen or event_id is None:
        wanted = _filter(source, kind, actor, delivery)
        bulk = Bulk(Action.EVENT_REPLAY, wanted, "Replaying events", "events", "Replay them?", "Replayed")

        async def find() -> list[int]:
            async with found:
                return await found.events.matching(**wanted._asdict())

        async def perform(refs: Sequence[int]) -> BulkResult[int]:
            async with found:
                return await found.events.replay_matching(wanted, by=by, reason=reason, events=refs)

        apply(
            bulk,
            lambda: asyncio.run(find()),
            lambda refs: asyncio.run(perform(refs)),
            by=by,
            reason=reason,
            yes=yes,
            json=json,
        )
        return
    if not yes:
        confirm("Replaying an event", "Replay it?", lambda: asyncio.run(_about(found, event_id)))
    receipt = asyncio.run(_replay(found, event_id, by, reason))
    if json:
        print_json({"replay_of": event_id, "by": by, "reason": reason, **_receipt(receipt)})
    elif receipt.event is None:
        say(f"No handler received it: {receipt.cause}.")
    else:
        jobs = ", ".join(map(str, receipt.jobs))
        typer.echo(f"Replayed event {event_id} as event {receipt.event}, with jobs {jobs}.")


def nothing(event_id: int) -> dict[str, Any]:
    """Data about an event that does not exist."""
    from interlock.operations import unknown_event

    return {"id": event_id, "reason": None, "explain": [unknown_event(event_id).message]}


def _filter(*given: str) -> EventFilter:
    from interlock.arguments import checked_prefix
    from interlock.ports.events import EventFilter

    return EventFilter(*map(checked_prefix, given))


async def _look(store_url: StoreUrl, wanted: EventFilter, limit: int, before: int | None) -> Sequence[EventView]:
    from interlock.ports.store import Capability

    async with opened(store_url, Capability.EVENTS) as store:
        return await store.events.list(wanted, limit=limit, before=before)


async def _find(store_url: StoreUrl, event_id: int) -> tuple[EventView | None, Sequence[JobView]]:
    from interlock.ports.store import Capability

    async with opened(store_url, Capability.EVENTS) as store:
        view = await store.events.get(event_id)
        jobs = [await store.insight.get(job) for job in (view.jobs if view is not None else ())]
        return view, [job for job in jobs if job is not None]


async def _about(found: App, event_id: int) -> str | None:
    from interlock.errors import NotFoundError

    async with found:
        try:
            view = await found.events.get(event_id)
        except NotFoundError:
            return None
    at = view.received_at.isoformat(timespec="milliseconds")
    return f"Event {view.id}: {view.source}.{view.type} by {view.actor or 'an unknown actor'}, {at}."


async def _replay(found: App, event_id: int, by: str, reason: str) -> Receipt:
    async with found:
        return await found.events.replay(event_id, by=by, reason=reason)


def _receipt(receipt: Receipt) -> dict[str, Any]:
    return {
        "status": str(receipt.status),
        "event": receipt.event,
        "jobs": list(receipt.jobs),
        "why": receipt.cause,
    }


def _sent(view: EventView) -> Any:
    import json

    return json.loads(view.payload or "null")
