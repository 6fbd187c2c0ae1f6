"""``interlock schedules``: list, show, save, pause, resume, delete, trigger, preview and backfill schedules."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from interlock.cli.confirmation import By, Yes, confirm, named
from interlock.cli.explanations import explain_subject
from interlock.cli.insight_reader import ask, whole_list
from interlock.cli.operations import OptionalReason  # noqa: TC001 - typer reads the annotations
from interlock.cli.output import Json, Limit, console, print_json, say, say_if_cut, shown
from interlock.cli.store_url import StoreUrl, opened, with_store
from interlock.cli.tables import Column, Table, moment, state_cell, tail

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from interlock.app import App
    from interlock.insight import FiringRow, Insight, ScheduleRow
    from interlock.schedules.control import ScheduleControl

__all__ = ["app"]

T = TypeVar("T")
app = typer.Typer(help="List, show and edit schedules.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(metavar="NAME", help="The schedule's name.")]
Reason = Annotated[str, typer.Option(help="Why; shown with the schedule and kept in the journal.")]
Version = Annotated[int | None, typer.Option(help="Only if the schedule has this version.")]
Moment = Annotated[
    datetime,
    typer.Option(formats=["%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%dT%H:%M%z"], help="A time with its offset, included."),
]
_SCHEDULES: Table[ScheduleRow] = Table(
    Column("schedule", lambda row: row.name),
    Column("job", lambda row: row.job),
    Column("timing", lambda row: row.words or row.cron, min_width=16),
    Column("state", lambda row: state_cell(row.state), fixed=True),
    Column("next (UTC)", lambda row: "" if row.next_at is None else moment(row.next_at), fixed=True),
    Column("fired", lambda row: row.fired, number=True),
    Column("skipped", lambda row: row.skipped, number=True),
    Column("missed", lambda row: row.missed, number=True),
    Column("why", lambda row: tail(row.why), min_width=20),
)
_FIRINGS: Table[FiringRow] = Table(
    Column("for (UTC)", lambda row: moment(row.at), fixed=True),
    Column("fired (UTC)", lambda row: moment(row.fired_at), fixed=True),
    Column("kind", lambda row: row.kind),
    Column("outcome", lambda row: row.outcome if row.times == 1 else f"{row.outcome} ({row.times:,})"),
    Column("job", lambda row: "" if row.job is None else str(row.job), number=True),
    Column("state", lambda row: state_cell(row.state) if row.state else "", fixed=True),
)


@app.command("list")
@with_store
def list_schedules(store_url: StoreUrl, limit: Limit = 100, json: Json = False) -> None:
    """List schedules by name: their timing, their next time, and why they fire or do not."""
    from interlock.insight import data
    from interlock.ports.store import Capability

    async def look(insight: Insight) -> list[ScheduleRow]:
        return await whole_list(limit, lambda limit, after: insight.schedules(limit=limit, after=after))

    rows = ask(store_url, Capability.JOBS, look)
    if json:
        print_json([data(row) for row in rows])
    elif rows:
        _SCHEDULES.print(rows)
    else:
        say("There are no schedules.")
    say_if_cut(len(rows), limit)


@app.command()
@with_store
def show(store_url: StoreUrl, name: Name, json: Json = False) -> None:
    """Show one schedule: its next five times in plain words, and its last firings with their jobs."""
    from interlock.insight import data
    from interlock.ports.store import Capability

    page = ask(store_url, Capability.JOBS, lambda insight: insight.schedule(name))
    if json:
        print_json(data(page))
        return
    if page.firings:
        _FIRINGS.print(page.firings)
    out = console()
    row = page.schedule
    facts = f"Version {row.version}, from {row.origin}; misfire {page.misfire}, grace {page.grace:g} s, overlap "
    out.print(shown(f"{facts}{page.overlap}, jitter {page.jitter:g} s; arguments {page.arguments}"), soft_wrap=True)
    for line in page.explanation.lines:
        out.print(shown(line), soft_wrap=True)


@app.command()
@with_store
def explain(store_url: StoreUrl, name: Name, json: Json = False) -> None:
    """Explain a schedule: why it fires or does not, and what to do."""
    from interlock.insight import Kind

    explain_subject(store_url, Kind.SCHEDULE, name, json)


@app.command()
def save(
    name: Name,
    target: Annotated[str, typer.Option("--app", metavar="MODULE:APP", help="The app that defines the job.")],
    job: Annotated[str | None, typer.Option(help="The job's name; needed for a new schedule.")] = None,
    cron: Annotated[str | None, typer.Option(help="Five fields, such as '*/5 * * * *'.")] = None,
    every: Annotated[float | None, typer.Option(help="Seconds between two firings.")] = None,
    timezone: Annotated[str | None, typer.Option(help="Of the cron expression, such as Europe/Berlin.")] = None,
    arguments: Annotated[str | None, typer.Option(help="The job's arguments, as a JSON object.")] = None,
    misfire: Annotated[str | None, typer.Option(help="skip, once or catch_up.")] = None,
    grace: Annotated[float | None, typer.Option(help="How many seconds late is still on time.")] = None,
    overlap: Annotated[str | None, typer.Option(help="skip or queue.")] = None,
    jitter: Annotated[float | None, typer.Option(help="A random delay in seconds, at most.")] = None,
    version: Annotated[
        int | None, typer.Option(help="The version to replace; needed for a schedule that exists.")
    ] = None,
    reason: OptionalReason = "",
    by: By = None,
    json: Json = False,
) -> None:
    """Create a schedule, or replace a version of one; options that are not given stay as they are.

    The app validates the job and its arguments, and names the store.
    """
    from interlock.cli.run import load

    by = named("Saving a schedule", reason or None, by)
    given: dict[str, Any] = {
        "job": job,
        "timezone": timezone,
        "misfire": misfire,
        "grace": grace,
        "overlap": overlap,
        "jitter": jitter,
    }
    given |= {"cron": cron, "every": every, "arguments": _object(arguments)}
    found = load(target)
    saved = asyncio.run(
        _save(found, name, {key: one for key, one in given.items() if one is not None}, version, by, reason)
    )
    if json:
        print_json(saved)
    else:
        typer.echo(shown(f"Saved {name!r} as version {saved['version']}: {saved['preview']}"))


@app.command()
@with_store
def pause(
    store_url: StoreUrl, name: Name, reason: Reason, version: Version = None, by: By = None, json: Json = False
) -> None:
    """Pause a schedule, also one in code: it does not fire until it is resumed."""
    by = named("Pausing a schedule", reason, by)
    schedule = _control(store_url, lambda control: control.pause(name, by=by, reason=reason, version=version))
    _report(schedule, json, f"Paused {name!r}. To resume it: interlock schedules resume {name}")


@app.command()
@with_store
def resume(
    store_url: StoreUrl,
    name: Name,
    reason: OptionalReason = "",
    version: Version = None,
    by: By = None,
    json: Json = False,
) -> None:
    """Resume a schedule, from its next time on."""
    by = named("Resuming a schedule", reason or None, by)
    schedule = _control(store_url, lambda control: control.resume(name, by=by, reason=reason, version=version))
    _report(schedule, json, f"Resumed {name!r}.")


@app.command()
@with_store
def delete(
    store_url: StoreUrl,
    name: Name,
    reason: Reason,
    version: Version = None,
    by: By = None,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Delete a schedule and the list of its firings. Its jobs stay."""
    by = named("Deleting a schedule", reason, by)
    if not yes:
        confirm("Deleting a schedule", "Delete it?", lambda: str(_control(store_url, lambda one: one.preview(name))))
    schedule = _control(store_url, lambda control: control.delete(name, by=by, reason=reason, version=version))
    _report(schedule, json, f"Deleted {name!r}.")


