"""``interlock journal``: who changed what, when and why, and whether someone changed that."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from interlock.cli.explanations import explain_subject
from interlock.cli.insight_reader import ask, whole_list
from interlock.cli.output import Json, Limit, print_json, say, say_if_cut, shown
from interlock.cli.store_url import StoreUrl, opened, with_store
from interlock.cli.tables import Column, Table, moment, tail

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from interlock.insight import Insight
    from interlock.journal import VerificationReport
    from interlock.ports.journal import JournalEntry, JournalFilter, JournalStore
    from interlock.ports.store import Store

__all__ = ["app", "follow"]

T = TypeVar("T")

app = typer.Typer(help="Show who changed what, when and why.", no_args_is_help=True)
_POLL = 1.0
_LATE = 120.0
_MAX_SEEN = 10_000
_MAX_DIGITS = 6
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


def _time(text: str) -> float:
    """Parse a time: a span before now such as 90s, 15m, 2h or 7d, or a date with or without a time (UTC by default)."""
    number, unit = text[:-1], text[-1:]
    if unit in _UNITS and number.isascii() and number.isdecimal() and len(number) <= _MAX_DIGITS:
        return datetime.now(UTC).timestamp() - int(number) * _UNITS[unit]
    try:
        at = datetime.fromisoformat(text)
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise typer.BadParameter(
            f"Invalid time {text[:40]!r}: use a span such as 2h, or a time such as 2026-01-31T12:00."
        ) from None


_Kind = Annotated[
    str, typer.Option(help="Only entries about this kind of subject: job, lane, lock, claim, cursor, event, ….")
]
_Key = Annotated[str, typer.Option(help="Only entries about this subject, such as a job ID; needs --kind.")]
_Actor = Annotated[str, typer.Option(help="Only entries of this actor.")]
_Action = Annotated[str, typer.Option(help="Only entries with this action, such as job.retry.")]
_Since = Annotated[
    float | None,
    typer.Option(metavar="TIME", parser=_time, help="Only entries from this time on: 90s, 15m, 2h, 7d or a date."),
]
_Until = Annotated[float | None, typer.Option(metavar="TIME", parser=_time, help="Only entries before this time.")]
_Job = Annotated[int | None, typer.Option(min=1, max=2**63 - 1, help="Only entries of operations by this job.")]
_Event = Annotated[
    int | None, typer.Option(min=1, max=2**63 - 1, help="Only entries of operations by jobs of this event.")
]


_TABLE: Table[JournalEntry] = Table(
    Column("id", lambda entry: str(entry.id), number=True),
    Column("when (UTC)", lambda entry: moment(entry.at), fixed=True),
    Column("actor", lambda entry: entry.actor),
    Column("action", lambda entry: entry.action, fixed=True),
    Column("subject", lambda entry: f"{entry.subject_kind} {entry.subject_key}"),
    Column("reason", lambda entry: tail(entry.reason), min_width=20),
)


@app.command("list")
@with_store
def list_entries(
    store_url: StoreUrl,
    kind: _Kind = "",
    key: _Key = "",
    actor: _Actor = "",
    action: _Action = "",
    since: _Since = None,
    until: _Until = None,
    job: _Job = None,
    event: _Event = None,
    limit: Limit = 100,
    json: Json = False,
) -> None:
    """List journal entries, newest first."""
    from interlock.insight import data
    from interlock.ports.journal import JournalFilter
    from interlock.ports.store import Capability

    wanted = JournalFilter(kind, key, actor, action, since, until, job, event)

    async def look(insight: Insight) -> list[JournalEntry]:
        return await whole_list(limit, lambda limit, before: insight.journal(wanted, limit=limit, before=before))

    entries = ask(store_url, Capability.JOURNAL, look)
    if json:
        print_json([data(entry) for entry in entries])
    elif entries:
        _TABLE.print(entries)
    else:
        say("The journal is empty." if wanted == JournalFilter() else "The journal has no such entry.")
    say_if_cut(len(entries), limit)


@app.command()
@with_store
def show(
    store_url: StoreUrl,
    entry_id: Annotated[int, typer.Argument(min=1, max=2**63 - 1, metavar="ID", help="The ID of the entry.")],
    json: Json = False,
) -> None:
    """Show one entry in full, with the subject before and after the change."""
    from interlock.cli.output import print_formatted
    from interlock.insight import data
    from interlock.operations import unknown_entry
    from interlock.ports.store import Capability

    async def look(insight: Insight) -> JournalEntry | None:
        return await insight.journal_entry(entry_id)

    entry = ask(store_url, Capability.JOURNAL, look)
    if entry is None:
        raise unknown_entry(entry_id)
    if json:
        print_json(data(entry))
        return
    _TABLE.print([entry])
    shown = data(entry)
    about = {name: shown[name] for name in ("before", "after", "cause_event", "cause_job", "cause_fence", "batch")}
    print_formatted(about, f"interlock journal show {entry_id} --json")


@app.command()
@with_store
def explain(store_url: StoreUrl, json: Json = False) -> None:
    """Explain the journal: how many entries are not sealed, the last seal, and what the last verification found."""
    from interlock.insight import Kind

    explain_subject(store_url, Kind.JOURNAL, "", json)


@app.command("tail")
@with_store
def show_newest(
    store_url: StoreUrl,
    kind: _Kind = "",
    key: _Key = "",
    actor: _Actor = "",
    action: _Action = "",
    since: _Since = None,
    job: _Job = None,
    event: _Event = None,
    lines: Annotated[
        int, typer.Option("--lines", "-n", min=0, max=10_000, help="How many entries to start with.")
    ] = 10,
    keep_on: Annotated[bool, typer.Option("--follow", "-f", help="Print new entries until interrupted.")] = False,
    json: Json = False,
) -> None:
    """Print the newest entries, the newest last. With --json each entry is a line."""
    import json as encoder

    from interlock.insight import data
    from interlock.ports.journal import JournalFilter

    wanted = JournalFilter(kind, key, actor, action, since, None, job, event)

    async def show(store: Store) -> None:
        async for entry in follow(store.journal, wanted, lines, once=not keep_on):
            typer.echo(encoder.dumps(data(entry)) if json else _line(entry))

    _run(store_url, show)


@app.command()
@with_store
def verify(
    store_url: StoreUrl,
    head: Annotated[
        str, typer.Option(metavar="HASH", help="The journal must contain the seal with this hash, kept elsewhere.")
    ] = "",
    file: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="Verify this export instead of the store.")
    ] = None,
    json: Json = False,
) -> None:
    """Recompute every hash, and name each entry or seal that was changed, removed or added. Exit code 1 if any was.

    The result is kept in the store, for the dashboard and the metrics.
    """
    from interlock.errors import StoreError, StoreUnavailableError
    from interlock.insight import data
    from interlock.journal.export import verify_lines
    from interlock.journal.journal import checked_head, record
    from interlock.journal.verifier import verify as verify_journal

    wanted = checked_head(head)

    async def check(store: Store) -> VerificationReport:
        report = await verify_journal(store.journal, head=wanted)
        try:
            await record(store.journal, report)
        except StoreUnavailableError:
            raise
        except StoreError as error:  # a role that may only read
            say(f"The result was not kept in the store: {error}")
        return report

    if file is not None:
        with file.open(encoding="utf-8", errors="surrogateescape") as lines:
            report = verify_lines(lines, head=wanted)
    else:
        report = _run(store_url, check)
    if json:
        print_json(data(report) | {"ok": report.ok})
    else:
        _print_report(report)
    if not report.ok:
        raise typer.Exit(1)


@app.command("seal")
@with_store
def seal_entries(store_url: StoreUrl) -> None:
    """Seal what has been added, without waiting for a worker."""
    from interlock.journal.sealer import seal_all
    from interlock.settings import Settings

    async def seal(store: Store) -> int:
        return await seal_all(store.journal, Settings().seal_limit)

    count = _run(store_url, seal)
    say(f"Sealed {count} {'entry' if count == 1 else 'entries'}.")


@app.command("export")
@with_store
def export_entries(
    store_url: StoreUrl,
    kind: _Kind = "",
    key: _Key = "",
    actor: _Actor = "",
    action: _Action = "",
    since: _Since = None,
    until: _Until = None,
    job: _Job = None,
    event: _Event = None,
) -> None:
    """Print the journal with its seals as lines of JSON, the oldest batch first. The last line has the head.

    `interlock journal verify --file` verifies an export without filters.
    """
    from interlock.journal.export import export_lines
    from interlock.ports.journal import JournalFilter

    wanted = JournalFilter(kind, key, actor, action, since, until, job, event)

    async def export(store: Store) -> None:
        async for line in export_lines(store.journal, wanted):
            typer.echo(line)

    _run(store_url, export)


async def follow(
    store: JournalStore, wanted: JournalFilter, lines: int, *, once: bool = False, poll: float = _POLL
) -> AsyncIterator[JournalEntry]:
    """Yield the newest entries, oldest first, then new ones as they appear.

    An entry may become visible up to two minutes after younger ones, when its transaction commits.
    """
    found = list(await store.list(wanted, limit=max(lines, 1)))[::-1]
    newest = found[-1].at if found else None

    async def recent() -> list[JournalEntry]:
        since = wanted.since if newest is None else max(newest - _LATE, wanted.since or 0.0)
        return list(await store.list(wanted._replace(since=since), limit=_MAX_SEEN // 2))[::-1]

    known = found if newest is None or once else [*found, *await recent()]
    seen = dict.fromkeys(entry.id for entry in known)
    for entry in found[-lines:] if lines else ():
        yield entry
    while not once:
        await asyncio.sleep(poll)
        for entry in await recent():
            if entry.id not in seen:
                seen[entry.id] = None
                newest = entry.at if newest is None else max(newest, entry.at)
                yield entry
        while len(seen) > _MAX_SEEN:
            del seen[next(iter(seen))]


def _run(store_url: StoreUrl, work: Callable[[Store], Awaitable[T]]) -> T:
    from interlock.ports.store import Capability

    async def run() -> T:
        async with opened(store_url, Capability.JOURNAL) as store:
            return await work(store)

    return asyncio.run(run())


def _line(entry: JournalEntry) -> str:
    reason = f": {entry.reason}" if entry.reason else ""
    text = f"{entry.id} {moment(entry.at)} {entry.actor} {entry.action} {entry.subject_key}{reason}"
    return shown(text)


def _print_report(report: VerificationReport) -> None:
    typer.echo(
        f"{report.batches} batches with {report.entries} entries verified, {report.unsealed} entries not sealed."
    )
    if report.pruned_until is not None:
        until = moment(report.pruned_until)
        typer.echo(
            f"Retention has removed {report.pruned_batches} batches with {report.pruned_entries} entries until {until}."
        )
    if report.head:
        typer.echo(f"Head: {report.head} (batch {report.head_batch})")
    for problem in report.problems:
        typer.echo(shown(problem.message))
    more = report.problem_count - len(report.problems)
    if more:
        typer.echo(f"… and {more} more.")
    say("The journal is intact." if report.ok else f"The journal has {report.problem_count} problems.")
