"""``interlock lanes``: what each lane is at, and letting one stand still or go on."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from interlock.cli.consent import By, Yes, ask_first, named
from interlock.cli.output import Json, Limit, console, print_json, say, say_if_cut, shown
from interlock.cli.place import Namespace, Place, Url, named_place, opened

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.ports.job_views import LaneView, Outlook

__all__ = ["Lane", "app", "look_at"]

app = typer.Typer(help="What each lane is at, and why.", invoke_without_command=True)
Lane = Annotated[str, typer.Argument(metavar="LANE", help="The lane, such as acme/api#7.")]
_MOST = 100


@app.callback()
def _lanes(context: typer.Context, json: Json = False, url: Url = None, namespace: Namespace = None) -> None:
    """What each lane is at, and why. Without a command: list."""
    place = named_place(context, url, namespace)
    if context.invoked_subcommand is None:
        _list(place, _MOST, json)
    elif json:
        raise typer.BadParameter("goes after the command.", context, param_hint="--json")


@app.command("list")
def list_lanes(
    context: typer.Context,
    limit: Limit = _MOST,
    json: Json = False,
    url: Url = None,
    namespace: Namespace = None,
) -> None:
    """Show all lanes that have jobs or are held, as one snapshot."""
    _list(named_place(context, url, namespace), limit, json)


@app.command()
def show(context: typer.Context, lane: Lane, json: Json = False, url: Url = None, namespace: Namespace = None) -> None:
    """Show one lane: the job it is at, how many wait behind it, why, and what to do."""
    from interlock.jobs.explain import explain_lane

    view, head = look_at(named_place(context, url, namespace), lane)
    why = explain_lane(lane, view, head)
    if json:
        print_json(why.data)
    elif view is None:
        say(why.lines[0])
    else:
        _print([view])
        out = console()
        for line in why.lines:
            out.print(shown(line), soft_wrap=True)


@app.command()
def hold(
    context: typer.Context,
    lane: Lane,
    reason: Annotated[str, typer.Option(help="Why; whoever asks why the lane stands still is told.")],
    by: By = None,
    yes: Yes = False,
    json: Json = False,
    url: Url = None,
    namespace: Namespace = None,
) -> None:
    """Let no further job of a lane start until it is released. What runs goes on; new jobs are taken in."""
    from interlock.arguments import checked_key
    from interlock.jobs.explain import explain_lane

    place = named_place(context, url, namespace)
    by = named("A hold", reason, by)

    def at_work() -> str | None:
        view, head = look_at(place, lane)
        return None if view is None else f"{explain_lane(lane, view, head).lines[0]}."

    if not yes:
        ask_first("A hold", "Let it stand still?", at_work)
    asyncio.run(_hold(place, checked_key(lane), reason, by))
    if json:
        print_json({"lane": lane, "by": by, "reason": reason, "held": True})
    else:
        typer.echo(shown(f"Held {lane!r}. To let it go on: interlock lanes release {lane!r}"))


@app.command()
def release(
    context: typer.Context, lane: Lane, json: Json = False, url: Url = None, namespace: Namespace = None
) -> None:
    """Let a lane go on that is held, or that was parked after a failure."""
    from interlock.arguments import checked_key
    from interlock.errors import NotFoundError

    if not asyncio.run(_release(named_place(context, url, namespace), checked_key(lane))):
        raise NotFoundError(f"The lane {lane!r} is neither held nor parked.", remedy="See: interlock lanes list.")
    if json:
        print_json({"lane": lane, "released": True})
    else:
        typer.echo(shown(f"Released {lane!r}. It goes on."))


def look_at(place: Place, lane: str) -> tuple[LaneView | None, Outlook | None]:
    """One lane and the outlook of its head; None for what is not there."""
    from interlock.arguments import checked_key

    return asyncio.run(_look_at(place, checked_key(lane)))


def _list(place: Place, limit: int, json: bool) -> None:
    from interlock.cli.job_words import lane_data

    views = asyncio.run(_look(place, limit))
    if json:
        print_json([lane_data(view) for view in views])
    elif views:
        _print(views)
    else:
        say("No lane has jobs or is held.")
    say_if_cut(len(views), limit)


async def _look(place: Place, limit: int) -> Sequence[LaneView]:
    from interlock.ports.store import Capability

    async with opened(place, Capability.JOBS) as store:
        return await store.jobs.lanes(limit=limit)


async def _look_at(place: Place, lane: str) -> tuple[LaneView | None, Outlook | None]:
    from interlock.ports.store import Capability

    async with opened(place, Capability.JOBS) as store:
        views = await store.jobs.lanes(lane, limit=1)
        view = views[0] if views else None
        return view, None if view is None or view.head is None else await store.jobs.outlook(view.head)


async def _hold(place: Place, lane: str, reason: str, by: str) -> None:
    from interlock.ports.store import Capability

    async with opened(place, Capability.JOBS) as store:
        await store.jobs.hold(lane, reason, by)


async def _release(place: Place, lane: str) -> bool:
    from interlock.ports.store import Capability

    async with opened(place, Capability.JOBS) as store:
        return await store.jobs.release(lane)


def _print(views: Sequence[LaneView]) -> None:
    from rich import box
    from rich.table import Table

    from interlock.cli.job_words import coloured, lane_next, moment, on_one_line

    table = Table(box=box.SIMPLE_HEAD, collapse_padding=True)
    table.add_column("lane", overflow="fold")
    table.add_column("state", no_wrap=True)
    table.add_column("jobs", justify="right", no_wrap=True)
    table.add_column("head", justify="right", no_wrap=True)
    table.add_column("job", overflow="fold")
    table.add_column("since (UTC)", no_wrap=True)
    table.add_column("why, or who", min_width=25)
    for view in views:
        table.add_row(
            shown(view.lane),
            coloured(view.state),
            f"{view.depth:,}",
            "" if view.head is None else str(view.head),
            shown(view.name),
            moment(view.since) if view.since <= view.seen_at else "",
            on_one_line(lane_next(view)),
        )
    console().print(table)
