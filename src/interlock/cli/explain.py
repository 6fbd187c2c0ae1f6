"""``interlock explain``: why something waits, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from interlock.cli import events, jobs, lanes
from interlock.cli.insight_reader import ask
from interlock.cli.output import Json, print_json, shown
from interlock.cli.store_url import Namespace, Url, chosen_store

if TYPE_CHECKING:
    from collections.abc import Mapping

    from interlock.insight import Kind
    from interlock.ports.store import Capability

__all__ = ["app"]

app = typer.Typer(help="Why something waits, and what to do about it.", no_args_is_help=True)


@app.command()
def lock(
    context: typer.Context,
    key: Annotated[str, typer.Argument(help="The lock's key.")],
    json: Json = False,
    url: Url = None,
    namespace: Namespace = None,
) -> None:
    """Say who holds a key, since when, who waits for it and for how long yet."""
    from interlock.insight import Kind
    from interlock.ports.store import Capability

    _explain(context, Capability.LOCKS, Kind.LOCK, key, json, url, namespace)


@app.command()
def claim(
    context: typer.Context,
    key: Annotated[str, typer.Argument(help="The claim's key.")],
    json: Json = False,
    url: Url = None,
    namespace: Namespace = None,
) -> None:
    """Say how a claim stands, who has or had it, and what happens next."""
    from interlock.insight import Kind
    from interlock.ports.store import Capability

    _explain(context, Capability.CLAIMS, Kind.CLAIM, key, json, url, namespace)


@app.command()
def limit(
    context: typer.Context,
    key: Annotated[str, typer.Argument(help="The limit's full key, such as slots:containers.")],
    json: Json = False,
    url: Url = None,
    namespace: Namespace = None,
) -> None:
    """Say what a limit allows, who is at work under it, jobs too, and who waits, for what and until when."""
    from interlock.insight import Kind
    from interlock.ports.store import Capability

    _explain(context, Capability.LIMITS, Kind.LIMIT, key, json, url, namespace)


@app.command()
def job(
    context: typer.Context, job_id: jobs.Id, json: Json = False, url: Url = None, namespace: Namespace = None
) -> None:
    """Say how a job stands, what it waits for, who is before it, and what to do."""
    from interlock.errors import NotFoundError
    from interlock.insight import Kind
    from interlock.ports.store import Capability

    try:
        _explain(context, Capability.JOBS, Kind.JOB, job_id, json, url, namespace)
    except NotFoundError:
        _tell(jobs.nothing(job_id), json)


@app.command()
def lane(
    context: typer.Context, lane: lanes.Lane, json: Json = False, url: Url = None, namespace: Namespace = None
) -> None:
    """Say what a lane is at, why it does not go on, and what to do."""
    from interlock.insight import Kind
    from interlock.ports.store import Capability

    _explain(context, Capability.JOBS, Kind.LANE, lane, json, url, namespace)


@app.command()
def event(
    context: typer.Context, event_id: events.Id, json: Json = False, url: Url = None, namespace: Namespace = None
) -> None:
    """Say what an event was, and what became of the jobs that it caused."""
    from interlock.errors import NotFoundError
    from interlock.insight import Kind
    from interlock.ports.store import Capability

    try:
        _explain(context, Capability.EVENTS, Kind.EVENT, event_id, json, url, namespace)
    except NotFoundError:
        _tell(events.nothing(event_id), json)


def _explain(
    context: typer.Context,
    need: Capability,
    kind: Kind,
    ref: str | int,
    json: bool,
    url: str | None,
    namespace: str | None,
) -> None:
    from interlock.arguments import checked_key

    store_url = chosen_store(context, url, namespace)
    if isinstance(ref, str):
        checked_key(ref)  # before anything is opened
    _tell(ask(store_url, need, lambda insight: insight.explain(kind, ref)).data, json)


def _tell(data: Mapping[str, Any], json: bool) -> None:
    if json:
        print_json(data)
        return
    for line in data["explain"]:
        typer.echo(shown(line))
