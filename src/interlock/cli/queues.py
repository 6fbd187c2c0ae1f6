"""``interlock queues``: the jobs and workers of each queue, and pausing them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from interlock.cli.confirmation import By, named
from interlock.cli.explanations import explain_subject
from interlock.cli.insight_reader import ask
from interlock.cli.operations import OptionalReason, operate
from interlock.cli.output import Json, print_json, say, shown
from interlock.cli.store_url import StoreUrl, with_store
from interlock.cli.tables import Column, Table, moment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.insight import QueueRow

__all__ = ["Queue", "app"]

app = typer.Typer(help="List, explain, pause and resume queues.", no_args_is_help=True)
Queue = Annotated[str, typer.Argument(metavar="QUEUE", help="The queue's name.")]
_COUNTS = (
    "ready",
    "fetched",
    "running",
    "behind",
    "scheduled",
    "waiting",
    "blocked",
    "held",
    "parked",
    "workers",
    "runners",
)


def _count(name: str) -> Column[QueueRow]:
    return Column(name, lambda row: _counted(getattr(row.queue, name)), number=True)


def _counted(count: int) -> str:
    from interlock.insight import MAX_COUNTED

    return f"{count:,}{'+' if count >= MAX_COUNTED else ''}"


_TABLE: Table[QueueRow] = Table(
    Column("queue", lambda row: row.queue.queue),
    *map(_count, _COUNTS),
    Column("ready since (UTC)", lambda row: moment(row.queue.oldest_ready_at), fixed=True),
    Column("paused by", lambda row: row.queue.paused_by),
)


@app.command("list")
@with_store
def list_queues(store_url: StoreUrl, json: Json = False) -> None:
    """List all queues: their jobs by state, counted up to 10,000, and their workers, from one snapshot."""
    rows = _rows(store_url)
    _print(rows, json)
    if not rows and not json:
        say("There are no queues: no jobs are waiting, and no workers are running.")


@app.command()
@with_store
def show(store_url: StoreUrl, queue: Queue, json: Json = False) -> None:
    """Show one queue."""
    from interlock.errors import NotFoundError

    rows = [row for row in _rows(store_url) if row.queue.queue == queue]
    if not rows:
        raise NotFoundError(
            f"The queue {queue!r} has no jobs and no workers, and is not paused.",
            remedy="List queues with: interlock queues list.",
        )
    _print(rows, json)


@app.command()
@with_store
def explain(store_url: StoreUrl, queue: Queue, json: Json = False) -> None:
    """Explain a queue: its jobs, its workers, and what to do."""
    from interlock.insight import Kind

    explain_subject(store_url, Kind.QUEUE, queue, json)


@app.command()
@with_store
def pause(
    store_url: StoreUrl,
    queue: Queue,
    reason: Annotated[str, typer.Option(help="Why; shown with the queue and its jobs, and kept in the journal.")],
    by: By = None,
    json: Json = False,
) -> None:
    """Pause a queue: no job of it starts until it is resumed.

    Running jobs continue, and new jobs are accepted. Workers return the jobs that they have fetched and not started.
    """
    from interlock.explanation import command
    from interlock.jobs.options import checked_name
    from interlock.ports.store import Capability

    by, name = named("A pause", reason, by), checked_name("queue", queue)
    operate(store_url, Capability.JOBS, lambda operations: operations.pause(name, by=by, reason=reason))
    if json:
        print_json({"queue": queue, "by": by, "reason": reason, "paused": True})
    else:
        typer.echo(shown(f"Paused {queue!r}. To resume it: {command('queues', 'resume', queue)}"))


@app.command()
@with_store
def resume(store_url: StoreUrl, queue: Queue, reason: OptionalReason = "", by: By = None, json: Json = False) -> None:
    """Resume a paused queue: workers fetch its jobs again."""
    from interlock.errors import NotFoundError
    from interlock.jobs.options import checked_name
    from interlock.ports.store import Capability

    by, name = named("A resumption", reason or None, by), checked_name("queue", queue)
    if not operate(store_url, Capability.JOBS, lambda operations: operations.resume(name, by=by, reason=reason)):
        raise NotFoundError(f"The queue {queue!r} is not paused.", remedy="List queues with: interlock queues list.")
    if json:
        print_json({"queue": queue, "by": by, "reason": reason, "resumed": True})
    else:
        typer.echo(shown(f"Resumed {queue!r}."))


def _rows(store_url: StoreUrl) -> Sequence[QueueRow]:
    from interlock.ports.store import Capability

    return ask(store_url, Capability.JOBS, lambda insight: insight.queues())


def _print(rows: Sequence[QueueRow], json: bool) -> None:
    from interlock.cli.job_cells import queue_data

    if json:
        print_json([queue_data(row.queue) for row in rows])
        return
    if rows:
        _TABLE.print(rows)
    for row in rows:
        queue = row.queue
        if queue.paused_since is not None:
            since = moment(queue.paused_since)
            say(f"Queue {queue.queue!r} has been paused since {since} by {queue.paused_by}: {queue.paused_reason}")
        elif row.why and not queue.workers:
            name = row.queue.queue
            say(f"No worker serves queue {name!r}. Start one: interlock run MODULE:APP --queues {name}")
