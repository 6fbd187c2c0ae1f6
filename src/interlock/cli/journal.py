"""``interlock journal``: who changed what, when and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from interlock.cli.insight_reader import ask, whole_list
from interlock.cli.output import Json, Limit, print_json, say, say_if_cut
from interlock.cli.store_url import Namespace, Url, chosen_store
from interlock.cli.tables import Column, Table, moment, tail

if TYPE_CHECKING:
    from interlock.insight import Insight
    from interlock.ports.journal import JournalEntry

__all__ = ["app"]

app = typer.Typer(help="Show who changed what, when and why.", no_args_is_help=True)
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


def _seconds(text: str) -> float:
    """Parse a time span such as 90s, 15m, 2h or 7d."""
    number, unit = text[:-1], text[-1:]
    if unit not in _UNITS or not number.isascii() or not number.isdecimal() or len(number) > 6:
        raise typer.BadParameter(f"Invalid time span {text[:20]!r}: use a number and s, m, h or d, such as 2h.")
    return int(number) * _UNITS[unit]


_TABLE: Table[JournalEntry] = Table(
    Column("id", lambda entry: str(entry.id), number=True),
    Column("when (UTC)", lambda entry: moment(entry.at), fixed=True),
    Column("actor", lambda entry: entry.actor),
    Column("action", lambda entry: entry.action, fixed=True),
    Column("subject", lambda entry: f"{entry.subject_kind} {entry.subject_key}"),
    Column("reason", lambda entry: tail(entry.reason), min_width=20),
)


@app.command("list")
def list_entries(
    context: typer.Context,
    kind: Annotated[
        str, typer.Option(help="Only entries about this kind of subject: job, lane, lock, claim, cursor or event.")
    ] = "",
    key: Annotated[str, typer.Option(help="Only entries about this subject, such as a job ID; needs --kind.")] = "",
    actor: Annotated[str, typer.Option(help="Only entries of this actor.")] = "",
    action: Annotated[str, typer.Option(help="Only entries with this action, such as job.retry.")] = "",
    since: Annotated[
        float | None,
        typer.Option(metavar="SPAN", parser=_seconds, help="Only entries of the last 90s, 15m, 2h, 7d, …."),
    ] = None,
    limit: Limit = 100,
    json: Json = False,
    url: Url = None,
    namespace: Namespace = None,
) -> None:
    """List journal entries, newest first."""
    import time

    from interlock.insight import data
    from interlock.ports.journal import JournalFilter
    from interlock.ports.store import Capability

    wanted = JournalFilter(kind, key, actor, action, None if since is None else time.time() - since)

    async def look(insight: Insight) -> list[JournalEntry]:
        return await whole_list(limit, lambda limit, before: insight.journal(wanted, limit=limit, before=before))

    entries = ask(chosen_store(context, url, namespace), Capability.JOURNAL, look)
    if json:
        print_json([data(entry) for entry in entries])
    elif entries:
        _TABLE.print(entries)
    else:
        say("The journal has no such entry." if any(wanted) else "The journal is empty.")
    say_if_cut(len(entries), limit)


@app.command()
def show(
    context: typer.Context,
    entry_id: Annotated[int, typer.Argument(min=1, max=2**63 - 1, metavar="ID", help="The ID of the entry.")],
    json: Json = False,
    url: Url = None,
    namespace: Namespace = None,
) -> None:
    """Show one entry in full, with the subject before and after the change."""
    from interlock.cli.output import print_formatted
    from interlock.errors import NotFoundError
    from interlock.insight import data
    from interlock.ports.store import Capability

    async def look(insight: Insight) -> JournalEntry | None:
        return await insight.journal_entry(entry_id)

    entry = ask(chosen_store(context, url, namespace), Capability.JOURNAL, look)
    if entry is None:
        raise NotFoundError(
            f"The journal entry {entry_id} does not exist.", remedy="List them with: interlock journal list."
        )
    if json:
        print_json(data(entry))
        return
    _TABLE.print([entry])
    shown = data(entry)
    about = {name: shown[name] for name in ("before", "after", "cause_event", "cause_job", "cause_fence")}
    print_formatted(about, f"interlock journal show {entry_id} --json")
