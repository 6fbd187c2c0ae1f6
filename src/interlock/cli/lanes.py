"""``interlock lanes``: list, show, hold and release lanes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from interlock.cli.confirmation import By, Yes, confirm, named
from interlock.cli.explanations import explain_subject
from interlock.cli.insight_reader import ask, whole_list
from interlock.cli.operations import All, Bulk, OptionalReason, Prefix, apply_to_store, check_choice, operate
from interlock.cli.output import Json, Limit, console, print_json, say, say_if_cut, shown
from interlock.cli.store_url import Namespace, StoreUrl, Url, chosen_store, with_store
from interlock.cli.tables import Column, Table, moment, state_cell, tail
from interlock.ports.insight import LaneShow

if TYPE_CHECKING:
    from interlock.insight import Insight, LanePage, LaneRow
    from interlock.selections import LaneFilter

__all__ = ["Lane", "app", "look_at"]

app = typer.Typer(help="List, show, hold and release lanes.", invoke_without_command=True)
Lane = Annotated[str, typer.Argument(metavar="LANE", help="The lane, such as acme/api#7.")]
OptionalLane = Annotated[str | None, typer.Argument(metavar="LANE", help="The lane, such as acme/api#7.")]
Show = Annotated[
    LaneShow,
    typer.Option(
        metavar="STATE", help=f"Only lanes in this state: {', '.join(filter(None, LaneShow))}.", show_default=False
    ),
]
_MAX = 100


_TABLE: Table[LaneRow] = Table(
    Column("lane", lambda row: row.lane.lane),
    Column("state", lambda row: state_cell(row.lane.state), fixed=True),
    Column("jobs", lambda row: row.lane.depth, number=True),
    Column("head", lambda row: None if row.lane.head is None else str(row.lane.head), number=True),
    Column("job", lambda row: row.lane.name),
    Column("since (UTC)", lambda row: moment(row.lane.since) if row.lane.since <= row.lane.seen_at else "", fixed=True),
    Column("why", lambda row: tail(row.why), min_width=25),
)


@app.callback()
def _lanes(context: typer.Context, json: Json = False, url: Url = None, namespace: Namespace = None) -> None:
    """List, show, hold and release lanes. Without a command: list."""
    store_url = chosen_store(context, url, namespace)
    if context.invoked_subcommand is None:
        _list(store_url, _MAX, json)
    elif json:
        raise typer.BadParameter("goes after the command.", context, param_hint="--json")


@app.command("list")
@with_store
def list_lanes(
    store_url: StoreUrl,
    limit: Limit = _MAX,
    json: Json = False,
) -> None:
    """List the lanes that have jobs or are held or parked, from one snapshot."""
    _list(store_url, limit, json)


@app.command()
@with_store
def show(store_url: StoreUrl, lane: Lane, json: Json = False) -> None:
    """Show one lane: the job at its head, how many are behind it, why it waits, and what to do."""
    from interlock.insight import LaneRow

    page = look_at(store_url, lane)
    if json:
        print_json(page.explanation.data)
    elif page.lane is None:
        say(page.explanation.lines[0])
    else:
        _TABLE.print([LaneRow(page.lane, page.reason, page.why)])
        out = console()
        for line in page.explanation.lines:
            out.print(shown(line), soft_wrap=True)


@app.command()
@with_store
def explain(store_url: StoreUrl, lane: Lane, json: Json = False) -> None:
    """Explain a lane: the job at its head, why it waits, and what to do."""
    from interlock.insight import Kind

    explain_subject(store_url, Kind.LANE, lane, json)


@app.command()
@with_store
def hold(
    store_url: StoreUrl,
    reason: Annotated[str, typer.Option(help="Why; shown with the lane and kept in the journal.")],
    lane: OptionalLane = None,
    prefix: Prefix = "",
    show: Show = LaneShow.ALL,
    everything: All = False,
    by: By = None,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Hold a lane, or all lanes with jobs that match: no further job starts until it is released.

    Running jobs continue, and new jobs are accepted.
    """
    from interlock.arguments import checked_key
    from interlock.explanation import command
    from interlock.ports.journal import Action
    from interlock.ports.store import Capability

    by = named("A hold", reason, by)
    if lane is None or prefix or show or everything:
        wanted = _chosen(lane, prefix, show, everything)
        bulk = Bulk(Action.LANE_HOLD, wanted, "A hold", "lanes", "Hold them?", "Held")
        apply_to_store(store_url, Capability.JOBS, bulk, by=by, reason=reason, yes=yes, json=json)
        return

    def at_work() -> str | None:
        page = look_at(store_url, lane)
        return None if page.lane is None else f"{page.explanation.lines[0]}."

    if not yes:
        confirm("A hold", "Hold it?", at_work)
    key = checked_key(lane)
    operate(store_url, Capability.JOBS, lambda operations: operations.hold(key, by=by, reason=reason))
    if json:
        print_json({"lane": lane, "by": by, "reason": reason, "held": True})
    else:
        typer.echo(shown(f"Held {lane!r}. To release it: {command('lanes', 'release', lane)}"))


@app.command()
@with_store
def release(
    store_url: StoreUrl,
    lane: OptionalLane = None,
    prefix: Prefix = "",
    show: Show = LaneShow.ALL,
    everything: All = False,
    reason: OptionalReason = "",
    by: By = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="With a filter: do not ask for confirmation.")] = False,
    json: Json = False,
) -> None:
    """Release a lane that is held, or that was parked after a failure, or all such lanes that match."""
    from interlock.arguments import checked_key
    from interlock.errors import NotFoundError
    from interlock.ports.journal import Action
    from interlock.ports.store import Capability

    by = named("A release", reason or None, by)
    if lane is None or prefix or show or everything:
        wanted = _chosen(lane, prefix, show, everything)
        bulk = Bulk(Action.LANE_RELEASE, wanted, "A release", "lanes", "Release them?", "Released")
        apply_to_store(store_url, Capability.JOBS, bulk, by=by, reason=reason, yes=yes, json=json)
        return
    key = checked_key(lane)
    if not operate(store_url, Capability.JOBS, lambda operations: operations.release(key, by=by, reason=reason)):
        raise NotFoundError(
            f"The lane {lane!r} is neither held nor parked.", remedy="List lanes with: interlock lanes list."
        )
    if json:
        print_json({"lane": lane, "by": by, "reason": reason, "released": True})
    else:
        typer.echo(shown(f"Released {lane!r}."))


def _chosen(lane: str | None, prefix: str, show: LaneShow, everything: bool) -> LaneFilter:
    """The filter that was given instead of a lane."""
    from interlock.selections import LaneFilter

    check_choice("a lane", lane, {"prefix": prefix, "show": show}, everything=everything)
    return LaneFilter(prefix, show)


def look_at(store_url: StoreUrl, lane: str) -> LanePage:
    """Return one lane, also if it is not in use."""
    from interlock.ports.store import Capability

    return ask(store_url, Capability.JOBS, lambda insight: insight.lane(lane, limit=1))


def _list(store_url: StoreUrl, limit: int, json: bool) -> None:
    from interlock.cli.job_cells import lane_data
    from interlock.ports.store import Capability

    async def look(insight: Insight) -> list[LaneRow]:
        return await whole_list(limit, lambda limit, after: insight.lanes(limit=limit, after=after))

    rows = ask(store_url, Capability.JOBS, look)
    if json:
        print_json([{**lane_data(row.lane), "reason": row.reason, "why": row.why} for row in rows])
    elif rows:
        _TABLE.print(rows)
    else:
        say("No lane has jobs or is held or parked.")
    say_if_cut(len(rows), limit)