@app.command()
@with_store
def trigger(store_url: StoreUrl, name: Name, reason: OptionalReason = "", by: By = None, json: Json = False) -> None:
    """Enqueue the job of a schedule now. Its next times stay as they are."""
    by = named("Triggering a schedule", reason or None, by)
    job = _control(store_url, lambda control: control.trigger(name, by=by, reason=reason))
    if json:
        print_json({"schedule": name, "job": job, "by": by, "reason": reason})
    else:
        typer.echo(shown(f"Triggered {name!r}: job {job}."))


@app.command()
@with_store
def preview(
    store_url: StoreUrl,
    name: Name,
    count: Annotated[int, typer.Option(help="How many times.")] = 5,
    json: Json = False,
) -> None:
    """Show the next times of a schedule in plain words."""
    found = _control(store_url, lambda control: control.preview(name, count))
    if json:
        times = [{"at": one.at.isoformat(), "words": one.words} for one in found.times]
        print_json({"schedule": name, "words": found.words, "next": times})
        return
    typer.echo(shown(found.words))
    for one in found.times:
        typer.echo(shown(one.words))


@app.command()
@with_store
def backfill(
    store_url: StoreUrl,
    name: Name,
    start: Moment,
    end: Annotated[
        datetime,
        typer.Option(formats=["%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%dT%H:%M%z"], help="A time with its offset, not included."),
    ],
    reason: Reason,
    by: By = None,
    json: Json = False,
) -> None:
    """Enqueue a job for each time of a schedule in a range, at most 1,000, all or none."""
    by = named("Backfilling a schedule", reason, by)
    jobs = _control(store_url, lambda control: control.backfill(name, start, end, by=by, reason=reason))
    if json:
        print_json({"schedule": name, "jobs": jobs, "by": by, "reason": reason})
    else:
        typer.echo(shown(f"Enqueued {len(jobs):,} jobs of {name!r}."))


