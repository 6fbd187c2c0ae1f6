"""``interlock explain``: why something waits, and what to do about it."""

from __future__ import annotations

from typing import Annotated

import typer

from interlock.cli import events, jobs, lanes, queues
from interlock.cli.explanations import explain_subject
from interlock.cli.output import Json  # noqa: TC001 - typer reads annotations
from interlock.cli.store_url import Namespace, Url  # noqa: TC001

__all__ = ["app"]

app = typer.Typer(help="Explain why something waits, and what to do about it.", no_args_is_help=True)


@app.command()
def lock(
    context: typer.Context,
    key: Annotated[str, typer.Argument(help="The lock's key.")],
    json: Json = False,
    url: Url = None,
    namespace: Namespace = None,
) -> None:
    """Explain a lock: its holder, since when, and its waiters."""
    from interlock.insight import Kind

    explain_subject(context, Kind.LOCK, key, json, url, namespace)


@app.command()
def claim(
    context: typer.Context,
    key: Annotated[str, typer.Argument(help="The claim's key.")],
    json: Json = False,
    url: Url = None,
    namespace: Namespace = None,
) -> None:
    """Explain a claim: its state, its holder, and what happens next."""
    from interlock.insight import Kind

    explain_subject(context, Kind.CLAIM, key, json, url, namespace)


@app.command()
def limit(
    context: typer.Context,
    key: Annotated[str, typer.Argument(help="The limit's full key, such as slots:containers.")],
    json: Json = False,
    url: Url = None,
    namespace: Namespace = None,
) -> None:
    """Explain a limit: what it allows, its holders, jobs included, and its waiters."""
    from interlock.insight import Kind

    explain_subject(context, Kind.LIMIT, key, json, url, namespace)


@app.command()
def job(
    context: typer.Context, job_id: jobs.Id, json: Json = False, url: Url = None, namespace: Namespace = None
) -> None:
    """Explain a job: its state, what it waits for, what is ahead of it, and what to do."""
    from interlock.insight import Kind

    explain_subject(context, Kind.JOB, job_id, json, url, namespace, missing=lambda: jobs.nothing(job_id))


@app.command()
def lane(
    context: typer.Context, lane: lanes.Lane, json: Json = False, url: Url = None, namespace: Namespace = None
) -> None:
    """Explain a lane: the job at its head, why it waits, and what to do."""
    from interlock.insight import Kind

    explain_subject(context, Kind.LANE, lane, json, url, namespace)


@app.command()
def queue(
    context: typer.Context, queue: queues.Queue, json: Json = False, url: Url = None, namespace: Namespace = None
) -> None:
    """Explain a queue: its jobs, its workers, and what to do."""
    from interlock.insight import Kind

    explain_subject(context, Kind.QUEUE, queue, json, url, namespace)


@app.command()
def event(
    context: typer.Context, event_id: events.Id, json: Json = False, url: Url = None, namespace: Namespace = None
) -> None:
    """Explain an event: what it was, and the state of the jobs that it caused."""
    from interlock.insight import Kind

    explain_subject(context, Kind.EVENT, event_id, json, url, namespace, missing=lambda: events.nothing(event_id))
