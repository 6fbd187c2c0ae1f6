"""``interlock explain``: why something waits, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from interlock.cli import claims, jobs, lanes, limits, locks
from interlock.cli.output import Json, print_json, shown
from interlock.cli.place import Namespace, Url, named_place

if TYPE_CHECKING:
    from collections.abc import Mapping

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
    from interlock.locks.explain import as_data

    view = locks.look_at(named_place(context, url, namespace), key)
    _tell(locks.nobody(key) if view is None else as_data(view), json)


@app.command()
def claim(
    context: typer.Context,
    key: Annotated[str, typer.Argument(help="The claim's key.")],
    json: Json = False,
    url: Url = None,
    namespace: Namespace = None,
) -> None:
    """Say how a claim stands, who has or had it, and what happens next."""
    from interlock.claims.explain import as_data

    view = claims.look_at(named_place(context, url, namespace), key)
    _tell(claims.unknown(key) if view is None else as_data(view), json)


@app.command()
def limit(
    context: typer.Context,
    key: Annotated[str, typer.Argument(help="The limit's full key, such as slots:containers.")],
    json: Json = False,
    url: Url = None,
    namespace: Namespace = None,
) -> None:
    """Say what a limit allows, who is at work under it, and who waits, for what and until when."""
    from interlock.limits.explain import as_data

    view = limits.look_at(named_place(context, url, namespace), key)
    _tell(limits.unused(key) if view is None else as_data(view), json)


@app.command()
def job(
    context: typer.Context, job_id: jobs.Id, json: Json = False, url: Url = None, namespace: Namespace = None
) -> None:
    """Say how a job stands, what it waits for, who is before it, and what to do."""
    from interlock.jobs.explain import explain_job

    found = jobs.look_at(named_place(context, url, namespace), job_id)
    _tell(jobs.nothing(job_id) if found is None else explain_job(*found).data, json)


@app.command()
def lane(
    context: typer.Context, lane: lanes.Lane, json: Json = False, url: Url = None, namespace: Namespace = None
) -> None:
    """Say what a lane is at, why it does not go on, and what to do."""
    from interlock.jobs.explain import explain_lane

    view, head = lanes.look_at(named_place(context, url, namespace), lane)
    _tell(explain_lane(lane, view, head).data, json)


def _tell(data: Mapping[str, Any], json: bool) -> None:
    if json:
        print_json(data)
        return
    for line in data["explain"]:
        typer.echo(shown(line))
