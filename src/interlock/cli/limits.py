"""``interlock limits``: which limits are in use, who is at work under them, and who waits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from interlock.cli.insight_reader import ask, whole_list
from interlock.cli.output import Json, Limit, console, print_json, say, say_if_cut, shown
from interlock.cli.store_url import Namespace, StoreUrl, Url, chosen_store

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.insight import Insight, LimitRow

__all__ = ["app"]

app = typer.Typer(help="Which limits are in use, and who waits for them.", invoke_without_command=True)
Key = Annotated[str, typer.Argument(help="The limit's full key, such as slots:containers or cooldown:account:a1.")]
_MOST = 1000


@app.callback()
def _limits(context: typer.Context, json: Json = False, url: Url = None, namespace: Namespace = None) -> None:
    """Which limits are in use, and who waits for them. Without a command: list."""
    store_url = chosen_store(context, url, namespace)
    if context.invoked_subcommand is None:
        _list(store_url, _MOST, json)
    elif json:
        raise typer.BadParameter("goes after the command.", context, param_hint="--json")


@app.command("list")
def list_limits(
    context: typer.Context,
    limit: Limit = _MOST,
    json: Json = False,
    url: Url = None,
    namespace: Namespace = None,
) -> None:
    """Show all limits in use, by key, as one snapshot."""
    _list(chosen_store(context, url, namespace), limit, json)


@app.command()
def show(context: typer.Context, key: Key, json: Json = False, url: Url = None, namespace: Namespace = None) -> None:
    """Show one limit: who is at work, and who waits in which order, for what and until when."""
    from interlock.ports.store import Capability

    page = ask(chosen_store(context, url, namespace), Capability.LIMITS, lambda insight: insight.limit(key))
    if json:
        print_json(page.explanation.data)
    elif not page.rows:
        say(page.explanation.lines[0])
    else:
        _print(page.rows)
        out = console()
        for line in page.explanation.lines:
            out.print(shown(line), soft_wrap=True)


def _list(store_url: StoreUrl, limit: int, json: bool) -> None:
    from interlock.insight import data
    from interlock.ports.store import Capability

    async def look(insight: Insight) -> list[LimitRow]:
        return await whole_list(limit, lambda most, after: insight.limits(limit=most, after=after))

    rows = ask(store_url, Capability.LIMITS, look)
    if json:
        print_json([data(row) for row in rows])
    elif rows:
        _print(rows)
    else:
        say("No limit is in use.")
    say_if_cut(len(rows), limit)


def _print(rows: Sequence[LimitRow]) -> None:
    from rich import box
    from rich.table import Table

    table = Table("key", "counts", "figure", box=box.SIMPLE_HEAD)
    table.add_column("at work", justify="right")
    table.add_column("waiting", justify="right")
    table.add_column("how it stands")
    for row in rows:
        table.add_row(shown(row.key), row.counts, row.figure, f"{row.taken:,}", f"{row.waiting:,}", shown(row.why))
    console().print(table)
