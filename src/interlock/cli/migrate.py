"""``interlock migrate``: bring a store's schema up to date, see how it stands, or print the SQL that would do it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from interlock.cli.output import Json, console, print_json, say
from interlock.cli.store_url import Namespace, Place, Url, named_place

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.ports.migrations import Migration, Migrations

__all__ = ["app"]

app = typer.Typer(help="The versions of the store's schema.", no_args_is_help=True)


@app.command()
def up(context: typer.Context, json: Json = False, url: Url = None, namespace: Namespace = None) -> None:
    """Apply what is pending. Any number of processes may do so at once."""
    migrations = _migrations(named_place(context, url, namespace))
    applied = asyncio.run(_up(migrations))
    if json:
        print_json([_as_data(migration) for migration in applied])
        return
    for migration in applied:
        typer.echo(f"{migration.version:04} {migration.name}")
    say(f"Applied {len(applied)}; the schema is complete." if applied else "Nothing to apply; the schema is complete.")


@app.command()
def status(context: typer.Context, json: Json = False, url: Url = None, namespace: Namespace = None) -> None:
    """Show every migration, and when it was applied."""
    migrations = _migrations(named_place(context, url, namespace))
    found = asyncio.run(_status(migrations))
    if json:
        print_json([_as_data(migration) for migration in found])
        return
    from rich import box
    from rich.table import Table

    table = Table("version", "name", "applied", box=box.SIMPLE_HEAD)
    for migration in found:
        table.add_row(f"{migration.version:04}", migration.name, _when(migration) or "pending")
    console().print(table)
    pending = sum(migration.applied_at is None for migration in found)
    say(f"{pending} pending: run interlock migrate up." if pending else "All applied.")


@app.command()
def sql(
    context: typer.Context,
    pending: Annotated[bool, typer.Option("--pending", help="Only what the store lacks; connects to it.")] = False,
    url: Url = None,
    namespace: Namespace = None,
) -> None:
    """Print the SQL of all migrations, to apply it with other tools. The URL only says for which kind of store."""
    migrations = _migrations(named_place(context, url, namespace))
    wanted = None
    if pending:
        wanted = [migration for migration in asyncio.run(_status(migrations)) if migration.applied_at is None]
        if not wanted:
            say("Nothing is pending.")
            return
    typer.echo(migrations.script(wanted), nl=False)


@app.command()
def grants(
    context: typer.Context,
    worker: Annotated[
        list[str] | None, typer.Option(metavar="ROLE", help="May do all that apps and workers do.")
    ] = None,
    reader: Annotated[list[str] | None, typer.Option(metavar="ROLE", help="May look, and change nothing.")] = None,
    enqueuer: Annotated[list[str] | None, typer.Option(metavar="ROLE", help="May call interlock.enqueue only.")] = None,
    url: Url = None,
    namespace: Namespace = None,
) -> None:
    """Print the SQL that gives PostgreSQL roles what they need. Run it as the owner after every migrate up."""
    from interlock.errors import MisuseError

    if not (worker or reader or enqueuer):
        raise MisuseError("No role was named.", remedy="Use --worker ROLE, --reader ROLE or --enqueuer ROLE.")
    migrations = _migrations(named_place(context, url, namespace))
    script = migrations.grants(workers=worker or (), readers=reader or (), enqueuers=enqueuer or ())
    typer.echo(script, nl=False)


def _migrations(place: Place) -> Migrations:
    from interlock.errors import CapabilityError

    store = place.store()
    if store.migrations is None:
        raise CapabilityError(f"A store of kind {store.name} has no schema.", remedy="There is nothing to migrate.")
    return store.migrations


async def _up(migrations: Migrations) -> Sequence[Migration]:
    return await migrations.up()


async def _status(migrations: Migrations) -> Sequence[Migration]:
    return await migrations.status()


def _as_data(migration: Migration) -> dict[str, Any]:
    return {"version": migration.version, "name": migration.name, "applied_at": _when(migration)}


def _when(migration: Migration) -> str | None:
    from interlock.clock import as_text

    return None if migration.applied_at is None else as_text(migration.applied_at)
