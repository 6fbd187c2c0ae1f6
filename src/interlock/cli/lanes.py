"""``interlock lanes``: what each lane is at, and letting one stand still or go on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from interlock.cli.confirmation import By, Yes, confirm, named
from interlock.cli.insight_reader import ask, whole_list
from interlock.cli.operations import OptionalReason, operate
from interlock.cli.output import Json, Limit, console, print_json, say, say_if_cut, shown
from interlock.cli.store_url import Namespace, StoreUrl, Url, chosen_store

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.insight import Insight, LanePage, LaneRow

__all__ = ["Lane", "app", "look_at"]

app = typer.Typer(help="What each lane is at, and why.", invoke_without_command=True)
Lane = Annotated[str, typer.Argument(metavar="LANE", help="The lane, such as acme/api#7.")]
_MOST = 100


@app.callback()
def _lanes(context: typer.Context, json: Json = False, url: Url = None, namespace: Namespace = None) -> None:
    """What each lane is at, and why. Without a command: list."""
    store_url = chosen_store(context, url, namespace)
    if context.invoked_subcommand is None:
        _list(store_url, _MOST, json)
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
    _list(chosen_store(context, url, namespace), limit, json)


@app.command()
def show(context: typer.Context, lane: Lane, json: Json = False, url: Url = None, namespace: Namespace = None) -> None:
    """Show one lane: the job it is at, how many wait behind it, why, and what to do."""
    from interlock.insight import LaneRow

    page = look_at(chosen_store(context, url, namespace), lane)
    if json:
        print_json(page.explanation.data)
    elif page.lane is None:
        say(page.explanation.lines[0])
    else:
        _print([LaneRow(page.lane, page.reason, page.why)])
        out = console()
        for line in page.explanation.lines:
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
    from interlock.explanation import command
    from interlock.ports.store import Capability

    store_url = chosen_store(context, url, namespace)
    by = named("A hold", reason, by)

    def at_work() -> str | None:
        page = look_at(store_url, lane)
        return None if page.lane is None else f"{page.explanation.lines[0]}."

    if not yes:
        confirm("A hold", "Let it stand still?", at_work)
    key = checked_key(lane)
    operate(store_url, Capability.JOBS, lambda operations: operations.hold(key, by=by, reason=reason))
    if json:
        print_json({"lane": lane, "by": by, "reason": reason, "held": True})
    else:
        typer.echo(shown(f"Held {lane!r}. To let it go on: {command('lanes', 'release', lane)}"))


@app.command()
def release(
    context: typer.Context,
    lane: Lane,
    reason: OptionalReason = "",
    by: By = None,
    json: Json = False,
    url: Url = None,
    namespace: Namespace = None,
) -> None:
    """Let a lane go on that is held, or that was parked after a failure."""
    from interlock.arguments import checked_key
    from interlock.errors import NotFoundError
    from interlock.ports.store import Capability

    by = named("A release", reason or None, by)
    key, store_url = checked_key(lane), chosen_store(context, url, namespace)
    if not operate(store_url, Capability.JOBS, lambda operations: operations.release(key, by=by, reason=reason)):
        raise NotFoundError(f"The lane {lane!r} is neither held nor parked.", remedy="See: interlock lanes list.")
    if json:
        print_json({"lane": lane, "by": by, "reason": reason, "released": True})
    else:
        typer.echo(shown(f"Released {lane!r}. It goes on."))


def look_at(store_url: StoreUrl, lane: str) -> LanePage:
    """One lane, also if nobody uses it."""
    from interlock.ports.store import Capability

    return ask(store_url, Capability.JOBS, lambda insight: insight.lane(lane, limit=1))


def _list(store_url: StoreUrl, limit: int, json: bool) -> None:
    from interlock.cli.job_cells import lane_data
    from interlock.ports.store import Capability

    async def look(insight: Insight) -> list[LaneRow]:
        return await whole_list(limit, lambda most, after: insight.lanes(limit=most, after=after))

    rows = ask(store_url, Capability.JOBS, look)
    if json:
        print_json([{**lane_data(row.lane), "reason": row.reason, "why": row.why} for row in rows])
    elif rows:
        _print(rows)
    else:
        say("No lane has jobs or is held.")
    say_if_cut(len(rows), limit)


def _print(rows: Sequence[LaneRow]) -> None:
    from rich import box
    from rich.table import Table

    from interlock.cli.job_cells import moment, state_cell, tail

    table = Table(box=box.SIMPLE_HEAD, collapse_padding=True)
    table.add_column("lane", overflow="fold")
    table.add_column("state", no_wrap=True)
    table.add_column("jobs", justify="right", no_wrap=True)
    table.add_column("head", justify="right", no_wrap=True)
    table.add_column("job", overflow="fold")
    table.add_column("since (UTC)", no_wrap=True)
    table.add_column("why, or who", min_width=25)
    for view, _, why in rows:
        table.add_row(
            shown(view.lane),
            state_cell(view.state),
            f"{view.depth:,}",
            "" if view.head is None else str(view.head),
            shown(view.name),
            moment(view.since) if view.since <= view.seen_at else "",
            tail(why),
        )
    console().print(table)
