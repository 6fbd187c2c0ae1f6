"""``interlock limits``: list and show limits, their holders and their waiters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from interlock.cli.explanations import explain_subject
from interlock.cli.insight_reader import ask, whole_list
from interlock.cli.output import Json, Limit, console, print_json, say, say_if_cut, shown
from interlock.cli.store_url import Namespace, StoreUrl, Url, chosen_store, with_store
from interlock.cli.tables import Column, Table

if TYPE_CHECKING:
    from interlock.insight import Insight, LimitRow

__all__ = ["app"]

app = typer.Typer(help="List and show limits, their holders and their waiters.", invoke_without_command=True)
Key = Annotated[str, typer.Argument(help="The limit's full key, such as slots:containers or cooldown:account:a1.")]
_MAX = 1000


_TABLE: Table[LimitRow] = Table(
    Column("key", lambda row: row.key),
    Column("counts", lambda row: row.counts, fixed=True),
    Column("allows", lambda row: row.figure, fixed=True),
    Column("in use", lambda row: row.taken, number=True),
    Column("waiting", lambda row: row.waiting, number=True),
    Column("status", lambda row: row.why),
)


@app.callback()
def _limits(context: typer.Context, json: Json = False, url: Url = None, namespace: Namespace = None) -> None:
    """List and show limits, their holders and their waiters. Without a command: list."""
    store_url = chosen_store(context, url, namespace)
    if context.invoked_subcommand is None:
        _list(store_url, _MAX, json)
    elif json:
        raise typer.BadParameter("goes after the command.", context, param_hint="--json")


@app.command("list")
@with_store
def list_limits(
    store_url: StoreUrl,
    limit: Limit = _MAX,
    json: Json = False,
) -> None:
    """List the limits in use, by key, from one snapshot."""
    _list(store_url, limit, json)


@app.command()
@with_store
def show(store_url: StoreUrl, key: Key, json: Json = False) -> None:
    """Show one limit: its holders, and its waiters in order."""
    from interlock.ports.store import Capability

    page = ask(store_url, Capability.LIMITS, lambda insight: insight.limit(key))
    if json:
        print_json(page.explanation.data)
    elif not page.rows:
        say(page.explanation.lines[0])
    else:
        _TABLE.print(page.rows)
        out = console()
        for line in page.explanation.lines:
            out.print(shown(line), soft_wrap=True)


def _list(store_url: StoreUrl, limit: int, json: bool) -> None:
    from interlock.insight import data
    from interlock.ports.store import Capability

    async def look(insight: Insight) -> list[LimitRow]:
        return await whole_list(limit, lambda limit, after: insight.limits(limit=limit, after=after))

    rows = ask(store_url, Capability.LIMITS, look)
    if json:
        print_json([data(row) for row in rows])
    elif rows:
        _TABLE.print(rows)
    else:
        say("No limits are in use.")
    say_if_cut(len(rows), limit)


@app.command()
@with_store
def explain(store_url: StoreUrl, key: Key, json: Json = False) -> None:
    """Explain a limit: what it allows, its holders, jobs included, and its waiters."""
    from interlock.insight import Kind

    explain_subject(store_url, Kind.LIMIT, key, json)
