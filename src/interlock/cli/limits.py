"""``interlock limits``: list, show, resize and reset limits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from interlock.cli.confirmation import By, named
from interlock.cli.explanations import explain_subject
from interlock.cli.insight_reader import ask, whole_list
from interlock.cli.operations import OptionalReason, operate
from interlock.cli.output import Json, Limit, console, print_json, say, say_if_cut, shown
from interlock.cli.store_url import Namespace, StoreUrl, Url, chosen_store, with_store
from interlock.cli.tables import Column, Table, moment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.insight import Insight, LimitRow, LimitSetting

__all__ = ["app"]

app = typer.Typer(help="List, show, resize and reset limits.", invoke_without_command=True)
Key = Annotated[str, typer.Argument(help="The limit's full key, such as slots:containers or cooldown:account:a1.")]
Name = Annotated[
    str,
    typer.Argument(
        help="The kind and name of a limit, for all of its keys (cooldown:account), or one whole key"
        " (cooldown:account:a1). A name alone is one of slots."
    ),
]
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
    """List, show, resize and reset limits. Without a command: list."""
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
        for line in page.explanation.lines:
            say(line)
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

    async def both(insight: Insight) -> tuple[list[LimitRow], Sequence[LimitSetting]]:
        return await look(insight), await insight.limit_settings()

    rows, settings = ask(store_url, Capability.LIMITS, both)
    if json:
        print_json([data(row) for row in rows])
    elif rows:
        _TABLE.print(rows)
    else:
        say("No limits are in use.")
    if not json:
        for setting in settings:
            say(f"{setting.by} set {setting.name} to {setting.figure} at {moment(setting.at)}: {setting.reason}")
    say_if_cut(len(rows), limit)


@app.command()
@with_store
def resize(
    store_url: StoreUrl,
    name: Name,
    size: Annotated[float, typer.Argument(help="How many slots or starts, or the seconds of a cooldown.")],
    reason: Annotated[str, typer.Option(help="Why; shown with the limit and kept in the journal.")],
    per: Annotated[float | None, typer.Option(help="The period of a rate, in seconds.")] = None,
    by: By = None,
    json: Json = False,
) -> None:
    """Set how much a limit allows, for all processes and also for jobs that are enqueued already.

    A smaller size blocks only new starts. A larger one wakes waiters at once.
    """
    from interlock.explanation import command
    from interlock.limits.explain import figure
    from interlock.limits.kinds import new_figure
    from interlock.ports.store import Capability

    by = named("Resizing a limit", reason, by)
    wanted = new_figure(name, int(size) if size.is_integer() else size, per)
    before = operate(
        store_url, Capability.LIMITS, lambda operations: operations.resize_limit(wanted, by=by, reason=reason)
    )
    if json:
        was = None if before is None else {"count": before.max_count, "per": before.per, "by": before.set_by}
        print_json({"limit": wanted.key, "count": wanted.max_count, "per": wanted.per, "by": by, "before": was})
    else:
        allows = figure(wanted.max_count, wanted.per)
        typer.echo(shown(f"{wanted.key!r} allows {allows}. To undo that: {command('limits', 'reset', wanted.key)}"))


@app.command()
@with_store
def reset(store_url: StoreUrl, name: Name, reason: OptionalReason = "", by: By = None, json: Json = False) -> None:
    """Let the figures in the code apply again to a limit that was resized."""
    from interlock.errors import NotFoundError
    from interlock.limits.kinds import limit_name
    from interlock.ports.store import Capability

    by, key = named("Resetting a limit", reason or None, by), limit_name(name)
    if (
        operate(store_url, Capability.LIMITS, lambda operations: operations.reset_limit(key, by=by, reason=reason))
        is None
    ):
        raise NotFoundError(f"The limit {key!r} was not resized.", remedy="List limits with: interlock limits list.")
    if json:
        print_json({"limit": key, "by": by, "reason": reason, "reset": True})
    else:
        typer.echo(shown(f"Reset {key!r}."))


@app.command()
@with_store
def explain(store_url: StoreUrl, key: Key, json: Json = False) -> None:
    """Explain a limit: what it allows, its holders, jobs included, and its waiters."""
    from interlock.insight import Kind

    explain_subject(store_url, Kind.LIMIT, key, json)
