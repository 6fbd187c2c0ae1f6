"""``interlock records``: list and show records, and draw their machines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from interlock.cli.explanations import explain_subject
from interlock.cli.insight_reader import ask, whole_list
from interlock.cli.output import Json, Limit, console, print_formatted, print_json, say, say_if_cut, shown
from interlock.cli.store_url import StoreUrl, with_store
from interlock.cli.tables import Column, Table, moment, tail

if TYPE_CHECKING:
    from collections.abc import Iterator

    from interlock.insight import (
        DeclaredKind,
        Insight,
        MachineView,
        RecordKindRow,
        RecordPage,
        RecordRow,
        RecordVersion,
    )

__all__ = ["app"]

app = typer.Typer(help="List and show records, and draw their machines.", no_args_is_help=True)
Ref = Annotated[str, typer.Argument(metavar="KIND/ID", help="The record, such as Intent/42.")]
_MAX_CHANGES = 5

_KINDS: Table[RecordKindRow] = Table(
    Column("kind", lambda row: row.kind),
    Column("model", lambda row: row.model),
    Column("records", lambda row: f"{row.records:,}{'+' if row.more else ''}", number=True),
    Column("by status", lambda row: ", ".join(_counts(row))),
    Column("declared (UTC)", lambda row: moment(row.declared_at), fixed=True),
)
_RECORDS: Table[RecordRow] = Table(
    Column("id", lambda row: row.record.id),
    Column("status", lambda row: row.record.status),
    Column("version", lambda row: row.record.version, number=True),
    Column("updated (UTC)", lambda row: moment(row.record.updated_at), fixed=True),
    Column("why", lambda row: tail(row.why), min_width=20),
)
_VERSIONS: Table[RecordVersion] = Table(
    Column("version", lambda version: _number(version.entry.to_version), number=True),
    Column("when (UTC)", lambda version: moment(version.entry.at), fixed=True),
    Column("action", lambda version: version.entry.action.partition(".")[2], fixed=True),
    Column("actor", lambda version: version.entry.actor),
    Column("reason", lambda version: version.entry.reason),
    Column("changes", lambda version: tail(_changes(version)), min_width=20),
)


@app.command("list")
@with_store
def list_records(
    store_url: StoreUrl,
    kind: Annotated[str | None, typer.Argument(help="The kind; without it, the kinds are listed.")] = None,
    status: Annotated[str, typer.Option(help="Only records with this status.")] = "",
    contains: Annotated[str, typer.Option("--id", metavar="TEXT", help="Only records whose ID contains this.")] = "",
    limit: Limit = 100,
    json: Json = False,
) -> None:
    """List the kinds with their counts by status, or the records of one kind by ID."""
    from interlock.errors import MisuseError
    from interlock.insight import data
    from interlock.ports.store import Capability

    if kind is None:
        if status or contains:
            raise MisuseError("--status and --id need a kind.", remedy="Use: interlock records list KIND --status ….")
        kinds = ask(store_url, Capability.RECORDS, lambda insight: insight.record_kinds())
        if json:
            print_json([data(row) for row in kinds])
        elif kinds:
            _KINDS.print(kinds)
        else:
            say("There are no records, and no program declared a kind.")
        return
    name = kind

    async def look(insight: Insight) -> list[RecordRow]:
        return await whole_list(
            limit,
            lambda limit, after: insight.records(name, status=status, contains=contains, limit=limit, after=after),
        )

    rows = ask(store_url, Capability.RECORDS, look)
    if json:
        print_json([data(row) for row in rows])
    elif rows:
        _RECORDS.print(rows)
    else:
        say("No records match." if status or contains else f"There are no {kind} records.")
    say_if_cut(len(rows), limit)


@app.command()
@with_store
def show(
    store_url: StoreUrl,
    ref: Ref,
    versions: Annotated[int, typer.Option(min=1, max=1000, help="How many versions to show.")] = 10,
    json: Json = False,
) -> None:
    """Show one record: its fields, its versions as differences, its corrections, and who edits it."""
    from interlock.insight import data
    from interlock.ports.store import Capability

    page = ask(store_url, Capability.RECORDS, lambda insight: insight.record(ref, limit=versions))
    if json:
        print_json(data(page))
        return
    _print_page(page, ref)


@app.command()
@with_store
def explain(store_url: StoreUrl, ref: Ref, json: Json = False) -> None:
    """Explain a record: who edits it, who waits, what may follow, and whether its writes lose to others."""
    from interlock.insight import Kind

    explain_subject(store_url, Kind.RECORD, ref, json)


@app.command()
@with_store
def diagram(
    store_url: StoreUrl,
    kind: Annotated[str, typer.Argument(help="The kind, such as Intent.")],
    text: Annotated[bool, typer.Option("--text", help="Print lines for people instead of Mermaid.")] = False,
    json: Json = False,
) -> None:
    """Print the machine of a kind as a Mermaid state diagram, or as text."""
    from interlock.errors import NotFoundError
    from interlock.insight import data
    from interlock.ports.store import Capability

    declared = ask(store_url, Capability.RECORDS, lambda insight: insight.record_kind(kind))
    if declared.machine is None:
        raise NotFoundError(f"The kind {kind!r} has no machine.", remedy="Declare one: app.records(…, machine=…).")
    if json:
        print_json(data(declared))
        return
    if "machine" in declared.others:
        say("Another version of the program declares another machine; this is the newest.")
    if text:
        for line in _machine_lines(declared.machine):
            typer.echo(shown(line))
    else:
        typer.echo("\n".join(map(shown, declared.machine.diagram.splitlines())))


def _counts(row: RecordKindRow) -> Iterator[str]:
    from interlock.ports.record_insight import MAX_RECORDS_COUNTED

    for status, count in row.statuses.items():
        if status:
            yield f"{count:,}{'+' if count >= MAX_RECORDS_COUNTED else ''} {status}"


def _machine_lines(machine: MachineView) -> Iterator[str]:
    """One line for each status: what may follow it."""
    width = max(map(len, machine.transitions))
    for status, followers in machine.transitions.items():
        notes = ["initial"] * (status in machine.initial) + ["final"] * (status in machine.final)
        notes += ["set by corrections"] * (status == machine.corrected)
        others = [one for one in followers if one != status]
        follows = f"-> {', '.join(others)}" if others else ""
        note = f"({', '.join(notes)})" if notes else ""
        yield " ".join(filter(None, (status.ljust(width), follows, note))).rstrip()


def _print_page(page: RecordPage, ref: str) -> None:
    out = console()
    for line in page.explanation.lines:
        out.print(shown(line), soft_wrap=True)
    if page.fields is not None:
        print_formatted(page.fields, f"interlock records show {ref} --json")
    if page.correction_count:
        out.print(f"corrections: {page.correction_count}", soft_wrap=True)
        for one in page.corrections[:_MAX_CHANGES]:
            out.print(shown(f"  {moment(one.at)} {one.source}: {one.reason}"), soft_wrap=True)
    if page.declared is not None:
        out.print(shown(_strategies(page.declared)), soft_wrap=True)
    if page.versions:
        _VERSIONS.print(page.versions)
    if page.more is not None:
        say(f"There are older versions: interlock journal list --kind record --key {page.kind}:{page.id}")


def _strategies(declared: DeclaredKind) -> str:
    parts = [
        f"{operation} {strategy}" + (" (waits without a limit)" if wait is None else f" (waits {wait:g} s)")
        for operation, (strategy, wait) in declared.strategies.items()
    ]
    return f"strategies: {', '.join(parts)}"


def _changes(version: RecordVersion) -> str:
    """The difference on one line."""
    parts = [
        f"{one.path}: {one.after}" if one.before is None else f"{one.path}: {one.before} -> {one.after or 'removed'}"
        for one in version.changes[:_MAX_CHANGES]
    ]
    more = len(version.changes) - _MAX_CHANGES
    return "; ".join(parts) + (f"; and {more} more" if more > 0 else "")


def _number(version: int | None) -> str:
    return "" if version is None else str(version)