def _control(store_url: StoreUrl, do: Callable[[ScheduleControl], Awaitable[T]]) -> T:
    """Do something with the schedules of a store, without an app."""

    async def run() -> T:
        from interlock.ports.store import Capability
        from interlock.schedules.control import ScheduleControl

        async with opened(store_url, Capability.JOBS) as store:
            return await do(ScheduleControl(store.schedules, store.jobs.ids, _once))

    return asyncio.run(run())


async def _once(operation: Callable[[], Awaitable[T]]) -> T:
    return await operation()


async def _save(
    found: App, name: str, given: dict[str, Any], version: int | None, by: str, reason: str
) -> dict[str, Any]:
    from interlock.errors import InvalidArgumentError, NotFoundError

    async with found:
        try:
            given = _merged(await found.schedules.get(name), given)
        except NotFoundError:
            if "job" not in given:
                raise InvalidArgumentError(f"The schedule {name!r} is new.", remedy="Name its job: --job.") from None
        saved = await found.schedules.save(name, **given, version=version, by=by, reason=reason)
        return {"name": name, "version": saved.version, "preview": str(await found.schedules.preview(name))}


def _merged(known: Any, given: dict[str, Any]) -> dict[str, Any]:
    """What was given, and the rest as it is."""
    fields = ("job", "timezone", "arguments", "misfire", "grace", "overlap", "jitter")
    merged = {field: getattr(known, field) for field in fields}
    if "cron" not in given and "every" not in given:
        merged |= {"cron": known.cron, "every": known.every}
    return merged | given


def _object(text: str | None) -> dict[str, Any] | None:
    import json

    if text is None:
        return None
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise typer.BadParameter("is not a JSON object.", param_hint="--arguments")
    return found


def _report(schedule: Any, json: bool, text: str) -> None:
    if json:
        print_json({"name": schedule.name, "version": schedule.version, "state": schedule.state})
    else:
        typer.echo(shown(text))
